//! A lock against a second writer of one history. It is the system's, so it goes with the process, however that ends.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::Error;
use super::original::beside;
use crate::checkpoint::atomic::own_options;
use crate::system::LockFile;

/// What a lock's file appends to the name of the history.
const SUFFIX: &str = ".lock";

/// The right to write a history, for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    /// The file stays when it is closed: whoever removed it might remove what another holds already.
    _file: LockFile,
}

/// Whether nobody has the lock of this history now.
pub(crate) fn is_free(path: &Path) -> bool {
    let file = File::open(beside(path, SUFFIX));
    file.map(LockFile::from)
        .is_ok_and(|file| file.try_lock().is_ok())
        || !beside(path, SUFFIX).exists()
}

impl Lock {
    /// Takes the lock of the history at `path`. Where it cannot be had (a folder that cannot be written, a drive without
    /// locks) there is none, with the word to say.
    ///
    /// # Errors
    /// [`Error::Locked`]: another process has it.
    pub fn take(path: &Path) -> Result<Result<Self, String>, Error> {
        let lock = beside(path, SUFFIX);
        let mut options = own_options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = match options.open(&lock) {
            Ok(file) => LockFile::from(file),
            Err(cause) => {
                return Ok(Err(format!(
                    "{} cannot be made: {cause}. The conversation can be read, saving it will fail",
                    lock.display()
                )));
            }
        };
        match file.try_lock() {
            Ok(()) => {
                // For the message to the second; without it the lock holds all the same.
                let _ = file
                    .set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()));
                Ok(Ok(Self { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = (&*file).take(32).read_to_string(&mut holder);
                Err(Error::Locked {
                    path: path.to_owned(),
                    holder: holder.trim().parse().ok(),
                })
            }
            Err(TryLockError::Error(cause)) => Ok(Err(format!(
                "{} cannot be locked: {cause}. Do not open this conversation twice",
                lock.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.jsonl");
        let first = Lock::take(&path).unwrap().unwrap();
        let message = Lock::take(&path).expect_err("held").to_string();
        let process = format!("(process {})", std::process::id());
        assert!(message.contains("talk.jsonl: another k3"), "{message}");
        assert!(message.contains(&process), "{message}");
        drop(first);
        assert!(Lock::take(&path).unwrap().is_ok());
    }

    #[test]
    fn without_a_folder_there_is_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let word = Lock::take(&dir.path().join("no/talk")).unwrap();
        let word = word.expect_err("no folder");
        assert!(word.contains("saving it will fail"), "{word}");
    }
}
