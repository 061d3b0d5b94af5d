//! Exit codes, and which error gives which.

use crate::chat;
use crate::checkpoint;
use crate::model::{self, StateFileError};
use crate::stream::{self, trace::TraceError};
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
        // A conversation passes on what went wrong below it.
        let chat = error.downcast_ref::<chat::Error>();
        let model = match chat {
            Some(chat::Error::Model(model)) => Some(model),
            _ => error.downcast_ref::<model::Error>(),
        };
        if let Some(model::Error::Stream(stream::Error::Expert { .. })) = model {
            return 4;
        }
        if let Some(model::Error::Stream(stream::Error::Pack { .. })) = model {
            return Self::REFUSED;
        }
        let trace = match model {
            Some(model::Error::Trace(trace)) => Some(trace),
            _ => error.downcast_ref::<TraceError>(),
        };
        if let Some(TraceError::Write { .. }) = trace {
            return 3;
        }
        let state = match chat {
            Some(chat::Error::State(state)) => Some(state),
            _ => error.downcast_ref::<StateFileError>(),
        };
        match state {
            Some(StateFileError::NotSaved { .. }) => return 3,
            Some(StateFileError::Refused { .. } | StateFileError::NotRead { .. }) => {
                return Self::REFUSED;
            }
            Some(StateFileError::Torn) | None => {}
        }
        match chat {
            Some(chat::Error::NotSaved { .. } | chat::Error::NotKept { .. }) => return 3,
            Some(chat::Error::Model(_) | chat::Error::State(_)) | None => {}
            // Files and messages that do not fit together.
            Some(_) => return Self::REFUSED,
        }
        let refused = error.is::<checkpoint::Error>()
            || error.is::<TextError>()
            || error.is::<stream::Refusal>()
            || error.is::<stream::Garbled>()
            || matches!(error.downcast_ref(), Some(stream::Error::Pack { .. }));
        match refused {
            true => Self::REFUSED,
            false => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn every_error_has_its_code() {
        let io = || checkpoint::Error::Checkpoint {
            path: PathBuf::from("x"),
            problem: "gone".into(),
        };
        let dropped = || stream::Error::Expert {
            layer: 1,
            expert: 2,
            cause: Box::new(io().into()),
        };
        let garbled = stream::Garbled {
            path: PathBuf::from("x"),
            problem: "gone".into(),
        };
        let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let path = || PathBuf::from("x");
        let trace = || TraceError::Write {
            path: path(),
            cause: gone(),
        };
        let pack = || stream::Error::Pack {
            path: path(),
            problem: "of another model".into(),
        };
        let damaged = stream::Error::Damaged {
            path: path(),
            problem: "a byte differs".into(),
        };
        let unfit = StateFileError::Refused {
            path: path(),
            why: model::Unfit::OtherModel,
        };
        let not_read = StateFileError::NotRead {
            path: path(),
            cause: gone(),
        };
        let not_saved = StateFileError::NotSaved {
            path: path(),
            cause: gone(),
        };
        let codes: [(anyhow::Error, u8); 23] = [
            (chat::Error::from(io()).into(), 2),
            (chat::Error::from(model::Error::from(pack())).into(), 2),
            (chat::Error::from(model::Error::from(dropped())).into(), 4),
            (chat::Error::from(StateFileError::Torn).into(), 1),
            (unfit.into(), 2),
            (not_read.into(), 2),
            (not_saved.into(), 3),
            (StateFileError::Torn.into(), 1),
            (pack().into(), 2),
            (damaged.into(), 1),
            (trace().into(), 3),
            (model::Error::from(trace()).into(), 3),
            (
                chat::Error::NotSaved {
                    path: path(),
                    cause: gone(),
                }
                .into(),
                3,
            ),
            (chat::Error::OtherSystem { path: path() }.into(), 2),
            (chat::Error::from(model::Error::Torn).into(), 1),
            (garbled.into(), 2),
            (model::Error::from(dropped()).into(), 4),
            (model::Error::Torn.into(), 1),
            (io().into(), 2),
            (Exit::Refused(String::new()).into(), 2),
            (Exit::NotWritten(String::new()).into(), 3),
            (Exit::Interrupted.into(), 5),
            (anyhow::anyhow!("anything else"), 1),
        ];
        for (error, code) in codes {
            assert_eq!(Exit::code(&error), code, "{error}");
        }
    }
}
