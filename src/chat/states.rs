//! Saved states of chats in a folder of their own, so that a conversation that is opened again is not read again. Which to
//! take, and which to give up when they take too much. A cache: any of it may go at any time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::checkpoint::{atomic, hex};
use crate::model::{ModelKey, SavedState, State, StateFileError, StateWriter, UNFINISHED};
use crate::system::LockFile;

/// What names of states end with.
const SUFFIX: &str = ".k3state";
/// Locked by whoever writes or removes.
const LOCK: &str = "lock";

/// A folder of states, of at most so many bytes together.
///
/// A state's file is named after its model, the number of its ids and their hash, so that candidates for a prompt are known
/// by name. Files are complete or not there; whoever writes or removes holds a lock, so several programs may use one folder.
#[derive(Clone, Debug)]
pub struct StateStore {
    folder: PathBuf,
    cap: u64,
}

/// What is there for a prompt.
#[derive(Debug, Default)]
pub struct Found {
    /// The state that has seen most of it, with its head read. To be loaded, or left.
    pub state: Option<SavedState>,
    /// Files that could not be used, in words.
    pub skipped: Vec<String>,
}

/// What saving did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is saved, and took so many bytes.
    Whole(u64),
    /// It is larger than all states together may be, and was not saved.
    TooLarge(u64),
}

