//! What was written and not sent, in a file beside the history: a program that is killed loses none of it. Written by a thread
//! of its own, since a drive that is busy may take its time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde::{Deserialize, Serialize};

use crate::chat::beside;
use crate::checkpoint::atomic;

/// What stands behind the history's name.
const SUFFIX: &str = ".draft";

/// What was not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsent {
    /// The message being written.
    pub draft: String,
    /// Messages that wait, oldest first.
    pub queue: Vec<String>,
}

impl Unsent {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.draft.is_empty() && self.queue.is_empty()
    }

    /// What was left behind beside this history; nothing where there is nothing, or nothing that can be read.
    pub fn of(history: &Path) -> Self {
        Self::read(&beside(history, SUFFIX)).unwrap_or_default()
    }

    fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// What a program that is gone left behind in this folder and that no conversation will bring back, since nothing was
    /// said in it. It is taken: the file goes.
    pub fn orphan(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        let orphans = files.into_iter().rev().filter(|file| {
            let name = file.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            name.is_some_and(|history| Self::unheld(Path::new(history)))
        });
        for file in orphans {
            if let Some(unsent) = Self::read(&file) {
                let _ = fs::remove_file(&file);
                return unsent;
            }
        }
        Self::default()
    }

    /// Whether nothing was said in this conversation and nobody has it open.
    fn unheld(history: &Path) -> bool {
        let empty = fs::metadata(history).map_or(true, |file| file.len() == 0);
        empty && crate::chat::is_free(history)
    }

    /// Writes it, or removes the file where there is nothing.
    fn write(&self, history: &Path) -> io::Result<()> {
        let file = beside(history, SUFFIX);
        if self.is_empty() {
            return match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let bytes = serde_json::to_vec(self)?;
        atomic::replace_own(&file, &bytes)
    }
}

/// Writes what it is given last.
#[derive(Debug)]
pub struct Keeper {
    given: Sender<(PathBuf, Unsent)>,
    thread: Option<JoinHandle<()>>,
    last: (PathBuf, Unsent),
}

impl Keeper {
    /// One that has written nothing. Where there can be no thread nothing is kept.
    pub fn start() -> Self {
        let (given, taken) = unbounded();
        let thread = thread::Builder::new().name("drafts".to_owned());
        Self {
            given,
            thread: thread.spawn(move || keep(&taken)).ok(),
            last: Default::default(),
        }
    }

    /// Keeps this, if it differs from what was given last.
    pub fn keep(&mut self, history: &Path, unsent: Unsent) {
        let given = (history.to_owned(), unsent);
        if self.last == given {
            return;
        }
        // What is written goes along to another conversation.
        if self.last.0 != given.0 && !self.last.1.is_empty() {
            let left = (self.last.0.clone(), Unsent::default());
            let _ = self.given.send(left);
        }
        self.last = given.clone();
        let _ = self.given.send(given);
    }

    /// Waits until all is written.
    pub fn finish(self) {
        drop(self.given);
        if let Some(thread) = self.thread {
            let _ = thread.join();
        }
    }
}

fn keep(taken: &Receiver<(PathBuf, Unsent)>) {
    while let Ok(mut given) = taken.recv() {
        // Only the newest of each history counts.
        while let Ok(newer) = taken.try_recv() {
            if newer.0 != given.0 {
                let _ = given.1.write(&given.0);
            }
            given = newer;
        }
        // A drive that takes nothing keeps nothing: the conversation itself says so.
        let _ = given.1.write(&given.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent(draft: &str) -> Unsent {
        Unsent {
            draft: draft.to_owned(),
            queue: vec!["one".to_owned()],
        }
    }

    #[test]
    fn the_last_that_was_given_is_kept_and_nothing_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("talk.jsonl");
        let mut keeper = Keeper::start();
        for n in 0..50 {
            keeper.keep(&history, unsent(&format!("draft {n}\nline")));
        }
        keeper.finish();
        assert_eq!(Unsent::of(&history), unsent("draft 49\nline"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(beside(&history, SUFFIX))
                .unwrap()
                .permissions();
            assert_eq!(mode.mode() & 0o777, 0o600);
        }
        let mut keeper = Keeper::start();
        let other = folder.path().join("other.jsonl");
        keeper.keep(&history, unsent("it goes along"));
        keeper.keep(&other, unsent("it goes along"));
        keeper.keep(&other, Unsent::default());
        keeper.finish();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_torn_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("talk.jsonl");
        fs::write(beside(&history, SUFFIX), "{\"draft\": \"ab").unwrap();
        assert_eq!(Unsent::of(&history), Unsent::default());
    }

    #[test]
    fn what_belongs_to_no_conversation_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        unsent("said").write(&path("a.jsonl")).unwrap();
        fs::write(path("a.jsonl"), "{}\n").unwrap();
        unsent("empty").write(&path("b.jsonl")).unwrap();
        fs::write(path("b.jsonl"), "").unwrap();
        assert_eq!(Unsent::orphan(folder.path()), unsent("empty"));
        assert_eq!(Unsent::orphan(folder.path()), Unsent::default());
        assert_eq!(Unsent::of(&path("a.jsonl")), unsent("said"), "stays");
        // One that somebody has open is nobody else's.
        let held = crate::chat::Store::open(&path("c.jsonl")).unwrap();
        unsent("held").write(&path("c.jsonl")).unwrap();
        assert_eq!(Unsent::orphan(folder.path()), Unsent::default());
        drop(held);
        assert_eq!(Unsent::orphan(folder.path()), unsent("held"));
    }
}
