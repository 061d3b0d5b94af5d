//! Positioned reads from one file, past the system's page cache where it lets us: the trait, and the file itself.
//! Nothing here widens, retries or loops: see `span.rs`.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::buffer::{BLOCK, Buffer};
use crate::checkpoint::shards;

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
        shards::read_at(&self.file, buf, offset)
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
        match shards::read_at(&file, block.as_mut_slice(), 0) {
            Ok(_) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a file lives in the page cache and nowhere else. Newer kernels accept direct reads of such files and then
/// copy from memory all the same.
#[cfg(target_os = "linux")]
fn in_memory(file: &File) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of linux/magic.h.
    const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::fstatfs(file).is_ok_and(|stat| MEMORY.contains(&(stat.f_type as u64)))
}

/// Other systems' file systems in memory refuse by themselves, where they do.
#[cfg(not(target_os = "linux"))]
fn in_memory(_: &File) -> bool {
    false
}

/// Linux, FreeBSD and NetBSD: a flag at opening.
#[cfg(all(unix, not(target_vendor = "apple")))]
fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(path)
}

/// macOS: the cache is switched off on the open file.
#[cfg(target_vendor = "apple")]
fn open_direct(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).open(path)?;
    rustix::fs::fcntl_nocache(&file, true)?;
    Ok(file)
}

/// Windows: an unbuffered handle.
#[cfg(windows)]
fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    /// `FILE_FLAG_NO_BUFFERING` of `CreateFile`.
    const NO_BUFFERING: u32 = 0x2000_0000;
    OpenOptions::new()
        .read(true)
        .custom_flags(NO_BUFFERING)
        .open(path)
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
