//! Conversations are their owner's: every file and folder that the program makes for them, whatever the umask says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::at_home;

/// All that is in a folder, at any depth.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn what_a_conversation_leaves_is_its_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    let history = home.path().join("talk.jsonl");
    let line = "umask 000; exec \"$0\" chat --demo --no-think --gen 6 --history \"$1\"";
    let output = at_home("sh", home.path())
        .args(["-c", line, env!("CARGO_BIN_EXE_k3")])
        .arg(&history)
        .stdin({
            let input = home.path().join("input");
            fs::write(&input, "hello\n/undo\nthanks\n").unwrap();
            fs::File::open(input).unwrap()
        })
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::remove_file(home.path().join("input")).unwrap();
    let made = all(home.path());
    for name in [
        "talk.jsonl",
        "talk.jsonl.k3",
        "talk.jsonl.lock",
        "lock",
        "tiktoken.model",
    ] {
        let there = made.iter().any(|path| path.ends_with(name));
        assert!(there, "{name} was not made: {made:?}");
    }
    let states = made
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "k3state"));
    assert!(states.count() > 0, "no state was kept: {made:?}");
    for path in made {
        let meta = fs::metadata(&path).unwrap();
        let mode = meta.permissions().mode() & 0o777;
        let want = if meta.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, want, "{}: {mode:o}", path.display());
    }
}

/// A folder for conversations and one for what was copied are made by other parts of the program.
#[test]
fn folders_of_conversations_are_their_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data/conversations");
    let shelf = k3::chat::Shelf::open(&folder).unwrap();
    for path in [folder.as_path(), folder.parent().unwrap()] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", path.display());
    }
    let path = shelf.new_path();
    k3::chat::HistoryFile::new(&path)
        .save(&[k3::text::Message::user("x")])
        .unwrap();
    k3::chat::shelf::rename(&path, "a name").unwrap();
    for path in all(&folder) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}
