//! Why a conversation could not be opened or gone on with.

use std::path::PathBuf;

use super::SamplingError;
use crate::model;
use crate::stream::{Garbled, Refusal};
use crate::text::TextError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network failed.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// No token can be chosen.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
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
    /// The machine cannot hold the plan that was asked for.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The machine cannot be understood.
    #[error(transparent)]
    Garbled(#[from] Garbled),
    /// The history could not be saved; the old file is as it was.
    #[error("{}: the history cannot be saved: {cause}", path.display())]
    NotSaved {
        /// The history.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}
