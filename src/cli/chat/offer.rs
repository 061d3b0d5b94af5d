//! What to do with a turn that did not end: a person is asked, a script is not. Once, before the chat begins.

use super::input::{Input, Typed};
use crate::chat::{Ended, Error, Session};
use crate::cli::say;
use crate::text::visible;

/// How the chat begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With the next line.
    Ask,
    /// With the answer to the last message, which the engine makes by itself.
    Answer,
    /// By going on with the last answer.
    GoOn,
    /// Not at all: the input has ended.
    Leave,
    /// Not at all: a signal came.
    Interrupted,
}

/// Settles what became of the last turn.
///
/// # Errors
/// Standard input cannot be read, or what was dropped cannot be saved.
pub(super) fn settle(session: &mut Session, input: &Input) -> anyhow::Result<Begin> {
    let unanswered = session.awaits_answer();
    let interrupted = matches!(session.open_ended(), Some(Ended::Killed | Ended::Cancelled));
    if !unanswered && !interrupted {
        return Ok(Begin::Ask);
    }
    let (what, done, begin) = match unanswered {
        true => ("message was not answered", "answering it", Begin::Answer),
        false => ("answer was interrupted", "going on with it", Begin::GoOn),
    };
    if !input.terminal {
        say!("k3: the last {what}; {done}");
        return Ok(begin);
    }
    let (choices, keys) = match unanswered {
        true => ("answer it (a), or drop it (d)", "a or d? "),
        false => (
            "go on with it (g), keep it as it is (k), or drop it and its message (d)",
            "g, k or d? ",
        ),
    };
    say!("k3: the last {what}: {choices}");
    loop {
        let word = match input.ask(keys)? {
            Typed::Line(word) => word,
            Typed::NotText => continue,
            Typed::End => return Ok(Begin::Leave),
            Typed::Signal => return Ok(Begin::Interrupted),
        };
        match (word.trim(), unanswered) {
            ("a", true) | ("g", false) => return Ok(begin),
            ("k", false) => return Ok(Begin::Ask),
            ("d", _) => return drop_turn(session).map_err(Into::into),
            _ => {}
        }
    }
}

fn drop_turn(session: &mut Session) -> Result<Begin, Error> {
    let text = session.take_back_message()?;
    say!("k3: dropped: {}", visible(&text));
    Ok(Begin::Ask)
}
