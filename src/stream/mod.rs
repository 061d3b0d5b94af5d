//! Bytes from disk to memory: the walk over the trunk and the experts. Nothing here knows what the weights compute.
//!
//! [`Trunk`] and [`Experts`] are the seam through which [`crate::model`] asks for weights. What stands behind them may
//! stream, keep or invent the bytes; what comes out is the same.

mod buffer;
mod direct;
mod error;
mod experts;
pub mod faulty;
pub mod measure;
mod plain;
mod resident;
mod span;
mod trunk;
mod walk;

pub use buffer::{BLOCK, Buffer, HUGE_PAGE, Pages};
pub use direct::{DirectFile, ReadAt};
pub use error::Error;
pub use experts::{ExpertCounters, ExpertWeights, Experts, Wanted};
pub use plain::PlainExperts;
pub use resident::ResidentTrunk;
pub use span::{Span, read_span, span_capacity};
pub use trunk::{PassPlan, Piece, Trunk, TrunkCounters};
pub use walk::{Run, Segment, Stage, StageId, Walk, WalkTensor};
