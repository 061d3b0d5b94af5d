//! What is on disk: a checkpoint's files, their headers and names; nothing is computed with what they hold.
//!
//! [`config`] says what a model is, [`layout`] what its checkpoint must hold under which of the [`names`],
//! [`shards`] which files there are, [`header`] what one of them holds, and [`index`] puts the four together.
//! [`verify`] looks for what is wrong with the files. [`synth`] writes a checkpoint from a configuration alone.
//! [`atomic`] replaces a file whole, for all who save one.

mod architecture;
pub mod atomic;
mod check;
pub mod config;
mod config_json;
mod config_reader;
pub mod demo;
mod dtype;
pub mod error;
mod experts;
pub mod header;
mod header_json;
mod hex;
mod identity;
pub mod index;
mod index_file;
mod json;
pub mod layout;
mod missing;
pub mod names;
mod one_line;
pub mod release;
mod released;
pub mod shards;
pub mod synth;
mod synth_config;
pub(crate) mod synth_values;
pub mod verify;

pub use config::Config;
pub use dtype::Dtype;
pub use error::Error;
pub use experts::{ExpertAt, ExpertPlace};
pub use hex::hex;
pub use index::{Checkpoint, Tensor};
pub use index_file::INDEX_FILE;
pub use one_line::one_line;
