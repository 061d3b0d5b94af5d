//! What can be wrong with the files and ids that words are made of, one clear line each.

use std::path::{Path, PathBuf};

/// An error of this module.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file of the tokenizer could not be read.
    #[error(
        "cannot read {}: {cause}; name the folder of tiktoken.model and tokenizer_config.json with --tok",
        path.display()
    )]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A history file could not be read.
    #[error("cannot read the history {}: {cause}", path.display())]
    HistoryFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// `tiktoken.model` is not a vocabulary.
    #[error("{}:{line}: {reason}; the vocabulary is damaged or not in tiktoken's format, fetch it again", path.display())]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// `tokenizer_config.json` does not name special tokens that fit the vocabulary beside it.
    #[error("{}: {reason}; tiktoken.model and tokenizer_config.json must come from one release", path.display())]
    Specials {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An id that no token has.
    #[error("there is no token {id}: this vocabulary has ids 0 to {last}")]
    UnknownId {
        /// The id.
        id: u32,
        /// The last id of the vocabulary.
        last: u32,
    },
    /// The tokenizer lacks a special token that the chat format is made of.
    #[error(
        "the tokenizer has no special token {name}: it is not one of Kimi K3, name another folder with --tok"
    )]
    NoMarker {
        /// The name that is missing.
        name: &'static str,
    },
    /// The markers of a vocabulary as large as the released one have other ids than the released ones.
    #[error(
        "{name} is {found} in this tokenizer and {expected} in Kimi K3: name the folder of the release with --tok"
    )]
    ForeignMarker {
        /// The marker.
        name: &'static str,
        /// Its id here.
        found: u32,
        /// Its id in the release.
        expected: u32,
    },
    /// A line of a history is not a message.
    #[error("{}:{line}: {reason}; mend the line or name another history", path.display())]
    History {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
}

/// The result of what can fail here.
pub type Result<T> = std::result::Result<T, TextError>;

/// Largest file that is read whole: a hundred times the released vocabulary.
const LARGEST_FILE: u64 = 256 << 20;

/// Reads a file of the tokenizer whole. A file that is far too large to be what it should be is refused, not read.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?
            .take(LARGEST_FILE + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST_FILE {
            return Err(std::io::Error::other(
                "the file is larger than 256 MiB, it cannot be part of a tokenizer",
            ));
        }
        Ok(bytes)
    };
    read().map_err(|cause| TextError::TokenizerFile {
        path: path.to_owned(),
        cause,
    })
}
