//! Bytes from disk to memory: the walk over the trunk and the experts. Nothing here knows what the weights compute.
//!
//! [`Trunk`] and [`Experts`] are the seam through which [`crate::model`] asks for weights. What stands behind them may
//! stream, keep or invent the bytes; what comes out is the same.

mod error;
mod experts;
mod plain;
mod policy;
mod resident;
pub mod simulate;
pub mod trace;
mod trunk;
mod walk;

pub use error::Error;
pub use experts::{ExpertCounters, ExpertWeights, Experts, Wanted};
pub use plain::PlainExperts;
pub use policy::Policy;
pub use resident::ResidentTrunk;
pub use trunk::{PassPlan, Piece, Trunk, TrunkCounters};
pub use walk::{Run, Segment, Stage, StageId, Walk, WalkTensor};
