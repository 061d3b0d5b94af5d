//! What can go wrong between disk and memory.

use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoint;
use crate::checkpoint::one_line;

/// A read that failed, or a request that no walk foresees.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The checkpoint could not be read.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// An expert could not be read, not even when tried again: a drop. It ends the turn, since a token is never
    /// computed from a part of its experts.
    #[error("expert {expert} of layer {layer} could not be read: {cause}")]
    Expert {
        /// Zero-based layer.
        layer: usize,
        /// Expert number.
        expert: usize,
        /// The last attempt's failure.
        cause: Box<Error>,
    },
    /// The network asked for weights in another order than the walk it made: a fault of this program.
    #[error("the walk is at stage {at}, stage {asked} was asked for (a fault of this program)")]
    OutOfStep {
        /// The next stage of the walk.
        at: usize,
        /// The stage asked for.
        asked: usize,
    },
    /// The system gave no memory.
    #[error(
        "{bytes} bytes of memory cannot be had: {source}; choose a smaller plan or close other programs"
    )]
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A file that could not be opened for reading.
    #[error("{}: cannot open: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A read that failed.
    #[error("{}: cannot read {bytes} bytes from byte {offset}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where the payload begins in the file.
        offset: u64,
        /// Bytes of the payload.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a reader's thread.
    #[error("cannot start a thread that reads: {cause}")]
    Thread {
        /// What the system said.
        cause: io::Error,
    },
    /// A reader panicked: a fault of this program.
    #[error("a reader of the trunk failed (a fault of this program)")]
    ReaderFailed,
    /// A file whose reading speed cannot be measured.
    #[error("{}: {problem}", path.display())]
    Measure {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        problem: String,
    },
    /// The last change of the plan failed, and the one before could not be had back.
    #[error("the model is closed: no plan could be kept; choose a smaller preset")]
    Closed,
    /// A packed trunk that cannot be used or written.
    #[error("{}: {problem}", path.display())]
    Pack {
        /// The folder or the file of it that is at fault.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A packed trunk whose bytes are not what they were.
    #[error("{}: {problem}; delete the pack and run k3 pack again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what was compared.
        problem: String,
    },
    /// A packed trunk that the system does not let us write.
    #[error("{}: cannot {action}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A source that holds its weights itself lacks one.
    #[error("there is no tensor {0}")]
    NoTensor(String),
}

impl Error {
    pub(super) fn pack(path: &Path, problem: impl Into<String>) -> Self {
        Self::Pack {
            path: path.to_owned(),
            // It may quote a manifest.
            problem: one_line(&problem.into()),
        }
    }

    pub(super) fn write(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            action,
            source,
        }
    }

    pub(super) fn read(path: &Path, offset: u64, bytes: usize, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            offset,
            bytes,
            source,
        }
    }
}
