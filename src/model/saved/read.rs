//! Reading a state file: the head at once, the values when they are wanted. Nothing of a file that is not as it was
//! written is used.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::head::{FIXED, HASH, Head};
use super::{ModelKey, PORTION, StateFileError, Unfit};
use crate::model::State;

/// A state file whose head was read and found to be as it was written.
#[derive(Debug)]
pub struct SavedState {
    path: PathBuf,
    /// Stands at the first value.
    file: Hashing,
    head: Head,
    ids: Vec<u32>,
}

impl SavedState {
    /// Reads the head: fixed fields and ids.
    ///
    /// # Errors
    /// It cannot be read, is no state file of this version, is not as long as it says, or its head is damaged.
    pub fn open(path: &Path) -> Result<Self, StateFileError> {
        // Opening anything but a file might wait for ever.
        let found = fs::metadata(path).and_then(|found| match found.is_file() {
            true => File::open(path),
            false => Err(io::Error::other("it is no file")),
        });
        let opened = found.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = opened.map_err(|cause| Failure::Read(cause).at(path))?;
        let file = Hashing {
            file,
            hash: Sha256::new(),
        };
        Self::head(path, file, len).map_err(|failure| failure.at(path))
    }

    fn head(path: &Path, mut file: Hashing, len: u64) -> Result<Self, Failure> {
        let mut fixed = vec![0; len.min(FIXED as u64) as usize];
        file.read(&mut fixed)?;
        let head = Head::parse(&fixed, len)?;
        // The file is so long, so this is no claim.
        let mut ids = Vec::new();
        let mut bytes = vec![0; PORTION];
        let mut left = head.ids;
        while left > 0 {
            let count = left.min(PORTION as u64 / 4) as usize;
            let bytes = &mut bytes[..4 * count];
            file.read(bytes)?;
            ids.extend(bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)));
            left -= count as u64;
        }
        file.verify("header and ids")?;
        Ok(Self {
            path: path.to_owned(),
            file,
            head,
            ids,
        })
    }

    /// Bytes of the file of a state after so many positions, with so many ids.
    pub fn file_len(key: &ModelKey, positions: usize, ids: usize) -> u64 {
        let values = key.values(positions as u64).unwrap_or(u64::MAX / 8);
        4 * (values + ids as u64) + (FIXED + 2 * HASH) as u64
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ids that were fed, and then those that are still to be fed.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Positions that were fed.
    pub fn positions(&self) -> usize {
        self.head.positions as usize
    }

    /// Whether it can go on in a context of `capacity` positions of this model. Reads nothing.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, key: &ModelKey, capacity: usize) -> Result<(), StateFileError> {
        self.fits(key, capacity)
            .map_err(|why| Failure::Unfit(why).at(&self.path))
    }

    fn fits(&self, key: &ModelKey, capacity: usize) -> Result<(), Unfit> {
        self.head.check(key, capacity)?;
        match self.ids.iter().find(|&&id| id as usize >= key.vocab) {
            Some(id) => Err(Unfit::Inconsistent(format!(
                "id {id} is outside the vocabulary of {}",
                key.vocab
            ))),
            None => Ok(()),
        }
    }

    /// Fills a new state of this model, of any capacity that is enough, and gives it with the ids.
    ///
    /// # Errors
    /// As [`Self::check`]; or the values cannot be read or are damaged. The state is gone then.
    pub fn load(
        mut self,
        key: &ModelKey,
        mut state: State,
    ) -> Result<(State, Vec<u32>), StateFileError> {
        self.check(key, state.capacity())?;
        match self.fill(key, &mut state) {
            Ok(()) => Ok((state, self.ids)),
            Err(failure) => Err(failure.at(&self.path)),
        }
    }

    fn fill(&mut self, key: &ModelKey, state: &mut State) -> Result<(), Failure> {
        state.restart(self.positions());
        if !key.fits(state) {
            return Err(Unfit::OtherModel.into());
        }
        let mut bytes = vec![0; PORTION];
        for part in super::values_mut(state) {
            for values in part.chunks_mut(PORTION / 4) {
                let bytes = &mut bytes[..4 * values.len()];
                self.file.read(bytes)?;
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = f32::from_le_bytes(*bytes);
                }
            }
        }
        self.file.verify("values")
    }
}

/// A file, and the hash of what came out of it.
#[derive(Debug)]
struct Hashing {
    file: File,
    hash: Sha256,
}

impl Hashing {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.file.read_exact(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }

    /// Reads the hash of all before and compares.
    fn verify(&mut self, what: &'static str) -> Result<(), Failure> {
        let want: [u8; HASH] = self.hash.clone().finalize().into();
        let mut got = [0; HASH];
        self.read(&mut got)?;
        match got == want {
            true => Ok(()),
            false => Err(Unfit::Damaged(what).into()),
        }
    }
}

/// What went wrong, before it is said where.
enum Failure {
    Read(io::Error),
    Unfit(Unfit),
}

impl Failure {
    fn at(self, path: &Path) -> StateFileError {
        let path = path.to_owned();
        match self {
            Self::Read(cause) => StateFileError::NotRead { path, cause },
            Self::Unfit(why) => StateFileError::Refused { path, why },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Self {
        Self::Read(cause)
    }
}

impl From<Unfit> for Failure {
    fn from(why: Unfit) -> Self {
        Self::Unfit(why)
    }
}
