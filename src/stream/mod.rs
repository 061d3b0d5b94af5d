//! Bytes from disk to memory: the walk over the trunk and the experts. Nothing here knows what the weights compute.
//!
//! [`Trunk`] and [`Experts`] are the seam through which [`crate::model`] asks for weights. What stands behind them may
//! stream, keep or invent the bytes; what comes out is the same.
//!
//! How much memory they may take is a [`Plan`], made by [`plan()`] from a model's [`Shape`], a [`Request`] and the
//! [`Machine`], before anything is allocated.

mod arena;
mod auto;
mod buffer;
mod cgroup;
mod closed;
mod direct;
mod error;
mod experts;
pub mod faulty;
mod files;
mod machine;
pub mod measure;
mod meters;
pub mod pack;
mod pins;
mod plan;
mod policy;
mod predict;
mod preset;
mod reads;
pub mod recent;
mod refusal;
mod retry;
mod ring;
mod shape;
pub mod simulate;
mod space;
mod span;
mod store;
mod streamed;
pub mod sums;
mod sync;
pub mod trace;
mod trunk;
mod volume;
mod walk;

pub use buffer::{BLOCK, Buffer, HUGE_PAGE, Pages};
pub use cgroup::ControlGroup;
pub use closed::Closed;
pub use direct::{DirectFile, ReadAt};
pub use error::Error;
pub use experts::{ExpertCounters, ExpertWeights, Experts, Wanted};
pub use files::{Files, OpenFiles, Place, open_files, open_shards, open_weights, open_with_pack};
pub use machine::{GROUP_MARGIN, Garbled, Limit, Machine, Memory};
pub(crate) use meters::Clock;
pub use meters::{
    Kernel, KernelMeter, Kernels, LayerFigures, Meters, Reading, SlotState, Split, WaitFor, Waits,
};
pub use pins::pins;
pub use plan::{EXPERT_SLOTS, Parts, PerToken, Plan, RING_SLOTS, Request, plan};
pub use policy::Policy;
pub use predict::{Binding, Prediction, Speeds, predict};
pub use preset::{Budgets, Preset};
pub use refusal::Refusal;
pub use ring::Gate;
pub use shape::{Activations, PAGE, Shape, WIDENING};
pub use space::{Space, Workspace};
pub use span::{Span, read_span, span_capacity};
pub use store::ExpertStore;
pub use streamed::{StreamedTrunk, TrunkPlan};
pub use trunk::{PassPlan, Piece, Trunk, TrunkCounters};
pub use volume::Volume;
pub use walk::{Run, Segment, Stage, StageId, Walk, WalkTensor};
