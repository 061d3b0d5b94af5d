//! A file that locks are taken through. Not when to lock, or what a lock means: its users know.

use std::fs::File;
use std::ops::{Deref, DerefMut};

/// A file whose lock goes when this does. Closing alone would not do: a process that is being started has a copy of every
/// handle until it runs its own program, and a lock of the system lasts as long as one copy.
#[derive(Debug)]
pub struct LockFile(File);

impl From<File> for LockFile {
    fn from(file: File) -> Self {
        Self(file)
    }
}

impl Deref for LockFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Where nothing was locked, or there are no locks, there is nothing to do.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_gone_while_a_copy_of_the_handle_is_still_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = LockFile::from(File::create(&path).unwrap());
        held.try_lock().unwrap();
        let of_a_child = held.try_clone().unwrap();
        let second = LockFile::from(File::open(&path).unwrap());
        assert!(second.try_lock().is_err());
        drop(held);
        second.try_lock().unwrap();
        drop(of_a_child);
    }
}
