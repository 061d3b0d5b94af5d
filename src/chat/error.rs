//! Why a conversation could not be opened or gone on with.

use std::path::PathBuf;

use super::SamplingError;
use crate::checkpoint;
use crate::model;
use crate::stream::{Garbled, Refusal};
use crate::text::TextError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A checkpoint that cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// The network failed.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// No token can be chosen.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A state file.
    #[error(transparent)]
    State(#[from] model::StateFileError),
    /// Tokenizer or history files.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The tokenizer has ids that the network has no rows for.
    #[error(
        "the tokenizer has {tokenizer} ids, the model {model}: they do not belong together; name the right folder with --tok"
    )]
    Vocabulary {
        /// Ids of the tokenizer.
        tokenizer: usize,
        /// Ids of the network.
        model: usize,
    },
    /// A message that leaves no room for an answer.
    #[error(
        "the conversation would take {needed} positions, {planned} are planned; /reset starts anew, --context plans for more. The message was not sent"
    )]
    TooLong {
        /// Positions with the new message.
        needed: usize,
        /// Positions planned.
        planned: usize,
    },
    /// `--system` and a history that begins otherwise.
    #[error("{}: the history begins with another system message than --system gives; leave --system out, or take another history", path.display())]
    OtherSystem {
        /// The history.
        path: PathBuf,
    },
    /// A message that no history can hold.
    #[error("the message has a NUL character, which no history can hold. It was not sent")]
    Nul,
    /// A message behind one that has no answer.
    #[error(
        "the last message has no answer yet: /continue answers it, /undo takes it back. The message was not sent"
    )]
    Unanswered,
    /// There is nothing that the command could act on.
    #[error("there is {0}")]
    Nothing(&'static str),
    /// The machine cannot hold the plan that was asked for.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The machine cannot be understood.
    #[error(transparent)]
    Garbled(#[from] Garbled),
    /// Another process has the conversation open.
    #[error("{}: another k3 has this conversation open{}; end it there, or name another history", path.display(),
        .holder.map(|id| format!(" (process {id})")).unwrap_or_default())]
    Locked {
        /// The history.
        path: PathBuf,
        /// The process, if it is known.
        holder: Option<u32>,
    },
    /// A file that is no history, or one of another kind that cannot be taken as it is.
    #[error("{}: {reason}; the file was left as it is: mend it, or name another history", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line or the record.
        reason: String,
    },
    /// A file would have to be kept beside itself before it is written over, and cannot be.
    #[error("{}: it is not written over, since no copy of it can be kept: {cause}", path.display())]
    NotKept {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The history is saved, the facts about its messages are not.
    #[error("{}: the facts about the messages cannot be saved: {cause}; the history itself is saved", path.display())]
    FactsNotSaved {
        /// The sidecar.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// What was taken back cannot be kept beside the history.
    #[error("{}: what was taken back cannot be kept: {cause}", path.display())]
    NotPutAside {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The journal of the running turn cannot be written.
    #[error("{}: the journal cannot be written: {cause}; the turn goes on, but a power cut or a kill would lose it", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A turn whose message is not saved keeps its journal.
    #[error("{}: the journal of the turn is kept, since the history is not saved", path.display())]
    JournalKept {
        /// The journal.
        path: PathBuf,
    },
    /// The history could not be saved; the old file is as it was.
    #[error("{}: the history cannot be saved: {cause}", path.display())]
    NotSaved {
        /// The history.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}
