//! The trunk held in memory, read once from the shards. It never reads ahead, since nothing is left to read.

use std::sync::Arc;

use super::{Error, PassPlan, Piece, Segment, StageId, Trunk, TrunkCounters, Walk};
use crate::checkpoint::{Checkpoint, Tensor, names};
use crate::kernels::{Weights, widen};

/// Every segment of a walk, pinned.
pub struct ResidentTrunk {
    checkpoint: Arc<Checkpoint>,
    walk: Walk,
    segments: Vec<Segment>,
    /// The bytes of each segment, its runs one after the other.
    bytes: Vec<Vec<u8>>,
    embedding: Tensor,
    embedding_row: Vec<u8>,
    /// The next run: its segment, and its index in it.
    at: (usize, usize),
    counters: TrunkCounters,
}

impl ResidentTrunk {
    /// Reads the whole walk. The checkpoint must have been checked.
    ///
    /// # Errors
    /// A tensor is missing or cannot be read.
    pub fn load(checkpoint: Arc<Checkpoint>, walk: Walk) -> Result<Self, Error> {
        let limit = walk.segment_bytes();
        Self::load_in_segments(checkpoint, walk, limit)
    }

    /// As [`Self::load`], with segments of another size: the bits that come of it are the same.
    ///
    /// # Errors
    /// A tensor is missing or cannot be read.
    pub fn load_in_segments(
        checkpoint: Arc<Checkpoint>,
        walk: Walk,
        limit: u64,
    ) -> Result<Self, Error> {
        let segments = walk.segments(limit);
        let mut counters = TrunkCounters::default();
        let mut bytes = Vec::with_capacity(segments.len());
        for segment in &segments {
            let mut buffer = Vec::new();
            for run in segment {
                let tensor = walk.tensor(run);
                let on_disk = checkpoint.tensor(&tensor.name)?;
                let row_bytes = 2 * tensor.columns;
                let start = buffer.len();
                buffer.resize(start + run.rows.len() * row_bytes, 0);
                let offset = on_disk.offset + (run.rows.start * row_bytes) as u64;
                checkpoint.read(on_disk.shard, offset, &mut buffer[start..])?;
                if tensor.name == names::LM_HEAD {
                    counters.head_bytes_read += (buffer.len() - start) as u64;
                }
            }
            counters.bytes_read += buffer.len() as u64;
            counters.bytes_pinned += buffer.len() as u64;
            bytes.push(buffer);
        }
        let embedding = *checkpoint.tensor(names::EMBEDDING)?;
        let embedding_row = vec![0; 2 * checkpoint.config().hidden];
        Ok(Self {
            checkpoint,
            walk,
            segments,
            bytes,
            embedding,
            embedding_row,
            at: (0, 0),
            counters,
        })
    }
}

impl Trunk for ResidentTrunk {
    fn vector(&mut self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.checkpoint.vector(name)?)
    }

    fn embedding(&mut self, id: u32, row: &mut [f32]) -> Result<(), Error> {
        let bytes = &mut self.embedding_row[..];
        let offset = self.embedding.offset + u64::from(id) * bytes.len() as u64;
        self.checkpoint.read(self.embedding.shard, offset, bytes)?;
        self.counters.embedding_bytes_read += bytes.len() as u64;
        for (value, bytes) in row.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *value = widen(*bytes);
        }
        Ok(())
    }

    fn begin(&mut self, _: PassPlan) -> Result<(), Error> {
        self.at = (0, 0);
        Ok(())
    }

    fn pieces(&mut self, stage: StageId) -> Result<Option<Vec<Piece<'_>>>, Error> {
        let (mut index, mut first) = self.at;
        if self.segments.get(index).is_some_and(|s| first == s.len()) {
            (index, first) = (index + 1, 0);
        }
        let Some(segment) = self.segments.get(index) else {
            return Ok(None);
        };
        let next = segment[first].stage;
        if next != stage {
            // The stage is through, or it is not its turn.
            return if next > stage {
                Ok(None)
            } else {
                Err(Error::OutOfStep {
                    at: next.0,
                    asked: stage.0,
                })
            };
        }
        let row_bytes = |run| 2 * self.walk.tensor(run).columns;
        let mut start: usize = segment[..first]
            .iter()
            .map(|run| run.rows.len() * row_bytes(run))
            .sum();
        let mut pieces = Vec::new();
        for run in segment[first..].iter().take_while(|run| run.stage == stage) {
            let end = start + run.rows.len() * row_bytes(run);
            let weights = Weights::Bf16(self.bytes[index][start..end].as_chunks::<2>().0);
            pieces.push(Piece {
                tensor: run.tensor,
                rows: run.rows.clone(),
                weights,
            });
            start = end;
        }
        self.at = (index, first + pieces.len());
        Ok(Some(pieces))
    }

    fn counters(&self) -> TrunkCounters {
        self.counters
    }
}
