//! What can end a forward pass.

use crate::stream;

/// Why a pass did not give what was asked. The state it ran on is torn then, and refuses to be fed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Weights could not be had.
    #[error(transparent)]
    Stream(#[from] stream::Error),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] stream::trace::TraceError),
    /// An id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    Id {
        /// The id.
        id: u32,
        /// Ids there are.
        vocab: usize,
    },
    /// More positions than the state was made for.
    #[error(
        "the context is full: {positions} positions were planned, {needed} are needed; plan for more with --context"
    )]
    ContextFull {
        /// Positions planned.
        positions: usize,
        /// Positions needed.
        needed: usize,
    },
    /// The caches of so many positions do not fit into the address space.
    #[error(
        "there is no room for a context of {positions} positions; plan for fewer with --context"
    )]
    NoRoom {
        /// Positions asked for.
        positions: usize,
    },
    /// A result that is no number: damaged weights, or a fault of this program.
    #[error(
        "the network's result at position {position} is not finite: the weights are damaged; check the checkpoint"
    )]
    NotFinite {
        /// The position.
        position: usize,
    },
    /// A pass on this state failed half way.
    #[error("this state was left half way through a token and cannot be used")]
    Torn,
    /// A vector of another length than the configuration says.
    #[error("{name} has {got} values, {want} are needed")]
    Vector {
        /// The tensor.
        name: String,
        /// Values it has.
        got: usize,
        /// Values it must have.
        want: usize,
    },
    /// The thread pool could not be made.
    #[error("cannot start {threads} threads: {cause}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        cause: String,
    },
}
