//! Links that somebody planted where the program makes files by itself.

use std::fs;
use std::os::unix::fs::symlink;

use crate::talk;

/// The history may be a link: a person named it. What the program makes beside it may not lead elsewhere.
#[test]
fn planted_links_lead_nowhere() {
    let home = tempfile::tempdir().unwrap();
    let (away, here) = (home.path().join("away"), home.path().join("here"));
    fs::create_dir(&away).unwrap();
    fs::create_dir(&here).unwrap();
    let precious = away.join("precious");
    fs::write(&precious, "as it was").unwrap();
    for suffix in [".k3", ".journal", ".draft", ".title", ".taken-back"] {
        symlink(&precious, here.join(format!("talk.jsonl{suffix}"))).unwrap();
    }
    let real = home.path().join("talk.jsonl");
    symlink(&real, here.join("linked.jsonl")).unwrap();
    for name in ["talk.jsonl", "linked.jsonl"] {
        let output = talk(home.path(), &here.join(name));
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "as it was");
    assert_eq!(fs::read_dir(&away).unwrap().count(), 1);
    let messages = k3::text::history::read(&here.join("talk.jsonl")).unwrap();
    assert_eq!(messages.len(), 2);
    // The person's own link is followed, and stays.
    assert_eq!(k3::text::history::read(&real).unwrap(), messages);
    assert!(
        fs::symlink_metadata(here.join("linked.jsonl"))
            .unwrap()
            .is_symlink()
    );
}

/// A lock that leads elsewhere is none, and is not written through.
#[test]
fn a_planted_lock_is_not_written_through() {
    let home = tempfile::tempdir().unwrap();
    let precious = home.path().join("precious");
    fs::write(&precious, "as it was").unwrap();
    let history = home.path().join("talk.jsonl");
    symlink(&precious, home.path().join("talk.jsonl.lock")).unwrap();
    let output = talk(home.path(), &history);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "as it was");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("talk.jsonl.lock cannot be made"), "{said}");
}
