//! A file kept beside itself before it is written over, under a name that nothing ever overwrites.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoint::atomic::{folder, sync_folder};

/// More copies of one file than anybody keeps.
const MOST: usize = 10_000;

/// `path` with something appended to its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the file at `path` to `<path>.<word>-1`, or the first number that is free, and flushes it. A copy of the same
/// content that is there already will do.
///
/// # Errors
/// The copy cannot be made; nothing is left of it then.
pub(super) fn keep(path: &Path, word: &str) -> io::Result<PathBuf> {
    for number in 1..=MOST {
        let copy = beside(path, &format!(".{word}-{number}"));
        match File::options().write(true).create_new(true).open(&copy) {
            Ok(file) => {
                return fill(path, file)
                    .and_then(|()| sync_folder(folder(&copy)))
                    .map(|()| copy.clone())
                    .inspect_err(|_| {
                        let _ = fs::remove_file(&copy);
                    });
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if same(path, &copy)? {
                    return Ok(copy);
                }
            }
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other(format!("{MOST} copies are there already")))
}

fn fill(path: &Path, mut file: File) -> io::Result<()> {
    let mut original = File::open(path)?;
    // Before the content: it may be private.
    file.set_permissions(original.metadata()?.permissions())?;
    io::copy(&mut original, &mut file)?;
    file.sync_all()
}

/// Whether two files have the same content. A copy that cannot be read is another file.
fn same(path: &Path, copy: &Path) -> io::Result<bool> {
    let there = fs::metadata(copy).is_ok_and(|meta| meta.is_file());
    if !there || fs::metadata(path)?.len() != fs::metadata(copy)?.len() {
        return Ok(false);
    }
    let original = fs::read(path)?;
    Ok(fs::read(copy).is_ok_and(|copy| copy == original))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.jsonl");
        for (content, name) in [
            ("a", "talk.jsonl.damaged-1"),
            ("b", "talk.jsonl.damaged-2"),
            ("a", "talk.jsonl.damaged-1"),
            ("b", "talk.jsonl.damaged-2"),
            ("longer", "talk.jsonl.damaged-3"),
        ] {
            fs::write(&path, content).unwrap();
            let copy = keep(&path, "damaged").unwrap();
            assert_eq!(copy, dir.path().join(name));
            assert_eq!(fs::read_to_string(copy).unwrap(), content);
        }
        // Something else of that name.
        fs::create_dir(dir.path().join("talk.jsonl.damaged-4")).unwrap();
        fs::write(&path, "c").unwrap();
        let copy = keep(&path, "damaged").unwrap();
        assert!(copy.ends_with("talk.jsonl.damaged-5"));
    }

    #[cfg(unix)]
    #[test]
    fn a_copy_is_as_private_as_its_original() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let copy = keep(&path, "original").unwrap();
        let mode = fs::metadata(copy).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
