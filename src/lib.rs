//! Kimi K3 on one's own computer.
//!
//! The map of the house, in the order in which data flows. Each module may use what stands after it in this
//! list, never what stands before.
//!
//! * `capi`: the C interface (feature `capi`).
//! * [`tui`]: the screen. State, messages, update, views.
//! * [`cli`]: the commands of `k3`, one file a command.
//! * [`engine`]: the inference thread. Its commands, its events, its telemetry.
//! * [`chat`]: a conversation. Its messages, its history file, its turns.
//! * [`text`]: words. The tokenizer, and the chat format, rendered and parsed.
//! * [`model`]: the network. Weights by name, layers, the forward pass, the carried state.
//! * [`stream`]: bytes from disk to memory. The walk over the trunk, the store of experts.
//! * [`checkpoint`]: what is on disk. `config.json`, safetensors headers, tensor names, synthetic checkpoints.
//! * [`kernels`]: arithmetic. Pure functions on slices.
//! * [`system`]: what differs between operating systems.
// Modules explain how their private parts go together; `cargo doc --document-private-items` has those pages.
#![allow(rustdoc::private_intra_doc_links)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "capi")]
pub mod capi;
pub mod chat;
pub mod checkpoint;
pub mod cli;
pub mod engine;
pub mod kernels;
pub mod model;
pub mod stream;
pub mod system;
pub mod text;
pub mod tui;
