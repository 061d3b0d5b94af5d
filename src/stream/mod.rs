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
mod reads;
mod ring;
mod span;
mod streamed;
mod trunk;
mod walk;

pub use buffer::{BLOCK, Buffer, HUGE_PAGE, Pages};
pub use direct::{DirectFile, ReadAt};
pub use error::Error;
pub use experts::{ExpertCounters, ExpertWeights, Experts, Wanted};
pub use plain::PlainExperts;
pub use ring::{Gate, SlotState};
pub use span::{Span, read_span, span_capacity};
pub use streamed::{StreamedTrunk, TrunkPlan};
pub use trunk::{PassPlan, Piece, Trunk, TrunkCounters};
pub use walk::{Run, Segment, Stage, StageId, Walk, WalkTensor};
