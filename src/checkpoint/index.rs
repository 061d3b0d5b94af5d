//! The index of a checkpoint: which tensor is where in which shard, from the shards' headers alone.

use std::collections::HashMap;
use std::path::Path;

use super::Error;
use super::config::Config;
use super::experts::{Clash, ExpertPlace, Experts};
use super::header::{self, Dtype, Entry, PREFIX, Shape};
use super::identity::Identity;
use super::layout::ExpertLayout;
use super::missing;
use super::names;
use super::shards::Shards;

/// A tensor outside the routed experts: what it is and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type on disk.
    pub dtype: Dtype,
    /// Dimensions, rows first.
    pub shape: Shape,
    /// Number of the shard.
    pub shard: u16,
    /// First byte in the file.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl Tensor {
    /// The dimensions, rows first; none for a scalar.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }
}

/// A checkpoint: its configuration, its shards open for reading, and the index over them.
///
/// Safe to share between threads; reading moves no cursor.
pub struct Checkpoint {
    pub(super) config: Config,
    pub(super) shards: Shards,
    pub(super) experts: Experts,
    /// The text model's tensors outside the experts, by full name.
    tensors: HashMap<Box<str>, Tensor>,
    /// Names that the text model does not use, with their shards: vision, and whatever else.
    others: HashMap<Box<str>, u16>,
    count: u64,
    bytes: u64,
    identity: [u8; 32],
}

impl Checkpoint {
    /// Indexes every `*.safetensors` that stands directly in `dir`. Only headers are read; [`Checkpoint::check`] then
    /// says whether all is there that the configuration needs.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Header`] for a shard that breaks the format, [`Error::Checkpoint`] for a folder without
    /// shards, a name that is given twice, or an expert that is spread over shards.
    pub fn open(dir: &Path, config: Config) -> Result<Checkpoint, Error> {
        let shards = Shards::open(dir)?;
        let mut identity = Identity::new(&config);
        let mut names = Names {
            experts: Experts::new(&config),
            tensors: HashMap::new(),
            others: HashMap::new(),
            count: 0,
            shards: &shards,
        };
        let mut bytes = 0u64;
        // One buffer for all headers: mapped pages would count as resident just the same, and a file that shrinks
        // while it is mapped ends the program.
        let mut buffer = Vec::new();
        for shard in 0..shards.count() {
            let path = shards.path(shard);
            let len = shards.len(shard);
            if len < PREFIX {
                return Err(Error::header(
                    path,
                    format!("{len} bytes are too few for a header's length"),
                ));
            }
            let mut prefix = [0; PREFIX as usize];
            shards.read(shard, 0, &mut prefix)?;
            buffer.resize(header::length(path, prefix, len)?, 0);
            shards.read(shard, PREFIX, &mut buffer)?;
            let base = PREFIX + buffer.len() as u64;
            header::parse(path, &buffer, len - base, |entry| {
                names.enter(shard, base, &entry)
            })?;
            identity.shard(
                path.file_name().unwrap_or_default().as_encoded_bytes(),
                len,
                &buffer,
            );
            bytes = bytes.saturating_add(len);
        }
        let Names {
            experts,
            tensors,
            others,
            count,
            ..
        } = names;
        Ok(Checkpoint {
            config,
            experts,
            tensors,
            others,
            count,
            bytes,
            identity: identity.finish(),
            shards,
        })
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.shards.dir()
    }

    /// Tensors in all shards, those that are not used included.
    pub fn tensor_count(&self) -> u64 {
        self.count
    }

    /// Tensors that the text model does not use: vision, and experts or names that the configuration does not have.
    pub fn ignored_count(&self) -> u64 {
        self.others.len() as u64
    }

    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// SHA-256 over the configuration and over every shard's name, size and header. It says which model a saved state
    /// belongs to.
    pub fn identity(&self) -> [u8; 32] {
        self.identity
    }

    /// Number of shards; they are numbered from 0 in the order of their names.
    pub fn shard_count(&self) -> u16 {
        self.shards.count()
    }

    /// Path of a shard. `shard` comes from a [`Tensor`] or an [`ExpertPlace`].
    pub fn shard_path(&self, shard: u16) -> &Path {
        self.shards.path(shard)
    }

    /// Size of a shard in bytes.
    pub fn shard_len(&self, shard: u16) -> u64 {
        self.shards.len(shard)
    }

    /// Names of shards that should be there by the numbering of the others (`…-00002-of-000096.safetensors`): how
    /// many, and the first four. A part of a model is legitimate, so this is a note, not an error.
    pub fn missing_shards(&self) -> (u64, Vec<String>) {
        missing::by_number(&self.shards)
    }

    /// The layout that every routed expert has.
    pub fn expert_layout(&self) -> &ExpertLayout {
        self.experts.layout()
    }

