//! What is said to the engine and what it answers. Every command is answered; no event is lost.

use std::path::PathBuf;
use std::sync::Arc;

use super::offers::Offers;
use crate::chat::{Change, CheckedModel, Sampling};
pub use crate::chat::{Ended, TurnFacts};
use crate::stream::Preset;
use crate::text::{Channel, Effort, Message};

/// What a screen asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Append a user message and answer it. Refused while a turn runs. Answered by [`Event::TurnStarted`] or
    /// [`Event::Refused`].
    Send(String),
    /// Stop the running turn at the next safe point; what was answered so far is kept. Answered by
    /// [`Event::TurnEnded`], or [`Event::Refused`] when no turn runs.
    Cancel,
    /// Halt the running turn between two layers, and keep it. Answered by [`Event::Paused`], or [`Event::Refused`].
    Pause,
    /// Go on: with a turn that is halted, answered by [`Event::Unpaused`]; else with the last answer, if it was stopped or
    /// cut, or with the last message if it has none, answered by [`Event::TurnResumed`]. Refused if there is nothing to go
    /// on with.
    Continue,
    /// Answer the last message anew; its answer is taken back. Answered by [`Event::Conversation`] and
    /// [`Event::TurnStarted`], or [`Event::Refused`].
    Regenerate,
    /// Take the last message and its answer back. Answered by [`Event::Conversation`], or [`Event::Refused`].
    Undo,
    /// Forget the conversation but an initial system message; a running turn is cancelled first. Answered by
    /// [`Event::Reset`].
    Reset,
    /// How much to think from the next turn on. Answered by [`Event::ThinkingIs`].
    Effort(Effort),
    /// Whether to think at all from the next turn on. Answered by [`Event::ThinkingIs`].
    Think(bool),
    /// Set or remove the system message. Refused while a turn runs. Answered by [`Event::Conversation`].
    System(Option<String>),
    /// How tokens are chosen from the next turn on. Answered by [`Event::SamplingIs`] or [`Event::Refused`].
    Sampling(Sampling),
    /// Take the memory of another preset. While a turn runs it waits for the end of the running pass. Answered by [`Event::Planned`] or
    /// [`Event::Refused`].
    Preset(Preset),
    /// Change a part of the memory plan. While a turn runs it waits for the end of the running pass. Answered by
    /// [`Event::Planned`] or [`Event::Refused`].
    Budget(Change),
    /// What memory plans can be made from, at once. Answered by [`Event::Offers`] or [`Event::Refused`].
    Offers,
    /// Go over to the conversation whose history is in this file. Refused while a turn runs. Answered by [`Event::Loaded`] or
    /// [`Event::Refused`].
    Load(PathBuf),
    /// Finish what is being written and end the thread. Answered by [`Event::Stopped`], the last event.
    Quit,
}

/// What the engine tells. The events of a turn are, in order: one `TurnStarted` or `TurnResumed`, any number of `Delta`,
/// `Paused` and `Unpaused`, one `TurnEnded`.
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
        /// How the last answer ended, if it is one that can be gone on with.
        open: Option<Ended>,
        /// How tokens are chosen.
        sampling: Sampling,
        /// Where the conversation is kept, if it is.
        history: Option<PathBuf>,
    },
    /// Another conversation is open now.
    Loaded {
        /// Where it is kept.
        history: PathBuf,
        /// All messages.
        messages: Vec<Message>,
        /// How the last answer ended, if it is one that can be gone on with.
        open: Option<Ended>,
    },
    /// A user message was accepted and saved; its answer begins.
    TurnStarted {
        /// The conversation's last message.
        user: String,
        /// Positions to feed before the first token of the answer.
        prompt_tokens: usize,
    },
    /// The last answer is gone on with; what comes is appended to it.
    TurnResumed {
        /// Positions to feed before its next token.
        prompt_tokens: usize,
    },
    /// The turn is halted between two layers.
    Paused,
    /// It goes on.
    Unpaused,
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
    /// The conversation holds only these messages now: something was taken back, or the system message changed.
    Conversation {
        /// All messages.
        messages: Vec<Message>,
        /// What the message said that was taken back.
        taken_back: Option<String>,
        /// What the change costs.
        cost: Option<Reread>,
    },
    /// The thinking in force from now on.
    ThinkingIs {
        /// An effort, or `None` when thinking is off.
        effort: Option<Effort>,
        /// What the change costs, where that is known: not while a turn runs.
        cost: Option<Reread>,
    },
    /// How tokens are chosen from now on.
    SamplingIs(Sampling),
    /// Another memory plan is in force: its preset, the memory it may take, what is read of the trunk for a token.
    Planned {
        /// The preset.
        preset: Preset,
        /// The predicted peak of the whole process, in bytes.
        total_bytes: u64,
        /// Bytes of the trunk that each token reads from disk.
        trunk_read: u64,
    },
    /// What memory plans can be made from.
    Offers(Arc<Offers>),
    /// A command that could not be carried out, and why.
    Refused(String),
    /// Something went wrong that does not end the thread (a history that could not be saved).
    Warning(String),
    /// Something worth knowing that is nobody's fault (a state that was found again).
    Note(String),
    /// The thread has ended: asked to, or for this reason. The last event.
    Stopped(Option<String>),
}

/// What the next answer has to read first because the beginning of the prompt changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reread {
    /// Positions.
    pub tokens: usize,
    /// About so long, where a rate is known.
    pub seconds: Option<f64>,
}

/// The model as the screen names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// The folder's name, or what the demo model calls itself.
    pub name: String,
    /// Whether it is the demo model.
    pub demo: bool,
    /// Layers; 0 where they are not known.
    pub layers: usize,
    /// Positions the context was planned for; of a server's model those that it serves, 0 where it does not say.
    pub context: usize,
    /// Where it runs, if that is a server.
    pub server: Option<String>,
}

impl ModelFacts {
    /// Of a model that was checked.
    pub fn of(model: &CheckedModel) -> Self {
        Self {
            name: model.name().to_owned(),
            demo: model.is_demo(),
            layers: model.layers(),
            context: model.request().context,
            server: None,
        }
    }
}
