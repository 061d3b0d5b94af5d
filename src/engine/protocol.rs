//! What is said to the engine and what it answers. Every command is answered; no event is lost.

pub use crate::chat::{Ended, TurnFacts};
use crate::stream::Preset;
use crate::text::{Channel, Effort, Message};

/// What a screen asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Append a user message and answer it. Refused while a turn runs. Answered by [`Event::TurnStarted`] or
    /// [`Event::Refused`].
    Send(String),
    /// Stop the running turn at the next safe point; what was answered so far is kept. Answered by
    /// [`Event::TurnEnded`], or [`Event::Refused`] when no turn runs.
    Cancel,
    /// Forget the conversation but an initial system message; a running turn is cancelled first. Answered by
    /// [`Event::Reset`].
    Reset,
    /// How much to think from the next turn on. Answered by [`Event::ThinkingIs`].
    Effort(Effort),
    /// Whether to think at all from the next turn on. Answered by [`Event::ThinkingIs`].
    Think(bool),
    /// Take the memory of another preset. While a turn runs it waits for its end. Answered by [`Event::Planned`] or
    /// [`Event::Refused`].
    Preset(Preset),
    /// Finish what is being written and end the thread. Answered by [`Event::Stopped`], the last event.
    Quit,
}

/// What the engine tells. The events of a turn are, in order: one `TurnStarted`, any number of `Delta`, one
/// `TurnEnded`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The model is open. The first event, unless it is [`Event::Stopped`].
    Ready {
        /// The model.
        model: ModelFacts,
        /// The conversation so far, from the history.
        messages: Vec<Message>,
        /// The effort in force, `None` when thinking is off.
        effort: Option<Effort>,
    },
    /// A user message was accepted and saved; its answer begins.
    TurnStarted {
        /// The conversation's last message.
        user: String,
        /// Positions to feed before the first token of the answer.
        prompt_tokens: usize,
    },
    /// One token of the answer, with the text it made readable: often a word, sometimes nothing.
    Delta {
        /// Where it belongs. None for a token that is structure, not text.
        channel: Option<Channel>,
        /// The text.
        text: String,
    },
    /// The turn is over and saved.
    TurnEnded(TurnFacts),
    /// The conversation holds only these messages now.
    Reset {
        /// The system message, or nothing.
        messages: Vec<Message>,
    },
    /// The thinking in force from now on: an effort, or `None` when thinking is off.
    ThinkingIs(Option<Effort>),
    /// Another memory plan is in force: its preset, the memory it may take, what is read of the trunk for a token.
    Planned {
        /// The preset.
        preset: Preset,
        /// The predicted peak of the whole process, in bytes.
        total_bytes: u64,
        /// Bytes of the trunk that each token reads from disk.
        trunk_read: u64,
    },
    /// A command that could not be carried out, and why.
    Refused(String),
    /// Something went wrong that does not end the thread (a history that could not be saved).
    Warning(String),
    /// The thread has ended: asked to, or for this reason. The last event.
    Stopped(Option<String>),
}

/// The model as the screen names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// The folder's name, or what the demo model calls itself.
    pub name: String,
    /// Whether it is the demo model.
    pub demo: bool,
    /// Layers.
    pub layers: usize,
    /// Positions the context was planned for.
    pub context: usize,
}