    pub(super) fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// A tensor outside the routed experts, by its full name.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] that explains why it may be missing.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, Error> {
        self.find(name).ok_or_else(|| self.absent(name.to_owned()))
    }

    /// Where a routed expert is; `layer` and `expert` count from 0.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] unless its six tensors are there with the types and shapes of the configuration.
    pub fn expert(&self, layer: usize, expert: usize) -> Result<ExpertPlace, Error> {
        if let Some(place) = self.experts.place(layer, expert) {
            return Ok(place);
        }
        if !self.experts.covers(layer, expert) {
            let problem = format!("config.json has no routed expert {expert} in layer {layer}");
            return Err(Error::checkpoint(self.dir(), problem));
        }
        match self.experts.missing_part(layer, expert) {
            Some(part) => Err(self.absent(names::expert(layer, expert, part))),
            None => {
                let problem = format!(
                    "expert {expert} of layer {layer} has other shapes than config.json gives"
                );
                Err(Error::checkpoint(self.dir(), problem))
            }
        }
    }

    fn absent(&self, name: String) -> Error {
        let reasons = missing::explain(&self.shards, std::slice::from_ref(&name)).join("; ");
        Error::checkpoint(self.dir(), format!("{name} is missing: {reasons}"))
    }

    /// A small vector, BF16 or F32 on disk, widened to f32; in row order when it has more than one dimension.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing or of another type, [`Error::Io`] when it cannot be read.
    pub fn vector(&self, name: &str) -> Result<Vec<f32>, Error> {
        let tensor = self.tensor(name)?;
        let mut bytes = vec![0; tensor.bytes as usize];
        self.read(tensor.shard, tensor.offset, &mut bytes)?;
        self.widened(name, &bytes)
    }

    /// The values of a small vector whose bytes are `bytes`, wherever they were read.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing or of another type than BF16 and F32.
    pub fn widened(&self, name: &str, bytes: &[u8]) -> Result<Vec<f32>, Error> {
        let tensor = self.tensor(name)?;
        match tensor.dtype {
            Dtype::Bf16 => {
                let (pairs, _) = bytes.as_chunks::<2>();
                Ok(pairs
                    .iter()
                    .map(|&pair| f32::from_bits(u32::from(u16::from_le_bytes(pair)) << 16))
                    .collect())
            }
            Dtype::F32 => {
                let (words, _) = bytes.as_chunks::<4>();
                Ok(words.iter().map(|&word| f32::from_le_bytes(word)).collect())
            }
            _ => {
                let problem = format!("{name} is {}, must be BF16 or F32", tensor.dtype);
                Err(Error::checkpoint(self.shard_path(tensor.shard), problem))
            }
        }
    }

    /// Fills `buf` from a shard, beginning at byte `offset` of the file.
    ///
    /// # Errors
    /// [`Error::Io`] when the system fails, [`Error::Checkpoint`] when the file ends too early.
    pub fn read(&self, shard: u16, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.shards.read(shard, offset, buf)
    }
}

/// The names while shards are being indexed.
struct Names<'s> {
    experts: Experts,
    tensors: HashMap<Box<str>, Tensor>,
    others: HashMap<Box<str>, u16>,
    count: u64,
    shards: &'s Shards,
}

impl Names<'_> {
    /// Enters a tensor. `base` is where the data begins in the file.
    fn enter(&mut self, shard: u16, base: u64, entry: &Entry<'_>) -> Result<(), Error> {
        self.count += 1;
        let offset = base + entry.start;
        if let Some(id) = names::parse_expert(entry.name)
            .filter(|&(layer, expert, _)| self.experts.covers(layer, expert))
        {
            return self.experts.enter(id, shard, offset, entry).map_err(|clash| match clash {
                Clash::Twice(first) => self.twice(entry.name, first, shard),
                Clash::Apart(first) => {
                    let problem = format!(
                        "{} is here, but other tensors of the same expert are in {}; an expert must be in one shard",
                        entry.name,
                        self.file_name(first)
                    );
                    Error::checkpoint(self.shards.path(shard), problem)
                }
            });
        }
        let name: Box<str> = entry.name.into();
        let first = if is_text_model(entry.name) {
            let Entry {
                dtype,
                shape,
                bytes,
                ..
            } = *entry;
            self.tensors
                .insert(
                    name,
                    Tensor {
                        dtype,
                        shape,
                        shard,
                        offset,
                        bytes,
                    },
                )
                .map(|first| first.shard)
        } else {
            self.others.insert(name, shard)
        };
        match first {
            Some(first) => Err(self.twice(entry.name, first, shard)),
            None => Ok(()),
        }
    }

    fn twice(&self, name: &str, first: u16, second: u16) -> Error {
        let path = self.shards.path(second);
        if first == second {
            Error::header(path, format!("tensor {name:?} is listed twice"))
        } else {
            Error::checkpoint(
                path,
                format!(
                    "tensor {name:?} is here and in {} too",
                    self.file_name(first)
                ),
            )
        }
    }

    fn file_name(&self, shard: u16) -> String {
        self.shards
            .path(shard)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

/// Whether a name belongs to the text model; an expert that gets here is one the configuration does not have. Vision
/// tensors do not, under whatever prefix.
fn is_text_model(name: &str) -> bool {
    name.starts_with(names::TEXT_MODEL)
        && names::parse_expert(name).is_none()
        && !name
            .split('.')
            .any(|part| matches!(part, "vision_tower" | "mm_projector"))
}
