//! The seam to everything outside the routed experts: what a pass asks for, in the order of its walk.

use std::ops::Range;
use std::time::Duration;

use super::{Error, StageId};
use crate::kernels::Weights;

/// What the next pass will use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassPlan {
    /// Whether the last stage, the lm_head, is wanted. A chunk in the middle of a prompt has no use for it.
    pub head: bool,
    /// Whether another pass is expected after this one, so that readers run on.
    pub more: bool,
}

/// Rows of one tensor that are in memory now.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Index of the tensor in its stage.
    pub tensor: usize,
    /// Its rows, a multiple of the tensor's unit except at its end.
    pub rows: Range<usize>,
    /// The rows themselves.
    pub weights: Weights<'a>,
}

/// What went by, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrunkCounters {
    /// Read for the stages of the walk, pinned parts included.
    pub bytes_read: u64,
    /// Kept in memory between passes.
    pub bytes_pinned: u64,
    /// Of `bytes_read`, the lm_head's.
    pub head_bytes_read: u64,
    /// Read for embedding rows.
    pub embedding_bytes_read: u64,
    /// Slots of the ring; none where everything is pinned.
    pub ring_slots: usize,
    /// Of them, those with a read in flight at this moment.
    pub ring_in_flight: usize,
    /// Time that the computation has waited for the ring.
    pub stalled: Duration,
}

/// Gives every weight outside the routed experts. One pass at a time; it may stop anywhere and go on later.
pub trait Trunk: Send {
    /// A small vector by name, widened to f32. Asked for once, before the first pass.
    ///
    /// # Errors
    /// The tensor is missing or cannot be read.
    fn vector(&mut self, name: &str) -> Result<Vec<f32>, Error>;

    /// The embedding of a token, widened into `row`. The id must be in the vocabulary.
    ///
    /// # Errors
    /// The row cannot be read.
    fn embedding(&mut self, id: u32, row: &mut [f32]) -> Result<(), Error>;

    /// Starts a pass at the beginning of the walk, whatever the last one reached.
    ///
    /// # Errors
    /// Reading failed earlier and cannot go on.
    fn begin(&mut self, plan: PassPlan) -> Result<(), Error>;

    /// The next rows of this stage, as many as came at once; nothing when the stage is through. Stages are asked for in
    /// the walk's order, each until it is through; in every stage tensors and rows ascend.
    ///
    /// # Errors
    /// The rows cannot be read, or the stage is not the next one.
    fn pieces(&mut self, stage: StageId) -> Result<Option<Vec<Piece<'_>>>, Error>;

    /// Bytes so far.
    fn counters(&self) -> TrunkCounters;
}
