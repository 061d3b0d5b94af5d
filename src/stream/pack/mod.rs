//! A packed trunk: a copy of the weights outside the routed experts in one file, for another drive. Ours, and that of the C
//! engine, which is read as it is. Here: which of the two a folder holds, and where in it a tensor is.
//!
//! Ours is `trunk.bin`, every matrix of the walk in order of use and then the small vectors, without gaps, and `pack.json`
//! ([`manifest`]). Without gaps, so that any cut of the walk reads each segment at once. The embedding stays in the
//! shards, since only rows of it are read.

mod c_engine;
mod check;
mod manifest;
mod segments;
mod space;
mod write;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::Error;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::names;
use manifest::Manifest;

pub use check::{Checked, check};
pub use write::{Packed, write};

/// The weights, in our packs and the C engine's.
const BIN: &str = "trunk.bin";
/// The most that a manifest may have; that of the full model has under 2 MB.
const LONGEST_MANIFEST: u64 = 64 << 20;

/// Is told what is being done, how many bytes of how many are through, and says whether to go on.
pub type Progress<'p> = dyn FnMut(&'static str, u64, u64) -> bool + 'p;

/// Whose pack it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    CEngine,
}

/// A pack that was found to be of a checkpoint. Only its manifest was read: its bytes are compared by [`check()`].
pub struct Pack {
    kind: Kind,
    bin: PathBuf,
    manifest: PathBuf,
    /// First byte of every tensor.
    offsets: HashMap<String, u64>,
}

impl Pack {
    /// Reads the manifest in a folder and compares it with the checkpoint.
    ///
    /// # Errors
    /// [`Error::Pack`] that names the file when there is no pack, it is not whole, or it is of another checkpoint.
    pub fn open(dir: &Path, checkpoint: &Checkpoint) -> Result<Self, Error> {
        let (kind, manifest) = kind(dir)?;
        let offsets = match kind {
            Kind::Ours => Manifest::load(dir)?.offsets(dir, checkpoint)?,
            Kind::CEngine => c_engine::offsets(dir, checkpoint)?,
        };
        Ok(Self {
            kind,
            bin: dir.join(BIN),
            manifest,
            offsets,
        })
    }

    /// The file of weights.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// The first byte of a tensor, or none if such a pack leaves it in the shards.
    ///
    /// # Errors
    /// [`Error::Pack`] when the pack should have it and has not.
    pub fn find(&self, name: &str) -> Result<Option<u64>, Error> {
        if let Some(&offset) = self.offsets.get(name) {
            return Ok(Some(offset));
        }
        let in_shards = match self.kind {
            Kind::Ours => name == names::EMBEDDING,
            Kind::CEngine => !names::is_in_layer(name),
        };
        if in_shards {
            return Ok(None);
        }
        let problem = format!("{name} is missing; pack the trunk again");
        Err(Error::pack(&self.manifest, problem))
    }
}

/// Which pack a folder holds, and its manifest.
fn kind(dir: &Path) -> Result<(Kind, PathBuf), Error> {
    let (ours, theirs) = (dir.join(manifest::FILE), dir.join(c_engine::FILE));
    match (ours.exists(), theirs.exists()) {
        (true, true) => {
            let problem = format!(
                "holds {} and {} beside one {BIN}; delete the one that is not its manifest",
                manifest::FILE,
                c_engine::FILE
            );
            Err(Error::pack(dir, problem))
        }
        (true, false) => Ok((Kind::Ours, ours)),
        (false, true) => Ok((Kind::CEngine, theirs)),
        (false, false) => {
            let problem = format!(
                "holds no packed trunk ({} or {}); make one with k3 pack, or finish it by the same command",
                manifest::FILE,
                c_engine::FILE
            );
            Err(Error::pack(dir, problem))
        }
    }
}

/// Reads a file of JSON.
fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let wrong = |cause: &dyn std::fmt::Display| {
        Error::pack(path, format!("not a manifest of a packed trunk: {cause}"))
    };
    let len = std::fs::metadata(path).map_err(|e| wrong(&e))?.len();
    if len > LONGEST_MANIFEST {
        return Err(wrong(&format!("it has {len} bytes, more than any")));
    }
    let text = std::fs::read(path).map_err(|e| wrong(&e))?;
    serde_json::from_slice(&text).map_err(|e| wrong(&e))
}

/// Bytes of the file of weights.
fn bin_len(dir: &Path) -> Result<u64, Error> {
    let path = dir.join(BIN);
    let meta = std::fs::metadata(&path).map_err(|source| Error::Open {
        path: path.clone(),
        source,
    })?;
    match meta.is_file() {
        true => Ok(meta.len()),
        false => Err(Error::pack(&path, "is not a file")),
    }
}

/// Compares what a manifest says of a tensor with the checkpoint.
fn agree(
    manifest: &Path,
    checkpoint: &Checkpoint,
    (name, dtype, shape, bytes): (&str, &str, &[u64], u64),
) -> Result<(), Error> {
    let wrong = |problem: String| Err(Error::pack(manifest, problem));
    let Ok(tensor) = checkpoint.tensor(name) else {
        return wrong(format!(
            "{name} is not in {}: it is the pack of another model",
            checkpoint.dir().display()
        ));
    };
    let dims: Vec<u64> = tensor.dims().iter().map(|&n| n as u64).collect();
    if dtype != tensor.dtype.name() || shape != dims || bytes != tensor.bytes {
        return wrong(format!(
            "{name} is {dtype} {shape:?} of {bytes} bytes, in the checkpoint {} {dims:?} of {}: it is the pack of \
             another model, or of other weights",
            tensor.dtype, tensor.bytes
        ));
    }
    Ok(())
}
