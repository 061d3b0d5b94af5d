//! The settings of `k3-tui`.

use std::fs;

use k3::tui::Settings;

use crate::harness::{Format, campaign};

#[test]
fn changed_settings_end_in_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("settings.toml");
    Settings::create(&path).unwrap();
    let made = fs::read_to_string(&path).unwrap();
    let on = "model = \"/a/model\"\npreset = \"laptop\"\neffort = \"low\"\ntheme = \"dark\"\nraw = true\nbell = false\n\
              think = \"full\"\nkeep = true\nplain = false\n";
    // Whatever words there are now: only those that are taken are used.
    let on: String = on
        .lines()
        .filter(|line| Settings::parse(line).is_ok())
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(on.lines().count() > 4, "{on}");
    campaign(Format {
        name: "settings.toml",
        file: Some("settings.toml".to_owned()),
        good: vec![made.into_bytes(), on.clone().into_bytes(), on.into_bytes()],
        words: &[
            "preset = \"ultra\"\n",
            "= true",
            "[a]\n",
            "\"\"\"",
            "'\u{1b}]0;x\u{7}'",
            "theme = 7\n",
        ],
        memory: (512, 256 << 10),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            Settings::load(Some(&path))
                .map(|_| ())
                .map_err(|e| e.to_string())
        }),
    });
}
