//! Files that somebody changed, of every format that the program reads: whatever the bytes are, reading ends in an answer,
//! takes memory that the size of the file bounds, and says what is wrong in one line that names the file. What a person
//! types and what a model says as text go the same way in `src/tui/mutations.rs`.
//!
//! `K3_CAMPAIGN=N` reads N changed files of each format under a watchdog, `K3_SEED=S` begins with another seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/allocations.rs"]
mod allocations;
#[path = "../common/mod.rs"]
mod common;
#[path = "../support/mod.rs"]
mod support;

mod checkpoints;
mod conversations;
mod harness;
mod packs;
mod settings;
mod states;
mod traces;
mod words;

use support::mutate;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;
