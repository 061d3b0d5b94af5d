//! The trunk as a walk: pinned segments stay in memory, the others come through the ring.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arena::Arena;
use super::files::read_into;
use super::reads::SegmentReads;
use super::ring::{Gate, Loaded, Ring};
use super::shape::slot;
use super::{
    Buffer, Error, Files, Meters, PassPlan, Piece, Place, Plan, Segment, StageId, Trunk,
    TrunkCounters, WaitFor, Walk, span_capacity,
};
use crate::checkpoint::{Checkpoint, names};
use crate::kernels::{Weights, widen};

/// How much of a walk is kept, and how the rest comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkPlan {
    /// Largest size of a segment, in bytes of weights.
    pub segment_bytes: u64,
    /// Which segments stay in memory.
    pub pinned: Vec<bool>,
    /// Slots of the ring for the others; at least one, if there are others.
    pub ring_slots: usize,
}

impl TrunkPlan {
    /// What a memory plan says for a walk.
    pub fn of(plan: &Plan, walk: &Walk) -> Self {
        Self {
            segment_bytes: walk.segment_bytes(),
            pinned: plan.pinned.clone(),
            ring_slots: plan.ring_slots,
        }
    }

    /// Everything stays in memory.
    pub fn resident(walk: &Walk) -> Self {
        let segment_bytes = walk.segment_bytes();
        let pinned = vec![true; walk.segments(segment_bytes).len()];
        Self {
            segment_bytes,
            pinned,
            ring_slots: 0,
        }
    }
}

/// The trunk of a checkpoint, streamed by a plan.
pub struct StreamedTrunk {
    checkpoint: Arc<Checkpoint>,
    files: Files,
    segments: Vec<Segment>,
    reads: Arc<Vec<SegmentReads>>,
    pinned: Arena,
    ring: Option<Ring>,
    /// Streamed segments before the head's, and the head's.
    body: Vec<usize>,
    head: Vec<usize>,
    /// The next run: its segment, and its index in it.
    at: (usize, usize),
    /// The streamed segment that is being computed on.
    held: Option<Loaded>,
    /// Place in the ring's order of the next streamed segment, and where this pass ends.
    place: u64,
    end: u64,
    /// The next pass's body was ordered already.
    ahead: bool,
    embedding: Place,
    /// Where one row of it is read to.
    embedding_row: Buffer,
    meters: Arc<Meters>,
}

impl StreamedTrunk {
    /// Loads what is pinned and starts the ring, over the open shards and the pack if there is one.
    ///
    /// # Errors
    /// A tensor is missing, a shard cannot be read, or there is no memory.
    pub fn open(
        checkpoint: Arc<Checkpoint>,
        walk: &Walk,
        plan: &TrunkPlan,
        files: Files,
    ) -> Result<Self, Error> {
        let meters = Meters::new(checkpoint.config().layers());
        Self::metered(checkpoint, walk, plan, files, meters)
    }

    /// As [`Self::open`], counting on these meters.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn metered(
        checkpoint: Arc<Checkpoint>,
        walk: &Walk,
        plan: &TrunkPlan,
        files: Files,
        meters: Arc<Meters>,
    ) -> Result<Self, Error> {
        let segments = walk.segments(plan.segment_bytes);
        debug_assert_eq!(segments.len(), plan.pinned.len());
        let reads = segments
            .iter()
            .map(|segment| SegmentReads::new(segment, walk, &checkpoint, &files))
            .collect::<Result<Vec<_>, _>>()?;
        let reads = Arc::new(reads);
        let pinned = Arena::load(&reads, &plan.pinned, &files)?;
        let pinned_bytes = reads
            .iter()
            .zip(&plan.pinned)
            .filter(|(_, p)| **p)
            .map(|(r, _)| r.bytes)
            .sum();
        meters.trunk_read(pinned_bytes);
        meters.trunk_owed(pinned_bytes);
        meters.pinned(pinned_bytes);
        tell_layers(&meters, walk, &segments, &plan.pinned);

        let streamed = |i: &usize| !plan.pinned[*i];
        // The walk starts a segment at its last stage, the head.
        let last_stage = StageId(walk.stages().len() - 1);
        let first_of_head = segments
            .iter()
            .position(|s| s[0].stage == last_stage)
            .unwrap_or(segments.len());
        let body: Vec<usize> = (0..first_of_head).filter(streamed).collect();
        let head: Vec<usize> = (first_of_head..segments.len()).filter(streamed).collect();
        let ring = if body.is_empty() && head.is_empty() {
            None
        } else {
            Some(Ring::new(
                Arc::clone(&files),
                Arc::clone(&reads),
                plan.ring_slots.max(1),
                ring_slot(&segments, &reads),
                Arc::clone(&meters),
            )?)
        };
        let embedding = files.place(&checkpoint, names::EMBEDDING)?;
        let embedding_row = Buffer::new(span_capacity(2 * checkpoint.config().hidden))?;
        Ok(Self {
            checkpoint,
            files,
            segments,
            reads,
            pinned,
            ring,
            body,
            head,
            at: (0, 0),
            held: None,
            place: 0,
            end: 0,
            ahead: false,
            embedding,
            embedding_row,
            meters,
        })
    }

    /// What lets expert reads go first, unless a pack on another drive keeps the trunk out of their way.
    pub fn gate(&self) -> Option<Gate> {
        let ring = self.ring.as_ref();
        ring.filter(|_| !self.files.pack_is_apart()).map(Ring::gate)
    }

    /// Bytes of the buffers of ring and pins, which is what the memory plan says of them, to the page.
    pub fn allocated(&self) -> (u64, u64) {
        let ring = self.ring.as_ref().map_or(0, |ring| ring.allocated);
        (ring, self.pinned.allocated())
    }

    fn release(&mut self) {
        if let (Some(ring), Some(held)) = (&self.ring, self.held.take()) {
            ring.give_back(held);
        }
    }
}

