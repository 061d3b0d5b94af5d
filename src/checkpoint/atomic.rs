//! A file replaced whole, for everything that is saved: whoever opens it finds the old content or the new one, also after
//! a power cut. What the content is, is not known here.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::system;

/// How the name of a temporary file ends.
const SUFFIX: &str = ".k3-tmp";
/// As many links as systems follow.
const LINKS: usize = 40;

/// Who may read a file that was not there before. One that was there keeps its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner only.
    Private,
    /// Whoever may read any new file.
    Ordinary,
}

/// New content on its way. Dropped without [`AtomicFile::commit`] it is gone and the old file is as it was.
#[derive(Debug)]
pub struct AtomicFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// A temporary file in the folder of `path`. A link is followed: what it points to will be replaced.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn begin(path: &Path, access: Access) -> io::Result<Self> {
        Self::at(resolve(path)?, access)
    }

    /// The same for a file that the program makes by itself beside another, for its owner alone: a link of its name was put
    /// there by somebody else, and is replaced and not followed.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn begin_own(path: &Path) -> io::Result<Self> {
        Self::at(path.to_owned(), Access::Private)
    }

    fn at(path: PathBuf, access: Access) -> io::Result<Self> {
        step(Step::Create)?;
        let mut builder = tempfile::Builder::new();
        if access == Access::Ordinary {
            system::readable_by_all(&mut builder);
        }
        let file = builder
            .prefix(&prefix(&path))
            .suffix(SUFFIX)
            .tempfile_in(folder(&path))?;
        // What a link leads to is not what will be replaced.
        if let Ok(old) = fs::symlink_metadata(&path)
            && !old.is_symlink()
        {
            file.as_file().set_permissions(old.permissions())?;
        }
        Ok(Self { file, path })
    }

    /// Puts the content in its place: flushed to the drive, renamed, and the folder flushed, without which the rename
    /// itself might be lost.
    ///
    /// # Errors
    /// The old file is as it was, unless only the folder could not be flushed, which the error says.
    pub fn commit(self) -> io::Result<()> {
        self.commit_open().map(drop)
    }

    /// As [`AtomicFile::commit`], and gives the file, open for writing behind the content.
    ///
    /// # Errors
    /// As [`AtomicFile::commit`].
    pub fn commit_open(self) -> io::Result<File> {
        step(Step::Sync)?;
        self.file.as_file().sync_all()?;
        step(Step::Rename)?;
        let file = self.file.persist(&self.path).map_err(|e| e.error)?;
        step(Step::Folder)
            .and_then(|()| sync_folder(folder(&self.path)))
            .map_err(|e| {
                let said = format!("it is replaced, but its folder cannot be flushed: {e}");
                io::Error::new(e.kind(), said)
            })?;
        Ok(file)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(Step::Write)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Replaces the file at `path` by these bytes.
///
/// # Errors
/// See [`AtomicFile::commit`].
pub fn replace(path: &Path, access: Access, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::begin(path, access)?;
    file.write_all(bytes)?;
    file.commit()
}

/// Replaces the file at `path`, which the program made by itself ([`AtomicFile::begin_own`]), by these bytes.
///
/// # Errors
/// See [`AtomicFile::commit`].
pub fn replace_own(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::begin_own(path)?;
    file.write_all(bytes)?;
    file.commit()
}

/// How to open a file that the program makes by itself and does not replace: for its owner alone, and not through a link.
pub fn own_options() -> fs::OpenOptions {
    let mut options = File::options();
    system::owner_only(&mut options);
    options
}

/// Where `path` leads when links are followed. What it leads to need not be there.
///
/// # Errors
/// Links that lead in a circle.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(real) = fs::canonicalize(&path) {
            return Ok(real);
        }
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            // Not there yet: its folder may still be reached through links.
            Err(_) => {
                return Ok(match (fs::canonicalize(folder(&path)), path.file_name()) {
                    (Ok(real), Some(name)) => real.join(name),
                    _ => path,
                });
            }
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// Makes a folder, and those above it that are missing, for its owner alone. One that is there stays as it is.
///
/// # Errors
/// It cannot be made, or something else has its name.
pub fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    system::owner_only_folder(&mut builder);
    builder.create(path)
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Brings renames in a folder to the drive.
///
/// # Errors
/// The drive fails. A file system that cannot flush folders is not an error.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match system::sync_folder(folder) {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Removes what a process that was killed left beside `path`. To be called only by who alone writes the file.
pub fn sweep(path: &Path) {
    let prefix = prefix(path);
    for entry in fs::read_dir(folder(path)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(prefix.as_encoded_bytes()) && name.ends_with(SUFFIX.as_bytes()) {
            // One that stays takes room and does no other harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// How the names of temporary files of `path` begin.
fn prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Write,
    Sync,
    Rename,
    Folder,
}

#[cfg(test)]
thread_local! {
    static FAILING: std::cell::Cell<Option<Step>> = const { std::cell::Cell::new(None) };
}

/// From now on this step fails in this thread, as if the disk were full.
#[cfg(test)]
pub(crate) fn fail(step: Option<Step>) {
    FAILING.set(step);
}

#[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
fn step(_step: Step) -> io::Result<()> {
    #[cfg(test)]
    if FAILING.get() == Some(_step) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn whatever_fails_the_old_file_stays_and_the_temporary_one_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk");
        replace(&path, Access::Private, b"old").unwrap();
        for step in [
            Step::Create,
            Step::Write,
            Step::Sync,
            Step::Rename,
            Step::Folder,
        ] {
            fail(Some(step));
            let error = replace(&path, Access::Private, b"new").expect_err("injected");
            fail(None);
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{step:?}");
            let replaced = step == Step::Folder;
            assert_eq!(error.to_string().contains("it is replaced"), replaced);
            let expected = if replaced { "new" } else { "old" };
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{step:?}");
            assert_eq!(names(dir.path()), ["talk"], "{step:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn modes_are_kept_and_links_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (real, link, second) = (
            dir.path().join("real"),
            dir.path().join("link"),
            dir.path().join("second"),
        );
        symlink("real", &link).unwrap();
        symlink(&link, &second).unwrap();
        // The links point to nothing yet.
        replace(&second, Access::Private, b"1").unwrap();
        assert_eq!(
            (mode(&real), fs::read(&real).unwrap()),
            (0o600, b"1".into())
        );
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&second, Access::Private, b"2").unwrap();
        assert_eq!(
            (mode(&real), fs::read(&link).unwrap()),
            (0o640, b"2".into())
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let ordinary = dir.path().join("ordinary");
        replace(&ordinary, Access::Ordinary, b"").unwrap();
        fs::File::create(dir.path().join("any")).unwrap();
        assert_eq!(mode(&ordinary), mode(&dir.path().join("any")));
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        symlink(&a, &b).unwrap();
        symlink(&b, &a).unwrap();
        let error = replace(&a, Access::Private, b"").expect_err("a circle");
        assert!(error.to_string().contains("circle"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_that_somebody_put_in_place_of_own_files_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("talk.k3"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &path).unwrap();
        let opened = own_options().append(true).create(true).open(&path);
        assert!(opened.is_err(), "a link is opened");
        replace_own(&path, b"own").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        let made = fs::symlink_metadata(&path).unwrap();
        assert!(made.is_file(), "the link stays");
        assert_eq!(made.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), "own");
        own_options().append(true).open(&path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn folders_are_made_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        private_folder(&dir.path().join("a/b")).unwrap();
        for name in ["a", "a/b"] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o700, "{name}");
        }
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(private_folder(&dir.path().join("file")).is_err());
    }

    #[test]
    fn what_a_kill_left_is_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".talk.Ab3.k3-tmp", ".talk2.Ab3.k3-tmp", ".talk.x", "talk"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        sweep(&dir.path().join("talk"));
        assert_eq!(names(dir.path()), [".talk.x", ".talk2.Ab3.k3-tmp", "talk"]);
    }
}
