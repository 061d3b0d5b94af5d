//! The safetensors files of a folder: which there are, how long they are, and positioned reads from them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Error;

/// The most one request to the system asks for. macOS refuses 2^31 and more, Linux silently stops short of it, and
/// Windows takes a 32-bit length.
const MAX_REQUEST: usize = 1 << 30;

/// What a shard's name ends with.
pub const EXTENSION: &str = ".safetensors";

struct Shard {
    path: PathBuf,
    file: File,
    len: u64,
}

/// The shards of one folder, open for reading, in the order of their names.
pub struct Shards {
    dir: PathBuf,
    shards: Vec<Shard>,
}

impl Shards {
    /// Opens every `*.safetensors` that stands directly in `dir`, except hidden ones (some systems leave
    /// `._name.safetensors` beside a copied file).
    ///
    /// # Errors
    /// [`Error::Io`] when the folder or a file cannot be opened, [`Error::Checkpoint`] when there is none.
    pub fn open(dir: &Path) -> Result<Shards, Error> {
        let list = |source| Error::io(dir, "list the model's folder", source);
        let mut names: Vec<OsString> = Vec::new();
        for item in fs::read_dir(dir).map_err(list)? {
            let name = item.map_err(list)?.file_name();
            let bytes = name.as_encoded_bytes();
            if bytes.ends_with(EXTENSION.as_bytes()) && !bytes.starts_with(b".") {
                names.push(name);
            }
        }
        names.sort_unstable();
        if names.is_empty() {
            return Err(Error::checkpoint(
                dir,
                "holds no *.safetensors file; give the folder of a model",
            ));
        }
        if names.len() > usize::from(u16::MAX) {
            return Err(Error::checkpoint(
                dir,
                format!("holds {} shards, more than 65,535", names.len()),
            ));
        }
        let mut shards = Vec::with_capacity(names.len());
        for name in names {
            let path = dir.join(name);
            let file = File::open(&path).map_err(|source| Error::io(&path, "open", source))?;
            let meta = file
                .metadata()
                .map_err(|source| Error::io(&path, "get the size", source))?;
            if !meta.is_file() {
                return Err(Error::checkpoint(
                    &path,
                    "is named like a shard but is not a file; move it away",
                ));
            }
            shards.push(Shard {
                path,
                file,
                len: meta.len(),
            });
        }
        Ok(Shards {
            dir: dir.to_owned(),
            shards,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Number of shards; they are numbered from 0 in the order of their names.
    pub fn count(&self) -> u16 {
        self.shards.len() as u16
    }

    /// Path of a shard.
    ///
    /// # Panics
    /// When there is no shard of that number; numbers come from this type only.
    pub fn path(&self, shard: u16) -> &Path {
        &self.shards[usize::from(shard)].path
    }

    /// Size of a shard in bytes when it was opened.
    ///
    /// # Panics
    /// As [`Shards::path`].
    pub fn len(&self, shard: u16) -> u64 {
        self.shards[usize::from(shard)].len
    }

    /// Whether there is no shard; never, once opened.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Fills `buf` from a shard, beginning at byte `offset` of the file. No cursor is moved, so that any number of
    /// threads may read at once.
    ///
    /// # Errors
    /// [`Error::Io`] when the system fails, [`Error::Checkpoint`] when the file ends too early.
    pub fn read(&self, shard: u16, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let Shard { path, file, .. } = &self.shards[usize::from(shard)];
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let end = buf.len().min(done + MAX_REQUEST);
            match read_at(file, &mut buf[done..end], at) {
                Ok(0) => {
                    let problem = format!(
                        "ends at byte {at}, while {} bytes from byte {offset} were to be read: it was cut since it \
                         was opened",
                        buf.len()
                    );
                    return Err(Error::checkpoint(path, problem));
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io(path, "read", source)),
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}
