//! Positioned reads from one file, past the system's page cache where it lets us: the trait, and the file itself.
//! Nothing here widens, retries or loops: see `span.rs`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::buffer::{BLOCK, Buffer};
use crate::system::{self, in_memory, open_direct};

/// A file that any number of threads read from at once, each at its own place.
pub trait ReadAt: Send + Sync {
    /// One request: bytes from `offset` on into `buf`; returns how many came, 0 at the end of the file. When
    /// [`Self::direct`], `offset`, the length and the address of `buf` must be multiples of [`BLOCK`].
    ///
    /// # Errors
    /// What the system says; `Interrupted` is to be tried again.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Bytes of the file when it was opened.
    fn len(&self) -> u64;

    /// Whether there is nothing in the file.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether reads go past the page cache, straight from the drive.
    fn direct(&self) -> bool;

    /// The file's name, for messages.
    fn path(&self) -> &Path;
}

/// A file open for direct reads, or for buffered ones where the file system refuses direct ones.
pub struct DirectFile {
    file: File,
    len: u64,
    direct: bool,
    path: PathBuf,
}

impl DirectFile {
    /// Opens `path`. One block is read, since some file systems refuse direct reads only then.
    ///
    /// # Errors
    /// What the system says; a refusal of direct reads is no error.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A folder opens as a file on some systems.
        if std::fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (file, direct) = match open_direct(path).and_then(probe) {
            Ok(file) => (file, true),
            Err(error) if refused(&error) => (File::open(path)?, false),
            Err(error) => return Err(error),
        };
        let len = file.metadata()?.len();
        Ok(Self {
            file,
            len,
            direct,
            path: path.to_owned(),
        })
    }

    /// Opens `path` for reads through the page cache.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_buffered(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            file,
            len,
            direct: false,
            path: path.to_owned(),
        })
    }
}

impl ReadAt for DirectFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        system::read_at(&self.file, buf, offset)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn direct(&self) -> bool {
        self.direct
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether an error says that this file system has no direct reads (tmpfs and some network and user-space ones).
fn refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

/// Reads the first block the direct way.
fn probe(file: File) -> io::Result<File> {
    if in_memory(&file) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut block = Buffer::new(BLOCK).map_err(io::Error::other)?;
    loop {
        match system::read_at(&file, block.as_mut_slice(), 0) {
            Ok(_) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_comes_and_the_end_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a file");
        let content: Vec<u8> = (0..BLOCK + 10).map(|i| i as u8 ^ (i >> 8) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let mut buffer = Buffer::new(4 * BLOCK).unwrap();
        for file in [DirectFile::open(&path), DirectFile::open_buffered(&path)] {
            let file = file.unwrap();
            println!("direct: {}", file.direct());
            assert_eq!((file.len(), file.path()), (content.len() as u64, &*path));
            let got = file.read_at(0, buffer.as_mut_slice()).unwrap();
            assert!(buffer.as_slice()[..got] == content);
            let at = BLOCK as u64;
            assert_eq!(file.read_at(at, buffer.as_mut_slice()).unwrap(), 10);
            assert_eq!(file.read_at(4 * at, buffer.as_mut_slice()).unwrap(), 0);
        }
    }

    #[test]
    fn an_empty_file_opens_and_what_is_no_file_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        File::create(&path).unwrap();
        assert!(DirectFile::open(&path).unwrap().is_empty());
        let kind = |path: &Path| DirectFile::open(path).err().unwrap().kind();
        assert_eq!(kind(&dir.path().join("none")), io::ErrorKind::NotFound);
        assert_eq!(kind(dir.path()), io::ErrorKind::IsADirectory);
    }

    /// Older kernels refuse to open the file, newer ones pretend.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_in_memory_is_read_buffered_and_says_so() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
            println!("NOT RUN: there is no /dev/shm to write to");
            return;
        };
        let path = dir.path().join("file");
        std::fs::write(&path, [5; 5000]).unwrap();
        if !in_memory(&File::open(&path).unwrap()) {
            println!("NOT RUN: /dev/shm is not in memory");
            return;
        }
        let file = DirectFile::open(&path).unwrap();
        assert!(!file.direct());
        let mut buffer = Buffer::new(8192).unwrap();
        assert_eq!(file.read_at(0, buffer.as_mut_slice()).unwrap(), 5000);
        assert!(buffer.as_slice()[..5000].iter().all(|&byte| byte == 5));
    }

    #[test]
    fn only_a_refusal_of_direct_reads_is_taken_for_one() {
        assert!(refused(&io::ErrorKind::InvalidInput.into()));
        assert!(refused(&io::ErrorKind::Unsupported.into()));
        for kind in [
            io::ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::Other,
        ] {
            assert!(!refused(&kind.into()), "{kind}");
        }
    }
}
