//! The folder in which conversations are kept when none is named: a history file each, with the files beside it. Not what is
//! in them; that is the store's.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::clock;
use super::original::beside;
use super::{journal, sidecar};
use crate::checkpoint::atomic;
use crate::text::{Message, Role};

/// What stands behind a history's name in that of the file with the name that a person gave it.
const TITLE: &str = ".title";

/// Characters of a title.
const LONGEST: usize = 60;

/// A conversation that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its history file.
    pub path: PathBuf,
    /// What it is called: the name that it was given, else the first line of its first message.
    pub title: String,
    /// When it was changed last: RFC 3339 in UTC.
    pub when: String,
    /// Messages in it.
    pub messages: usize,
}

/// The folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    /// Conversations in this folder, which is made, for its owner alone, when it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        atomic::private_folder(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Whether it is this folder.
    pub fn is_at(&self, folder: &Path) -> bool {
        self.folder == folder
    }

    /// A file for a new conversation, named by the time.
    pub fn new_path(&self) -> PathBuf {
        let name = clock::now().replace(':', "-");
        let name = name.trim_end_matches('Z');
        let free = |path: &PathBuf| !path.exists();
        let first = self.folder.join(format!("{name}.jsonl"));
        let others = (2_u32..).map(|n| self.folder.join(format!("{name}-{n}.jsonl")));
        std::iter::once(first.clone())
            .chain(others)
            .find(free)
            .unwrap_or(first)
    }

    /// All conversations with something in them, the last changed first. One that cannot be read is left out.
    pub fn list(&self) -> Vec<Kept> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let histories = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let mut kept: Vec<Kept> = histories.filter_map(|path| look(&path)).collect();
        kept.sort_by(|a, b| b.when.cmp(&a.when).then_with(|| b.path.cmp(&a.path)));
        kept
    }

    /// Copies a conversation as it was saved last to a new file, which it gives.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn fork(&self, path: &Path) -> io::Result<PathBuf> {
        let copy = self.new_path();
        let title = match look(path) {
            Some(kept) => format!("{} (copy)", kept.title),
            None => "copy".to_owned(),
        };
        // The facts first: without the history they are nothing.
        let facts = beside(path, sidecar::SUFFIX);
        if facts.exists() {
            atomic::replace(
                &beside(&copy, sidecar::SUFFIX),
                atomic::Access::Private,
                &fs::read(facts)?,
            )?;
        }
        atomic::replace(&copy, atomic::Access::Private, &fs::read(path)?)?;
        rename(&copy, &title)?;
        Ok(copy)
    }

    /// Removes a conversation of this folder in which nothing was said.
    pub fn drop_empty(&self, path: &Path) {
        let empty = fs::metadata(path).is_ok_and(|file| file.len() == 0);
        let whole = !beside(path, journal::SUFFIX).exists();
        if path.parent() == Some(&self.folder) && empty && whole {
            for end in ["", sidecar::SUFFIX, TITLE, ".lock"] {
                // What stays is an empty file that no list shows.
                let _ = fs::remove_file(beside(path, end));
            }
        }
    }
}

/// Gives a conversation a name.
///
/// # Errors
/// It cannot be written down.
pub fn rename(path: &Path, title: &str) -> io::Result<()> {
    let title = shortened(title);
    atomic::replace_own(&beside(path, TITLE), title.as_bytes())
}

fn look(path: &Path) -> Option<Kept> {
    let file = fs::File::open(path).ok()?;
    let modified = file.metadata().ok()?.modified().ok()?;
    let mut first = None;
    let mut messages = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.ok()?;
        messages += 1;
        if first.is_none() {
            let message = serde_json::from_slice::<Message>(&line).ok();
            first = message.filter(|message| message.role == Role::User);
        }
    }
    let given = fs::read_to_string(beside(path, TITLE)).ok();
    let said = || first.as_ref().map(|message| shortened(&message.content));
    let title = given.filter(|title| !title.is_empty()).or_else(said);
    (messages > 0).then(|| Kept {
        path: path.to_owned(),
        title: title.unwrap_or_else(|| "(no message)".to_owned()),
        when: clock::utc(
            modified
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        ),
        messages,
    })
}

/// The first line with something in it, cut.
fn shortened(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or_default()
        .trim()
        .chars()
        .take(LONGEST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALK: &str = "{\"role\":\"system\",\"content\":\"Be kind.\"}\n{\"role\":\"user\",\"content\":\"\\nWhat is a ring?\\nSay.\"}\n";

    #[test]
    fn conversations_are_listed_by_their_first_line_or_their_name() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(&folder.path().join("in")).unwrap();
        assert_eq!(shelf.list(), []);
        let path = shelf.new_path();
        fs::write(&path, TALK).unwrap();
        fs::write(shelf.new_path(), "").unwrap();
        let list = shelf.list();
        assert_eq!(
            (list.len(), list[0].title.as_str(), list[0].messages),
            (1, "What is a ring?", 2)
        );
        rename(&path, "Rings\nand more").unwrap();
        assert_eq!(shelf.list()[0].title, "Rings");
    }

    #[test]
    fn a_copy_is_another_conversation() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path()).unwrap();
        let path = shelf.new_path();
        fs::write(&path, TALK).unwrap();
        let copy = shelf.fork(&path).unwrap();
        assert_ne!(copy, path);
        assert_eq!(fs::read_to_string(&copy).unwrap(), TALK);
        let titles: Vec<String> = shelf.list().into_iter().map(|kept| kept.title).collect();
        assert!(
            titles.contains(&"What is a ring? (copy)".to_owned()),
            "{titles:?}"
        );
    }

    #[test]
    fn only_what_is_empty_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path()).unwrap();
        let (empty, full) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        fs::write(&empty, "").unwrap();
        fs::write(&full, TALK).unwrap();
        shelf.drop_empty(&empty);
        shelf.drop_empty(&full);
        assert!(!empty.exists() && full.exists());
    }
}
