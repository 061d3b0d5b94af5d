//! Comparing the bytes of a pack: ours with the hashes of its manifest, the C engine's, which has none, with the shards.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::manifest::Manifest;
use super::segments::Segments;
use super::{BIN, Kind, Pack, Progress};
use crate::checkpoint::{Checkpoint, hex};
use crate::stream::{Buffer, Error, ReadAt, files, read_span, span_capacity};

/// Bytes that are compared at once where a pack has no segments.
const PIECE: u64 = 32 << 20;

/// How a check ended that found no damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// So many bytes are right.
    Right(u64),
    /// It was stopped before the end.
    Interrupted,
}

/// Reads the whole pack in a folder and compares it. `progress` is told of the bytes that are done and says whether to go on.
///
/// # Errors
/// [`Error::Damaged`] with the first place that differs; all errors of [`Pack::open`]; a read that fails.
pub fn check(
    dir: &Path,
    checkpoint: &Checkpoint,
    progress: &mut Progress<'_>,
) -> Result<Checked, Error> {
    let pack = Pack::open(dir, checkpoint)?;
    match pack.kind {
        Kind::Ours => {
            let manifest = Manifest::load(dir)?;
            let segments = manifest.segments();
            hashes(&dir.join(BIN), segments, &manifest.sha256, progress)
        }
        Kind::CEngine => with_shards(&pack, checkpoint, progress),
    }
}

/// Compares a file with the hashes of its segments.
pub(super) fn hashes(
    bin: &Path,
    segments: Segments,
    sha256: &[String],
    progress: &mut Progress<'_>,
) -> Result<Checked, Error> {
    let file = files::open(bin)?;
    let mut reader = Reader::new(segments.range(0).end)?;
    for (i, want) in sha256.iter().enumerate() {
        let range = segments.range(i);
        let bytes = reader.read(file.as_ref(), range.start, range.end - range.start)?;
        if hex(&Sha256::digest(bytes)) != *want {
            let problem = format!(
                "segment {i}, bytes {} to {}, is not what its hash says",
                range.start, range.end
            );
            return Err(Error::Damaged {
                path: bin.to_owned(),
                problem,
            });
        }
        if !progress("checked", range.end, segments.file_len()) {
            return Ok(Checked::Interrupted);
        }
    }
    Ok(Checked::Right(segments.file_len()))
}

/// Compares every tensor with its shard.
fn with_shards(
    pack: &Pack,
    checkpoint: &Checkpoint,
    progress: &mut Progress<'_>,
) -> Result<Checked, Error> {
    let bin = files::open(&pack.bin)?;
    let (mut packed, mut original) = (Reader::new(PIECE)?, Reader::new(PIECE)?);
    let mut tensors = pack
        .offsets
        .iter()
        .map(|(name, &offset)| Ok((offset, name, *checkpoint.tensor(name)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    tensors.sort_unstable_by_key(|(offset, ..)| *offset);
    let total = tensors.iter().map(|(.., tensor)| tensor.bytes).sum();
    let mut right = 0;
    for (offset, name, tensor) in tensors {
        let shard = files::open(checkpoint.shard_path(tensor.shard))?;
        for at in (0..tensor.bytes).step_by(PIECE as usize) {
            let len = PIECE.min(tensor.bytes - at);
            let packed = packed.read(bin.as_ref(), offset + at, len)?;
            let original = original.read(shard.as_ref(), tensor.offset + at, len)?;
            if let Some(i) = packed.iter().zip(original).position(|(a, b)| a != b) {
                let problem = format!(
                    "byte {} differs from {name} in {}",
                    offset + at + i as u64,
                    checkpoint.shard_path(tensor.shard).display()
                );
                return Err(Error::Damaged {
                    path: pack.bin.clone(),
                    problem,
                });
            }
            right += len;
            if !progress("compared", right, total) {
                return Ok(Checked::Interrupted);
            }
        }
    }
    Ok(Checked::Right(right))
}

/// Reads pieces of files, one after the other, into one buffer.
pub(super) struct Reader(Buffer);

impl Reader {
    /// For pieces of at most `longest` bytes.
    pub fn new(longest: u64) -> Result<Self, Error> {
        Buffer::new(span_capacity(longest as usize)).map(Self)
    }

    pub fn read(&mut self, file: &dyn ReadAt, offset: u64, len: u64) -> Result<&[u8], Error> {
        let len = len as usize;
        let pad = read_span(file, offset, len, self.0.as_mut_slice())
            .map_err(|cause| Error::read(file.path(), offset, len, cause))?;
        Ok(&self.0.as_slice()[pad..pad + len])
    }
}
