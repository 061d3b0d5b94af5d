//! Exit codes, and which error gives which.

use crate::checkpoint;
use crate::model;
use crate::stream;
use crate::text::TextError;

/// Errors that stand for an exit code of their own.
#[derive(Debug, thiserror::Error)]
pub enum Exit {
    /// 2: a flag, file or budget that cannot be used.
    #[error("{0}")]
    Refused(String),
    /// 3: a result file could not be written.
    #[error("{0}")]
    NotWritten(String),
    /// 5: interrupted at a safe point, results so far written.
    #[error("interrupted; what was computed until here is kept")]
    Interrupted,
}

impl Exit {
    /// Refused: usage, config, budget.
    pub const REFUSED: u8 = 2;

    /// The exit code of a command that ended with this error.
    pub fn code(error: &anyhow::Error) -> u8 {
        if let Some(exit) = error.downcast_ref::<Exit>() {
            return match exit {
                Exit::Refused(_) => Self::REFUSED,
                Exit::NotWritten(_) => 3,
                Exit::Interrupted => 5,
            };
        }
        if let Some(model::Error::Stream(stream::Error::Expert { .. })) = error.downcast_ref() {
            return 4;
        }
        match error.is::<checkpoint::Error>() || error.is::<TextError>() {
            true => Self::REFUSED,
            false => 1,
        }
    }
}
