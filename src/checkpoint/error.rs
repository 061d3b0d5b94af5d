//! The one error type of this module: each message names the file and says what is wrong with it.

use std::io;
use std::path::{Path, PathBuf};

/// Why something on disk cannot be used or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a read, a write or a listing.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A `config.json` that does not describe a model this program can run. Every problem is listed.
    #[error("{}: this model configuration cannot be used: {}", path.display(), problems.join("; "))]
    Config {
        /// The file.
        path: PathBuf,
        /// Each thing that is missing or wrong, in the order in which they were found.
        problems: Vec<String>,
    },
    /// A safetensors file whose header is not what the format allows.
    #[error("{}: not a valid safetensors file: {problem}", path.display())]
    Header {
        /// The shard.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Files that are each valid but do not make the checkpoint that the configuration describes.
    #[error("{}: {problem}", path.display())]
    Checkpoint {
        /// The model's folder, or the shard that is at fault.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A synthetic checkpoint that cannot be written as asked.
    #[error("{}: {problem}", path.display())]
    Synth {
        /// The folder that was to be written.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl Error {
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }

    pub(super) fn header(path: &Path, problem: impl Into<String>) -> Error {
        Error::Header {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    pub(super) fn checkpoint(path: &Path, problem: impl Into<String>) -> Error {
        Error::Checkpoint {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    pub(super) fn synth(path: &Path, problem: impl Into<String>) -> Error {
        Error::Synth {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}
