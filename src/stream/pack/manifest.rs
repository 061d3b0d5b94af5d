//! The manifest of our packs: which bytes of `trunk.bin` are which tensor, and a hash of every segment.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::segments::Segments;
use super::{BIN, agree, bin_len, json};
use crate::checkpoint::layout::{self, Kind};
use crate::checkpoint::{Checkpoint, hex, names};
use crate::stream::{BLOCK, Error, Walk};

/// Its name in the folder.
pub(super) const FILE: &str = "pack.json";
const FORMAT: &str = "k3 packed trunk";
const VERSION: u32 = 1;

/// One tensor in the pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    pub name: String,
    pub dtype: String,
    /// Rows first.
    pub shape: Vec<u64>,
    /// First byte in `trunk.bin`.
    pub offset: u64,
    pub bytes: u64,
}

/// What `pack.json` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    /// Version of the program that wrote it.
    tool: String,
    /// Identity of the checkpoint, in hexadecimal digits.
    pub identity: String,
    /// Bytes of a segment, a multiple of [`BLOCK`]; the last one may have fewer.
    pub segment_bytes: u64,
    /// Every tensor, one after the other without gaps.
    pub tensors: Vec<Item>,
    /// SHA-256 of every segment.
    pub sha256: Vec<String>,
}

/// What is read before anything else is believed.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Manifest {
    /// The manifest of a checkpoint's pack, without hashes yet.
    ///
    /// # Errors
    /// A tensor is missing.
    pub fn new(checkpoint: &Checkpoint, walk: &Walk) -> Result<Self, Error> {
        let matrices = walk.stages().iter().flatten().map(|t| t.name.clone());
        let config = checkpoint.config();
        let vectors = layout::trunk(config, config.layers())
            .into_iter()
            .filter(|entry| entry.kind == Kind::Vector)
            .map(|entry| entry.name);
        let mut end = 0;
        let tensors = matrices
            .chain(vectors)
            .map(|name| {
                let tensor = checkpoint.tensor(&name)?;
                let offset = end;
                end += tensor.bytes;
                Ok(Item {
                    name,
                    dtype: tensor.dtype.name().to_owned(),
                    shape: tensor.dims().iter().map(|&n| n as u64).collect(),
                    offset,
                    bytes: tensor.bytes,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            identity: hex(&checkpoint.identity()),
            segment_bytes: walk.segment_bytes().next_multiple_of(BLOCK as u64),
            tensors,
            sha256: Vec::new(),
        })
    }

    /// Reads it, and compares it with itself and with the length of `trunk.bin`.
    ///
    /// # Errors
    /// [`Error::Pack`] that names the file.
    pub fn load(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(FILE);
        let wrong = |problem: String| Err(Error::pack(&path, problem));
        let head: Head = json(&path)?;
        if head.format != FORMAT || head.version != VERSION {
            return wrong(format!(
                "is {:?} version {}, this program reads {FORMAT:?} version {VERSION}; pack the trunk again",
                head.format, head.version
            ));
        }
        let manifest: Self = json(&path)?;
        let mut end = 0_u64;
        for item in &manifest.tensors {
            if item.offset != end {
                return wrong(format!(
                    "{} begins at byte {}, the tensor before it ends at {end}",
                    item.name, item.offset
                ));
            }
            end = match end.checked_add(item.bytes) {
                Some(end) if end <= i64::MAX as u64 => end,
                _ => return wrong(format!("{} has {} bytes", item.name, item.bytes)),
            };
        }
        let size = manifest.segment_bytes;
        if size == 0 || !size.is_multiple_of(BLOCK as u64) || size > 1 << 30 {
            return wrong(format!("segments of {size} bytes cannot be"));
        }
        let segments = manifest.segments();
        if manifest.sha256.len() != segments.count() {
            return wrong(format!(
                "{} hashes, there must be {}",
                manifest.sha256.len(),
                segments.count()
            ));
        }
        let len = bin_len(dir)?;
        if len != segments.file_len() {
            let problem = format!(
                "has {len} bytes, its manifest gives {}: it was cut, or it is another pack's; pack the trunk again",
                segments.file_len()
            );
            return Err(Error::pack(&dir.join(BIN), problem));
        }
        Ok(manifest)
    }

    /// How `trunk.bin` is cut.
    pub fn segments(&self) -> Segments {
        let payload = self
            .tensors
            .last()
            .map_or(0, |last| last.offset + last.bytes);
        Segments::new(payload, self.segment_bytes)
    }

    /// Where every tensor is, when the pack is of this checkpoint.
    ///
    /// # Errors
    /// [`Error::Pack`] when it is of another one.
    pub fn offsets(
        self,
        dir: &Path,
        checkpoint: &Checkpoint,
    ) -> Result<HashMap<String, u64>, Error> {
        let path = dir.join(FILE);
        if self.identity != hex(&checkpoint.identity()) {
            return Err(Error::pack(&path, self.stranger(checkpoint)));
        }
        let mut offsets = HashMap::with_capacity(self.tensors.len());
        for item in self.tensors {
            let facts = (&*item.name, &*item.dtype, &*item.shape, item.bytes);
            agree(&path, checkpoint, facts)?;
            if item.name == names::EMBEDDING {
                return Err(Error::pack(
                    &path,
                    "the embedding does not belong in a pack",
                ));
            }
            if let Some(name) = offsets
                .insert(item.name.clone(), item.offset)
                .map(|_| item.name)
            {
                return Err(Error::pack(&path, format!("{name} is listed twice")));
            }
        }
        Ok(offsets)
    }

    /// What to say where the pack is of another checkpoint.
    pub fn stranger(&self, checkpoint: &Checkpoint) -> String {
        format!(
            "it is the pack of another checkpoint than {} (identity {}, not {}); name its own, or pack anew into an \
             empty folder",
            checkpoint.dir().display(),
            self.identity,
            hex(&checkpoint.identity())
        )
    }
}