/// Tells how much of each layer is pinned.
fn tell_layers(meters: &Meters, walk: &Walk, segments: &[Segment], pinned: &[bool]) {
    let mut layers: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (segment, pinned) in segments.iter().zip(pinned) {
        for run in segment {
            let tensor = walk.tensor(run);
            if let Some(layer) = names::layer(&tensor.name) {
                let (kept, all) = layers.entry(layer).or_default();
                let weights = run.rows.len() * tensor.columns;
                *all += weights;
                *kept += if *pinned { weights } else { 0 };
            }
        }
    }
    for (layer, (kept, all)) in layers {
        meters.layer_pinned(layer, kept as f64 / all.max(1) as f64);
    }
}

/// Bytes of a slot in which every segment fits, wherever its runs are: [`super::Shape::ring_slot`] of what was opened.
fn ring_slot(segments: &[Segment], reads: &[SegmentReads]) -> usize {
    let largest = reads.iter().map(|reads| reads.bytes).max().unwrap_or(0);
    let runs = segments.iter().map(Vec::len).max().unwrap_or(0);
    slot(largest, runs as u64) as usize
}

impl Trunk for StreamedTrunk {
    fn vector(&mut self, name: &str) -> Result<Vec<f32>, Error> {
        self.files.vector(&self.checkpoint, name)
    }

    fn embedding(&mut self, id: u32, row: &mut [f32]) -> Result<(), Error> {
        let Place { file, offset } = self.embedding;
        let len = 2 * row.len();
        let offset = offset + u64::from(id) * len as u64;
        let file = self.files[file].as_ref();
        let buffer = &mut self.embedding_row;
        let bytes = self.meters.waiting(WaitFor::Embedding, move || {
            read_into(file, offset, len, buffer)
        })?;
        self.meters.embedding_read(len as u64);
        for (value, bytes) in row.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *value = widen(*bytes);
        }
        Ok(())
    }

    fn begin(&mut self, plan: PassPlan) -> Result<(), Error> {
        self.release();
        self.at = (0, 0);
        let Some(ring) = &self.ring else {
            return Ok(());
        };
        if self.place != self.end {
            // The last pass was left for good: what was ordered for it is of no use.
            self.place = ring.flush();
            self.ahead = false;
        }
        if !self.ahead {
            ring.enqueue(self.body.iter().copied());
        }
        self.end = self.place + self.body.len() as u64;
        if plan.head {
            ring.enqueue(self.head.iter().copied());
            self.end += self.head.len() as u64;
        }
        if plan.more {
            ring.enqueue(self.body.iter().copied());
        }
        self.ahead = plan.more;
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
        if first == 0 {
            self.release();
            if let (None, Some(ring)) = (self.pinned.segment(index), &self.ring) {
                let loaded = ring.take(self.place)?;
                // Other weights than those asked for would give a token that looks right.
                if loaded.segment != index {
                    return Err(Error::OutOfStep {
                        at: self.segments[loaded.segment][0].stage.0,
                        asked: next.0,
                    });
                }
                self.place += 1;
                let bytes = self.reads[index].bytes;
                self.meters.trunk_owed(bytes);
                if self.head.contains(&index) {
                    self.meters.head_read(bytes);
                }
                self.held = Some(loaded);
            }
        }
        let segment = &self.segments[index];
        let count = segment[first..]
            .iter()
            .take_while(|run| run.stage == stage)
            .count();
        self.at = (index, first + count);
        let (buffer, starts) = match (self.pinned.segment(index), &self.held) {
            (Some(pinned), _) => pinned,
            (None, Some(held)) => (held.buffer.as_slice(), &held.starts[..]),
            (None, None) => {
                return Err(Error::OutOfStep {
                    at: next.0,
                    asked: stage.0,
                });
            }
        };
        let pieces = (first..first + count)
            .map(|i| {
                let bytes = self.reads[index].run(i, buffer, starts);
                let weights = Weights::Bf16(bytes.as_chunks::<2>().0);
                Piece {
                    tensor: segment[i].tensor,
                    rows: segment[i].rows.clone(),
                    weights,
                }
            })
            .collect();
        Ok(Some(pieces))
    }

    fn counters(&self) -> TrunkCounters {
        self.meters.trunk()
    }
}
