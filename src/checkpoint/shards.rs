//! The safetensors files of a folder: which there are, how long they are, and positioned reads from them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Error;
use crate::system::read_at;

/// The most one request to the system asks for. macOS refuses 2^31 and more, Linux silently stops short of it, and
/// Windows takes a 32-bit length.
pub(crate) const MAX_REQUEST: usize = 1 << 30;

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
        let names = names(dir)?;
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

/// Names of the shards that stand directly in a folder, sorted; hidden ones are left out.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be listed.
pub(super) fn names(dir: &Path) -> Result<Vec<OsString>, Error> {
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
    Ok(names)
}

/// Bytes of all shards that stand directly in a folder.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be listed. A shard whose size cannot be had counts nothing.
pub fn bytes(dir: &Path) -> Result<u64, Error> {
    let sizes = names(dir)?
        .into_iter()
        .map(|name| fs::metadata(dir.join(name)));
    Ok(sizes.map(|meta| meta.map_or(0, |meta| meta.len())).sum())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn shards_are_sorted_by_name_and_only_direct_ones_count() {
        let dir = tempfile::tempdir().unwrap();
        // The folder has a space in its name, and a folder of its own with a file that is no shard of the model.
        let model = dir.path().join("my model");
        fs::create_dir_all(model.join("debug")).unwrap();
        for name in [
            "b.safetensors",
            "a.safetensors",
            "._a.safetensors",
            "c.safetensors.partial",
            "debug/d.safetensors",
        ] {
            fs::write(model.join(name), name).unwrap();
        }
        let shards = Shards::open(&model).unwrap();
        assert_eq!(shards.count(), 2);
        assert!(shards.path(0).ends_with("my model/a.safetensors") && shards.len(1) == 13);
    }

    #[test]
    fn folders_without_shards_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            Shards::open(dir.path())
                .err()
                .unwrap()
                .to_string()
                .contains("holds no *.safetensors file")
        );
        assert!(matches!(
            Shards::open(&dir.path().join("none")),
            Err(Error::Io { .. })
        ));
        fs::create_dir(dir.path().join("a.safetensors")).unwrap();
        assert!(
            Shards::open(dir.path())
                .err()
                .unwrap()
                .to_string()
                .contains("is not a file")
        );
    }

    /// A file of more than 2 GiB, of which one read on some systems takes only a part and on others nothing.
    #[test]
    fn more_than_two_gib_are_read_whole() {
        const GIB: u64 = 1 << 30;
        let len = 2 * GIB + (64 << 20);
        let dir = tempfile::tempdir().unwrap();
        let mut file = File::create(dir.path().join("a.safetensors")).unwrap();
        file.set_len(len).unwrap();
        let marks = [
            (0, b"zero"),
            (GIB, b"one1"),
            (2 * GIB, b"two2"),
            (len - 4, b"last"),
        ];
        for (at, mark) in marks {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(mark).unwrap();
        }
        let shards = Shards::open(dir.path()).unwrap();
        let mut whole = vec![0; len as usize];
        shards.read(0, 0, &mut whole).unwrap();
        for (at, mark) in marks {
            assert_eq!(&whole[at as usize..][..4], mark);
        }
        let sum = whole.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        assert_eq!(
            sum,
            marks
                .iter()
                .flat_map(|(_, mark)| *mark)
                .map(|&byte| u64::from(byte))
                .sum::<u64>()
        );
        drop(whole);
        let mut across = [0xff; 8192];
        shards.read(0, GIB - 4096, &mut across).unwrap();
        assert!(&across[4096..4100] == b"one1" && across[..4096].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_read_beyond_the_end_names_file_and_offset() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.safetensors"), [1; 100]).unwrap();
        let shards = Shards::open(dir.path()).unwrap();
        let mut buf = [0; 60];
        assert!(shards.read(0, 40, &mut buf).is_ok());
        for offset in [41, 100, u64::MAX] {
            let error = shards.read(0, offset, &mut buf).unwrap_err().to_string();
            assert!(error.contains("a.safetensors"), "{error}");
        }
        let error = shards.read(0, 41, &mut buf).unwrap_err().to_string();
        assert!(
            error.contains("ends at byte 100") && error.contains("60 bytes from byte 41"),
            "{error}"
        );
    }
}
