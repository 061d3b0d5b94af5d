//! Why a state could not be saved or loaded.

use std::io;
use std::path::PathBuf;

/// What went wrong with a state file.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file cannot be read.
    #[error("{}: the state cannot be read: {cause}", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file cannot be used; nothing of it was.
    #[error("{}: the state cannot be used: {why}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        why: Unfit,
    },
    /// It could not be saved; a file that was there is as it was.
    #[error("{}: the state cannot be saved: {cause}", path.display())]
    NotSaved {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A state that was left half way through a token, or that belongs to another model or other ids.
    #[error("the state is not whole and was not saved")]
    Torn,
}

/// Why a state file is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Another kind of file.
    #[error("it is no state file of this program")]
    NoState,
    /// The C engine's.
    #[error(
        "it is a state file of the C engine, which keeps other numbers; read the prompt once here and save with --save-state"
    )]
    OfCEngine,
    /// Another version of the format.
    #[error("its format has version {0}, this program reads version {version}; make it anew", version = super::head::VERSION)]
    Version(u32),
    /// Fewer bytes than its header says.
    #[error("it is cut: {got} bytes of {want}")]
    Cut {
        /// Bytes there are.
        got: u64,
        /// Bytes there should be.
        want: u64,
    },
    /// More bytes than its header says.
    #[error("it has {0} bytes too many at its end")]
    Trailing(u64),
    /// A hash is wrong.
    #[error("it is damaged: its {0} are not what was written")]
    Damaged(&'static str),
    /// Made with another configuration.
    #[error("it was made with another configuration of the model")]
    OtherConfig,
    /// Made with other weights.
    #[error("it was made with another model")]
    OtherModel,
    /// Made with fewer or more layers.
    #[error("it was made with {got} layers, {want} run here; see --layers")]
    Layers {
        /// Layers of the file.
        got: usize,
        /// Layers that run.
        want: usize,
    },
    /// Its own numbers contradict each other.
    #[error("its numbers do not fit together: {0}")]
    Inconsistent(String),
    /// More positions than are planned.
    #[error(
        "it holds {positions} positions, {capacity} are planned; ask for more with --context {needed}"
    )]
    Full {
        /// Positions it holds.
        positions: usize,
        /// Positions planned.
        capacity: usize,
        /// What to plan at least.
        needed: usize,
    },
}
