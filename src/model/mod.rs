//! The network: weights by name, layers, the forward pass, the carried state. It asks [`crate::stream`] for bytes and
//! leaves arithmetic to [`crate::kernels`].
//!
//! Every layer kind has a file: [`Kda`], [`Mla`], [`Dense`], [`Moe`]. A [`Blueprint`] makes the walk from the
//! configuration, a [`Network`] walks it.

mod blueprint;
mod compute;
mod dense;
mod error;
mod experts;
mod footprint;
mod kda;
mod layer;
pub mod measure;
mod mla;
mod moe;
mod network;
mod residual;
mod saved;
mod state;

pub use blueprint::Blueprint;
pub use compute::{Compute, Product, Sources, Through};
pub use dense::{Dense, DenseStages};
pub use error::Error;
pub use kda::{Kda, KdaInputs, KdaStages};
pub use layer::{Attend, FeedForward, Flow, Layer, LayerStages};
pub use mla::{Mla, MlaStages};
pub use moe::{Moe, MoeStages, Routed};
pub use network::{Draft, Logits, Network, PREFILL_CHUNK, Pass, Want};
pub use residual::Residual;
pub use saved::{ModelKey, SavedState, StateFileError, StateWriter, UNFINISHED, Unfit};
pub use state::{KdaState, Kept, LatentCache, LayerState, State};
