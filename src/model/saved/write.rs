//! Writing a state file: streamed, hashed as it goes, complete or not there at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::head::Head;
use super::{ModelKey, PORTION, StateFileError};
use crate::checkpoint::atomic::{folder, sync_folder};
use crate::model::State;

/// How files begin that are still being written.
pub const UNFINISHED: &str = ".k3-state";

/// A state file that will be written. It is opened before anything is computed, so that a place that cannot be written is
/// known then. Only its owner may read it, since it holds a conversation.
#[derive(Debug)]
pub struct StateWriter {
    path: PathBuf,
    file: NamedTempFile,
}

impl StateWriter {
    /// Opens a temporary file beside `path`. A link is followed, so that what it points to is replaced.
    ///
    /// # Errors
    /// [`StateFileError::NotSaved`].
    pub fn create(path: &Path) -> Result<Self, StateFileError> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = temporary(&path).map_err(|cause| StateFileError::NotSaved {
            path: path.clone(),
            cause,
        })?;
        Ok(Self { path, file })
    }

    /// Writes a state, brings it to the drive and puts it in its place; gives the file's length. `ids` are those that were
    /// fed, and then any that are still to be fed.
    ///
    /// # Errors
    /// The state is torn, or not that of this model and these ids; or it cannot be written. A file that was there stays
    /// as it was.
    pub fn save(self, key: &ModelKey, state: &State, ids: &[u32]) -> Result<u64, StateFileError> {
        let positions = state.positions();
        if !state.is_whole() || ids.len() < positions || !key.fits(state) {
            return Err(StateFileError::Torn);
        }
        let head = Head {
            layers: key.layers as u32,
            identity: key.identity,
            config: key.config,
            positions: positions as u64,
            ids: ids.len() as u64,
            values: super::values(state).map(|part| part.len() as u64).sum(),
        };
        let path = self.path;
        let written = write(self.file.as_file(), &head, state, ids).and_then(|len| {
            self.file.as_file().sync_all()?;
            self.file.persist(&path).map_err(|e| e.error)?;
            // A rename is on disk only once the folder is.
            sync_folder(folder(&path))?;
            Ok(len)
        });
        written.map_err(|cause| StateFileError::NotSaved { path, cause })
    }
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    if path.exists() && !path.is_file() {
        return Err(io::Error::other("there is something that is no file"));
    }
    if path.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder(path))
}

/// Writes the whole file and gives its length.
fn write(file: &File, head: &Head, state: &State, ids: &[u32]) -> io::Result<u64> {
    let mut out = Hashing {
        file,
        hash: Sha256::new(),
        len: 0,
    };
    out.write(&head.bytes())?;
    for ids in ids.chunks(PORTION / 4) {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        out.write(&bytes)?;
    }
    out.sign()?;
    let mut bytes = Vec::with_capacity(PORTION);
    for values in super::values(state).flat_map(|part| part.chunks(PORTION / 4)) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        out.write(&bytes)?;
    }
    out.sign()?;
    Ok(out.len)
}

/// A file, and the hash of what went into it.
struct Hashing<'a> {
    file: &'a File,
    hash: Sha256,
    len: u64,
}

impl Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Writes the hash of all before.
    fn sign(&mut self) -> io::Result<()> {
        let hash = self.hash.clone().finalize();
        self.write(&hash)
    }
}
