//! Which files of a folder were read to the end, so that reading 1.56 TB can be gone on with after a stop. An entry holds
//! while a file has the size and the time that it had. When all files are through, the journal goes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::checkpoint::hex;

/// What tells that a file is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its size.
    pub bytes: u64,
    /// When it was changed last, in nanoseconds since the beginning of 1970; 0 where the system does not tell.
    modified: u64,
}

impl Stamp {
    /// Of the file that `path` leads to.
    ///
    /// # Errors
    /// There is no such file.
    pub fn of(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        if !meta.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let since = meta
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            bytes: meta.len(),
            modified: since.map_or(0, |since| since.as_nanos() as u64),
        })
    }
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    #[serde(flatten)]
    stamp: Stamp,
    sha256: String,
}

/// Digests of files that were read before.
#[derive(Default)]
pub struct Journal {
    entries: HashMap<String, Entry>,
    /// None where nothing can be kept.
    file: Option<(File, PathBuf)>,
}

impl Journal {
    /// A journal that keeps nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// The journal of the folder `dir` among those in `cache`. Where none can be written, reading starts anew after a stop.
    pub fn open(cache: &Path, dir: &Path) -> Self {
        let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let key = hex(&Sha256::digest(real.as_os_str().as_encoded_bytes()));
        let path = cache.join(format!("sums-{}.jsonl", &key[..16]));
        let mut entries = HashMap::new();
        let text = fs::read_to_string(&path).unwrap_or_default();
        // What is no entry is the end of a line that a kill cut off.
        for entry in text.lines().flat_map(serde_json::from_str::<Entry>) {
            entries.insert(entry.name.clone(), entry);
        }
        let open = || -> io::Result<File> {
            fs::create_dir_all(cache)?;
            let mut file = File::options().create(true).append(true).open(&path)?;
            if !text.is_empty() && !text.ends_with('\n') {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        Self {
            entries,
            file: open().ok().map(|file| (file, path.clone())),
        }
    }

    /// Files that were read before.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no file was read before.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The digest of a file that still has this stamp.
    pub fn find(&self, name: &str, stamp: Stamp) -> Option<&str> {
        let entry = self.entries.get(name)?;
        (entry.stamp == stamp).then_some(&entry.sha256)
    }

    /// Enters a digest. What cannot be written is read again after a stop, and does no other harm.
    pub fn enter(&mut self, name: &str, stamp: Stamp, sha256: &str) {
        let entry = Entry {
            name: name.to_owned(),
            stamp,
            sha256: sha256.to_owned(),
        };
        if let (Some((file, _)), Ok(line)) = (&mut self.file, serde_json::to_string(&entry)) {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
        self.entries.insert(name.to_owned(), entry);
    }

    /// Removes the journal: everything was read, and the next time everything is to be read again.
    pub fn finish(self) {
        if let Some((_, path)) = self.file {
            // One that stays is checked against the files by size and time.
            let _ = fs::remove_file(path);
        }
    }
}
