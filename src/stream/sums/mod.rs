//! SHA-256 of whole files: every byte read past the page cache, several files at once. What the digests are compared with
//! is in [`known`]; what they mean for a checkpoint is decided elsewhere.

mod journal;
pub mod known;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use sha2::{Digest, Sha256};

use super::pack::Progress;
use super::{Buffer, Error, files, span_capacity};
use crate::checkpoint::hex;
pub use journal::{Journal, Stamp};

/// The digest of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Its name in the folder.
    pub name: String,
    /// SHA-256 in hexadecimal digits, or why the file could not be read.
    pub sha256: Result<String, String>,
}

/// Bytes that are read at once. Hashing takes several times as long as a drive needs for them.
const PIECE: u64 = 8 << 20;
/// How often progress is told.
const EVERY: Duration = Duration::from_millis(250);

/// Digests of the files `names` in the folder `dir`, in that order, by as many threads as `readers`. Files that the
/// journal has as they are now are not read again; those that are read are entered in it. None when `progress` said to
/// stop.
///
/// # Errors
/// There is no memory to read into. A file that cannot be read is told in its place.
pub fn sums(
    dir: &Path,
    names: &[String],
    readers: usize,
    journal: &mut Journal,
    progress: &mut Progress<'_>,
) -> Result<Option<Vec<Sum>>, Error> {
    let mut found: Vec<Option<Sum>> = vec![None; names.len()];
    let mut left = Vec::new();
    let mut total = 0;
    let read = AtomicU64::new(0);
    for (i, name) in names.iter().enumerate() {
        let stamp = match Stamp::of(&dir.join(name)) {
            Ok(stamp) => stamp,
            Err(error) => {
                found[i] = Some(failed(name, &error));
                continue;
            }
        };
        total += stamp.bytes;
        match journal.find(name, stamp) {
            Some(sha256) => {
                read.fetch_add(stamp.bytes, Ordering::Relaxed);
                found[i] = Some(Sum {
                    name: name.clone(),
                    sha256: Ok(sha256.to_owned()),
                });
            }
            None => left.push((i, name, stamp)),
        }
    }
    let mut buffers = Vec::new();
    for _ in 0..readers.clamp(1, left.len().max(1)) {
        buffers.push(Buffer::new(span_capacity(PIECE as usize))?);
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (done, results) = crossbeam_channel::unbounded();
    std::thread::scope(|scope| {
        for mut buffer in buffers {
            let done = done.clone();
            let (left, next, stop, read) = (&left, &next, &stop, &read);
            scope.spawn(move || {
                while let Some(&(i, name, stamp)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let sum = match sum(dir, name, stamp, &mut buffer, stop, read) {
                        Ok(Some(sha256)) => Ok(sha256),
                        Ok(None) => return,
                        Err(error) => Err(error),
                    };
                    // Whoever waits is there until all readers have ended.
                    let _ = done.send((i, stamp, sum));
                }
            });
        }
        drop(done);
        loop {
            match results.recv_timeout(EVERY) {
                Ok((i, stamp, sha256)) => {
                    let name = names[i].clone();
                    if let Ok(sha256) = &sha256 {
                        journal.enter(&name, stamp, sha256);
                    }
                    found[i] = Some(Sum { name, sha256 });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !progress("read", read.load(Ordering::Relaxed), total) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    // Stopped: some were not read.
    Ok(found.into_iter().collect())
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Sum {
    Sum {
        name: name.to_owned(),
        sha256: Err(format!("cannot be read: {error}")),
    }
}

/// The digest of one file, unless told to stop.
fn sum(
    dir: &Path,
    name: &str,
    stamp: Stamp,
    buffer: &mut Buffer,
    stop: &AtomicBool,
    read: &AtomicU64,
) -> Result<Option<String>, String> {
    let path = dir.join(name);
    let file = files::open(&path).map_err(|error| error.to_string())?;
    let mut hash = Sha256::new();
    for at in (0..stamp.bytes).step_by(PIECE as usize) {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let len = PIECE.min(stamp.bytes - at);
        let bytes = files::read_into(file.as_ref(), at, len as usize, buffer)
            .map_err(|error| error.to_string())?;
        hash.update(bytes);
        read.fetch_add(len, Ordering::Relaxed);
    }
    match Stamp::of(&path) {
        Ok(now) if now == stamp => Ok(Some(hex(&hash.finalize()))),
        _ => Err("was changed while it was read".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> (tempfile::TempDir, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("abc"), "abc").unwrap();
        fs::write(dir.path().join("empty"), "").unwrap();
        // Longer than a piece, and no multiple of a block.
        fs::write(dir.path().join("long"), vec![7; PIECE as usize + 5]).unwrap();
        (dir, ["abc", "empty", "long"].map(str::to_owned).into())
    }

    fn all(dir: &Path, names: &[String], journal: &mut Journal) -> Vec<Sum> {
        sums(dir, names, 2, journal, &mut |_, _, _| true)
            .unwrap()
            .unwrap()
    }

    /// The first two are of FIPS 180-4's examples; the third is computed in one piece.
    #[test]
    fn digests_are_those_of_the_standard() {
        let (dir, names) = folder();
        let sums = all(dir.path(), &names, &mut Journal::none());
        let want = [
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned(),
            hex(&Sha256::digest(fs::read(dir.path().join("long")).unwrap())),
        ];
        for (sum, want) in sums.iter().zip(want) {
            assert_eq!(sum.sha256.as_ref(), Ok(&want), "{}", sum.name);
        }
    }

    #[test]
    fn a_file_that_is_gone_is_told_in_its_place() {
        let (dir, mut names) = folder();
        names.insert(1, "gone".into());
        let sums = all(dir.path(), &names, &mut Journal::none());
        assert_eq!(sums.len(), 4);
        assert!(
            sums[1]
                .sha256
                .as_ref()
                .is_err_and(|e| e.contains("cannot be read"))
        );
        assert!(sums[2].sha256.is_ok());
    }

    #[test]
    fn a_journal_saves_reading_until_a_file_changes() {
        let (dir, names) = folder();
        let cache = tempfile::tempdir().unwrap();
        let first = all(
            dir.path(),
            &names,
            &mut Journal::open(cache.path(), dir.path()),
        );
        // The journal is believed while size and time agree, so a wrong entry shows that nothing was read.
        let path = fs::read_dir(cache.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let text = fs::read_to_string(&path).unwrap();
        let wrong = text.replace("ba7816bf", "00000000");
        // A line that a kill cut is no entry.
        fs::write(&path, format!("{wrong}{{\"name\":\"lo")).unwrap();
        let mut journal = Journal::open(cache.path(), dir.path());
        let again = all(dir.path(), &names, &mut journal);
        assert!(again[0].sha256.as_ref().unwrap().starts_with("00000000"));
        assert_eq!(again[1..], first[1..]);
        fs::write(dir.path().join("abc"), "abd!").unwrap();
        let changed = all(
            dir.path(),
            &names,
            &mut Journal::open(cache.path(), dir.path()),
        );
        assert_eq!(
            changed[0].sha256,
            Ok(hex(&Sha256::digest("abd!"))),
            "a changed file is read"
        );
        journal.finish();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stop_gives_nothing_and_keeps_what_was_entered() {
        let (dir, names) = folder();
        let cache = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(cache.path(), dir.path());
        all(dir.path(), &names[..2], &mut journal);
        let mut asked = 0;
        let stopped = sums(dir.path(), &names, 1, &mut journal, &mut |_, _, _| {
            asked += 1;
            false
        });
        // A reader may have ended its file before it was told.
        assert!(asked > 0 && stopped.is_ok());
        let text = fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap();
        let text = fs::read_to_string(text.path()).unwrap();
        assert!(
            text.contains("\"abc\"") && text.contains("\"empty\""),
            "{text}"
        );
    }
}