/// A state's file.
struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl StateStore {
    /// The states in `folder`, which is made if it is not there, readable by its owner alone. Together they take at most
    /// `cap_bytes`.
    ///
    /// # Errors
    /// [`StateFileError::NotSaved`]: the folder cannot be made.
    pub fn open(folder: &Path, cap_bytes: u64) -> Result<Self, StateFileError> {
        atomic::private_folder(folder).map_err(|cause| StateFileError::NotSaved {
            path: folder.to_owned(),
            cause,
        })?;
        let store = Self {
            folder: folder.to_owned(),
            cap: cap_bytes,
        };
        store.tidy();
        Ok(store)
    }

    /// Removes what a killed program left unfinished, unless somebody writes here just now.
    fn tidy(&self) {
        if self.names().any(|name| name.starts_with(UNFINISHED))
            && let Some(lock) = self.lock_file()
            && lock.try_lock().is_ok()
        {
            self.sweep();
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes that all states may take together.
    pub fn cap(&self) -> u64 {
        self.cap
    }

    /// Bytes that they take now.
    pub fn size(&self) -> u64 {
        self.entries().iter().map(|entry| entry.bytes).sum()
    }

    /// Saves a state under its ids: those that were fed, and then any that are still to be. Then the longest unused go
    /// until all fit, never the one just saved.
    ///
    /// # Errors
    /// The state is torn, or the file cannot be written.
    pub fn save(
        &self,
        key: &ModelKey,
        state: &State,
        ids: &[u32],
    ) -> Result<Saved, StateFileError> {
        let bytes = SavedState::file_len(key, state.positions(), ids.len());
        if bytes > self.cap {
            return Ok(Saved::TooLarge(bytes));
        }
        let path = self.folder.join(name(key, ids));
        let _lock = self.lock();
        self.sweep();
        // Room is made first, so that the folder is never larger than it may be, and a full drive has some.
        self.evict(&path, self.cap - bytes);
        let bytes = StateWriter::create(&path)?.save(key, state, ids)?;
        Ok(Saved::Whole(bytes))
    }

    /// The state of this model with the longest ids that the prompt begins with and goes on from, of at most `capacity`
    /// positions. Only heads are read.
    pub fn find(&self, key: &ModelKey, prompt: &[u32], capacity: usize) -> Found {
        let mut found = Found::default();
        let mut counts: Vec<usize> = self.names().filter_map(|name| ids_in(&name)).collect();
        counts.sort_unstable();
        counts.dedup();
        for count in counts
            .into_iter()
            .rev()
            .filter(|count| *count < prompt.len())
        {
            let beginning = &prompt[..count];
            let path = self.folder.join(name(key, beginning));
            if !path.exists() {
                continue;
            }
            let opened = SavedState::open(&path).and_then(|state| {
                state.check(key, capacity)?;
                Ok(state)
            });
            match opened {
                Ok(state) if state.ids() == beginning => {
                    found.state = Some(state);
                    break;
                }
                Ok(_) => found.skipped.push(format!(
                    "{}: the state has other ids than its name says",
                    path.display()
                )),
                // Another program gave it up just now.
                Err(StateFileError::NotRead { cause, .. })
                    if cause.kind() == io::ErrorKind::NotFound => {}
                Err(error) => found.skipped.push(error.to_string()),
            }
        }
        found
    }

    /// Loads a state that was found into a new one, and notes that it was used.
    ///
    /// # Errors
    /// Its values are damaged or cannot be read. Nothing of it is used then.
    pub fn load(
        &self,
        found: SavedState,
        key: &ModelKey,
        fresh: State,
    ) -> Result<(State, Vec<u32>), StateFileError> {
        let path = found.path().to_owned();
        let loaded = found.load(key, fresh)?;
        // If this fails it will only be given up sooner.
        let _ = File::options()
            .append(true)
            .open(path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Ok(loaded)
    }

    /// Gives states up, the longest unused first, until the others take at most `room`. What stands at `path` does not
    /// count: it is about to be replaced.
    fn evict(&self, path: &Path, room: u64) {
        let mut entries = self.entries();
        entries.retain(|entry| entry.path != path);
        entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        let mut size: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries {
            if size <= room {
                break;
            }
            // One that another program removed is gone as well.
            match fs::remove_file(&entry.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => size -= entry.bytes,
            }
        }
    }

    /// Removes what a writer that was killed left behind. Only under the lock, where nobody else is writing.
    fn sweep(&self) {
        for name in self.names().filter(|name| name.starts_with(UNFINISHED)) {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    /// Waits for the other programs that write here. Where a file system has no locks it goes without: at worst another's
    /// save fails, since what it was writing was swept away.
    fn lock(&self) -> Option<LockFile> {
        let file = self.lock_file()?;
        file.lock().ok()?;
        Some(file)
    }

    fn lock_file(&self) -> Option<LockFile> {
        let path = self.folder.join(LOCK);
        atomic::own_options()
            .create(true)
            .append(true)
            .open(path)
            .ok()
            .map(LockFile::from)
    }

    fn entries(&self) -> Vec<Entry> {
        let states = self.names().filter(|name| ids_in(name).is_some());
        let entries = states.filter_map(|name| {
            let path = self.folder.join(name);
            let found = fs::symlink_metadata(&path).ok()?;
            Some(Entry {
                bytes: found.len(),
                used: found.modified().ok()?,
                path,
            })
        });
        entries.collect()
    }

    /// Names in the folder; none where it cannot be read.
    fn names(&self) -> impl Iterator<Item = String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    }
}

/// The name of these ids' state: model, number of ids, hash of ids.
fn name(key: &ModelKey, ids: &[u32]) -> String {
    let mut model = Sha256::new();
    model.update(key.identity);
    model.update(key.config);
    model.update((key.layers as u64).to_le_bytes());
    let mut hash = Sha256::new();
    for id in ids {
        hash.update(id.to_le_bytes());
    }
    let (model, hash) = (hex(&model.finalize()[..8]), hex(&hash.finalize()[..16]));
    format!("{model}-{}-{hash}{SUFFIX}", ids.len())
}

/// The number of ids in the name of a state; none if it is another name.
fn ids_in(name: &str) -> Option<usize> {
    let mut parts = name.strip_suffix(SUFFIX)?.split('-');
    let (_model, count, _hash) = (parts.next()?, parts.next()?, parts.next()?);
    match parts.next() {
        None => count.parse().ok(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Config;
    use std::time::Duration;

    fn config() -> Config {
        let mut config = Config::released();
        config.kda.heads = 1;
        config.kda.head_dim = 4;
        config.mla.kv_rank = 3;
        config
    }

    fn key() -> ModelKey {
        ModelKey::new([1; 32], &config(), 2)
    }

    /// A state that has seen nothing; its ids are all still to be fed.
    fn state() -> State {
        State::new(&config(), 2, 0).unwrap()
    }

    fn store(cap: u64) -> (tempfile::TempDir, StateStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = StateStore::open(&folder.path().join("data/states"), cap).unwrap();
        (folder, store)
    }

    fn save(store: &StateStore, ids: &[u32]) -> u64 {
        match store.save(&key(), &state(), ids).unwrap() {
            Saved::Whole(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    fn path(store: &StateStore, ids: &[u32]) -> PathBuf {
        store.folder.join(name(&key(), ids))
    }

    /// Sets when a state was last used, in seconds of some time long ago.
    fn used(store: &StateStore, ids: &[u32], at: u64) {
        let file = File::options().append(true).open(path(store, ids)).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        file.set_modified(at).unwrap();
    }

    fn found(store: &StateStore, prompt: &[u32]) -> Option<Vec<u32>> {
        let found = store.find(&key(), prompt, 9);
        assert!(found.skipped.is_empty(), "{:?}", found.skipped);
        found.state.map(|state| state.ids().to_vec())
    }

    /// States of a day that has not come yet, since the clock was put back: they are found, and they do not push out what is
    /// saved now.
    #[test]
    fn a_clock_that_was_put_back_costs_nothing_but_an_old_state() {
        let (_folder, store) = store(1 << 20);
        let bytes = save(&store, &[1]);
        save(&store, &[1, 2]);
        for ids in [&[1][..], &[1, 2]] {
            used(&store, ids, 1 << 33);
        }
        assert_eq!(found(&store, &[1, 2, 3]), Some(vec![1, 2]));
        let small = StateStore::open(store.folder(), 2 * bytes + 8).unwrap();
        for id in 10..20 {
            save(&small, &[id]);
            assert_eq!(found(&small, &[id, 0]), Some(vec![id]), "just saved");
            assert!(small.size() <= small.cap());
        }
    }

    #[test]
    fn the_longest_beginning_is_found() {
        let (_folder, store) = store(1 << 20);
        assert_eq!(found(&store, &[1, 2, 3]), None);
        for ids in [&[1, 2][..], &[1, 2, 3, 4], &[1, 9, 3], &[1]] {
            save(&store, ids);
        }
        assert_eq!(found(&store, &[1, 2, 3, 4, 5]), Some(vec![1, 2, 3, 4]));
        // A whole prompt leaves nothing to feed.
        assert_eq!(found(&store, &[1, 2, 3, 4]), Some(vec![1, 2]));
        assert_eq!(found(&store, &[1, 5]), Some(vec![1]));
        assert_eq!(found(&store, &[2, 1]), None);
        assert_eq!(found(&store, &[]), None);
        // Of this model only.
        for other in [
            ModelKey::new([2; 32], &config(), 2),
            ModelKey::new([1; 32], &config(), 1),
        ] {
            assert!(store.find(&other, &[1, 2, 3], 9).state.is_none());
        }
    }

    #[test]
    fn what_was_found_is_loaded_and_counts_as_used() {
        let (_folder, store) = store(1 << 20);
        save(&store, &[1, 2]);
        used(&store, &[1, 2], 1000);
        let before = fs::metadata(path(&store, &[1, 2])).unwrap().modified();
        let state = store.find(&key(), &[1, 2, 3], 9).state.unwrap();
        let (state, ids) = store.load(state, &key(), self::state()).unwrap();
        assert_eq!((state.positions(), ids), (0, vec![1, 2]));
        let after = fs::metadata(path(&store, &[1, 2])).unwrap().modified();
        assert!(after.unwrap() > before.unwrap());
    }

    #[test]
    fn the_longest_unused_go_first_and_never_the_one_just_saved() {
        let (_folder, store) = store(1 << 20);
        let bytes = save(&store, &[1]);
        assert_eq!(store.size(), bytes);
        let store = StateStore::open(store.folder(), 3 * bytes).unwrap();
        save(&store, &[2]);
        save(&store, &[3]);
        for (id, at) in [(1, 30), (2, 10), (3, 20)] {
            used(&store, &[id], at);
        }
        assert_eq!(store.size(), 3 * bytes);
        save(&store, &[4]);
        let there = |id: u32| path(&store, &[id]).exists();
        assert_eq!([1, 2, 3, 4].map(there), [true, false, true, true]);
        // Saving one again takes no more room.
        used(&store, &[4], 40);
        save(&store, &[3]);
        assert_eq!([1, 3, 4].map(there), [true, true, true]);
        // The oldest by far, and larger than all but one can be: it stays, the others go.
        let small = StateStore::open(store.folder(), bytes).unwrap();
        save(&small, &[1]);
        assert_eq!([1, 3, 4].map(there), [true, false, false]);
        assert_eq!(small.size(), bytes);
    }

    #[test]
    fn one_that_can_never_fit_is_not_saved_and_nothing_goes_for_it() {
        let (_folder, store) = store(1 << 20);
        let bytes = save(&store, &[1]);
        let small = StateStore::open(store.folder(), bytes).unwrap();
        let kept = small.save(&key(), &state(), &[1, 2]).unwrap();
        assert_eq!(kept, Saved::TooLarge(bytes + 4));
        assert!(path(&store, &[1]).exists() && !path(&store, &[1, 2]).exists());
    }

    #[test]
    fn damaged_files_are_skipped_with_a_word_and_a_shorter_one_is_found() {
        let (_folder, store) = store(1 << 20);
        for ids in [&[1][..], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4]] {
            save(&store, ids);
        }
        fs::write(path(&store, &[1, 2, 3, 4]), b"").unwrap();
        // Another's state under this name.
        fs::copy(path(&store, &[1]), path(&store, &[1, 2, 3])).unwrap();
        let file = path(&store, &[1, 2]);
        let mut bytes = fs::read(&file).unwrap();
        bytes[20] ^= 1;
        fs::write(file, bytes).unwrap();
        let found = store.find(&key(), &[1, 2, 3, 4, 5], 9);
        assert_eq!(found.state.unwrap().ids(), [1]);
        for (word, says) in found.skipped.iter().zip(["cut", "other ids", "damaged"]) {
            assert!(word.contains(says), "{word}");
        }
        assert_eq!(found.skipped.len(), 3);
    }

    #[test]
    fn what_is_no_state_is_left_alone_and_unfinished_ones_are_swept() {
        let (_folder, store) = store(1 << 20);
        let bytes = save(&store, &[1]);
        let (foreign, left) = (
            store.folder.join("notes.txt"),
            store.folder.join(format!("{UNFINISHED}x")),
        );
        fs::write(&foreign, [0; 5000]).unwrap();
        fs::write(&left, "half").unwrap();
        assert_eq!(store.size(), bytes);
        let held = store.lock();
        StateStore::open(store.folder(), bytes).unwrap();
        assert!(left.exists(), "somebody may be writing it");
        drop(held);
        save(&store, &[2]);
        assert!(foreign.exists() && !left.exists());
        fs::write(&left, "half").unwrap();
        StateStore::open(store.folder(), bytes).unwrap();
        assert!(foreign.exists() && !left.exists());
    }

    #[test]
    fn several_write_at_once_and_every_file_is_whole() {
        let (_folder, store) = store(1 << 20);
        let bytes = save(&store, &[0]);
        let small = StateStore::open(store.folder(), 3 * bytes).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4_u32 {
                let small = &small;
                scope.spawn(move || {
                    for id in 0..20 {
                        // Half of them are everybody's.
                        save(small, &[if id % 2 == 0 { id } else { 100 * writer + id }]);
                        assert!(small.find(&key(), &[id, 0], 9).skipped.is_empty());
                    }
                });
            }
        });
        assert!((bytes..=3 * bytes).contains(&small.size()));
        for entry in small.entries() {
            let state = SavedState::open(&entry.path).unwrap();
            state.load(&key(), self::state()).unwrap();
        }
        assert!(small.names().all(|name| !name.starts_with(UNFINISHED)));
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, store) = store(1);
        let mode = fs::metadata(store.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
