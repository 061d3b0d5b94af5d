//! Names and texts that hold what a terminal obeys: in no message, on no screen.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::{at_home, k3};

/// Sets the window's title, clears the screen, colours, in both forms that terminals know.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{7f}\u{8}x";
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-a");

/// That nothing in there is obeyed. Whether the name was shown.
fn is_harmless(said: &[u8], place: &str) -> bool {
    let said = String::from_utf8_lossy(said);
    let obeyed = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
    let found = said.chars().find(obeyed);
    assert_eq!(found, None, "{place}: {said:?}");
    said.contains("\u{241b}]0;owned")
}

#[test]
fn no_message_of_a_command_passes_a_terminals_commands_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let hostile = home.join(HOSTILE);
    let (gone, inside) = (hostile.to_str().unwrap(), hostile.join("deep/er"));
    let inside = inside.to_str().unwrap();
    let file = home.join(format!("{HOSTILE}.json"));
    fs::write(&file, format!("{{\"{HOSTILE}\": [")).unwrap();
    let file = file.to_str().unwrap();
    let lines: [&[&str]; 26] = [
        &[HOSTILE],
        &[HOSTILE, "--chat"],
        &["--chat", HOSTILE],
        &["run", gone, "--ids", "1"],
        &["run", TINY, "--ids", HOSTILE],
        &["run", TINY, "--ids", "1", "--preset", HOSTILE],
        &["run", TINY, "--ids", "1", "--out", inside],
        &["run", TINY, "--ids", "1", "--save-state", inside],
        &["run", TINY, "--load-state", gone],
        &["run", TINY, "--load-state", file],
        &["run", TINY, "--ids", "1", "--trunk", gone],
        &["run", TINY, "--ids", "1", "--trace", inside],
        &["run", TINY, "--ids", "1", "--config", file],
        &["run", TINY, "--prompt-file", gone],
        &["chat", gone],
        &["chat", "--demo", "--history", file],
        &["chat", "--demo", "--tok", gone],
        &["plan", gone],
        &["presets", gone],
        &["pack", gone, "out"],
        &["pack", TINY, file],
        &["synth", inside, "--config", file],
        &["sim-cache", file],
        &["tok", "encode", "x", "--tok", gone],
        &["tok", "render", file, "--tok", gone],
        &["tok", "sample", "--logits", HOSTILE],
    ];
    let mut shown = 0;
    for line in lines {
        let output = k3(home, line, "");
        let place = format!("{line:?}");
        assert!(!output.status.success(), "{place}");
        assert!(output.stdout.is_empty() || is_harmless(&output.stdout, &place));
        shown += usize::from(is_harmless(&output.stderr, &place));
    }
    assert!(
        shown * 2 > lines.len(),
        "{shown} of {} name it",
        lines.len()
    );
    for settings in [gone, file] {
        let output = at_home(env!("CARGO_BIN_EXE_k3-tui"), home)
            .args(["--settings", settings])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(is_harmless(&output.stderr, "settings"));
    }
}

#[test]
fn commands_that_work_on_hostile_names_say_nothing_that_is_obeyed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = home.join(HOSTILE);
    fs::create_dir(&model).unwrap();
    for entry in fs::read_dir(TINY).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), model.join(entry.file_name())).unwrap();
    }
    let model = model.to_str().unwrap();
    let [out, state, pack, synth] = ["o", "s", "p", "y"].map(|end| format!("{model}.{end}"));
    let config = format!("{model}/config.json");
    let lines: [&[&str]; 5] = [
        &["plan", model],
        &["presets", model],
        &[
            "run",
            model,
            "--ids",
            "1,2",
            "--gen",
            "2",
            "--out",
            &out,
            "--save-state",
            &state,
        ],
        &["pack", model, &pack],
        &["synth", &synth, "--config", &config],
    ];
    for line in lines {
        let output = k3(home, line, "");
        let place = format!("{line:?}");
        assert!(output.status.success(), "{place}: {output:?}");
        is_harmless(&output.stderr, &place);
        is_harmless(&output.stdout, &place);
    }
}

/// A history, a title and a draft of somebody else on the full screen: what the terminal gets has nothing of theirs in it that
/// it would obey.
#[test]
fn the_screen_shows_hostile_conversations_and_obeys_none() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let history = home.join(format!("{HOSTILE}.jsonl"));
    let line = |role: &str| {
        // Markdown may write a character as its number, too.
        let text = format!("{HOSTILE}here &#27;]0;owned&#7;\n\n# {HOSTILE}\n\n- `{HOSTILE}`\n");
        serde_json::json!({"role": role, "content": text, "reasoning_content": text}).to_string()
    };
    fs::write(
        &history,
        format!("{}\n{}\n", line("user"), line("assistant")),
    )
    .unwrap();
    let draft = serde_json::json!({"draft": HOSTILE, "queue": []}).to_string();
    fs::write(home.join(format!("{HOSTILE}.jsonl.draft")), draft).unwrap();
    let sent = screen(home, &["--demo", "--history", history.to_str().unwrap()]);
    let shown = String::from_utf8_lossy(&sent);
    assert!(shown.contains("owned"), "nothing of it was shown: {shown}");
    for obeyed in [
        "\u{1b}]0;owned",
        "\u{1b}]2;owned",
        "\u{9b}31m",
        "\u{7f}\u{8}x",
    ] {
        assert!(!shown.contains(obeyed), "{obeyed:?} reached the terminal");
    }
}

/// Runs `k3-tui` on a terminal until it is idle and told to end; all that it sent.
fn screen(home: &Path, words: &[&str]) -> Vec<u8> {
    let size = PtySize {
        rows: 30,
        cols: 100,
        pixel_width: 0,
        pixel_height: 0,
    };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_k3-tui"));
    command.args(words);
    command.env("TERM", "xterm-256color");
    command.env_remove("TMUX");
    for folder in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(folder, home);
    }
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let sent = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let mut reader = pair.master.try_clone_reader().unwrap();
    let gathered = Arc::clone(&sent);
    let listen = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = reader.read(&mut bytes) {
            gathered.0.lock().unwrap().extend_from_slice(&bytes[..n]);
            gathered.1.notify_all();
        }
    });
    let has = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|w| w == word.as_bytes());
    let seen = sent.0.lock().unwrap();
    // Far more than anything takes: only a failure waits so long.
    let wait = Duration::from_secs(120);
    let waiting = |bytes: &mut Vec<u8>| !(has(bytes, "idle") && has(bytes, "owned"));
    let (seen, late) = sent.1.wait_timeout_while(seen, wait, waiting).unwrap();
    assert!(!late.timed_out(), "{}", String::from_utf8_lossy(&seen));
    drop(seen);
    let id = i32::try_from(child.process_id().unwrap()).unwrap();
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    drop(pair.master);
    listen.join().unwrap();
    std::mem::take(&mut *sent.0.lock().unwrap())
}
