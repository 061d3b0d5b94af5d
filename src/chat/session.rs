//! A conversation with a model: what was said, what the network has seen of it, and where it is saved.

use super::turn::{self, Fed, Made};
use super::{Ended, Error, HistoryFile, Observer, Sampler, Sampling, TurnFacts};
use crate::model::{self, Network};
use crate::stream::{self, Machine, Plan, Preset, Request, plan};
use crate::text::{Effort, Markers, Message, Role, Thinking, Tokenizer, render, turn as finished};

/// A tokenizer and the ids of the chat format in it.
pub struct Words {
    /// Ids and text.
    pub tokenizer: Tokenizer,
    /// The special tokens of the format.
    pub markers: Markers,
}

impl Words {
    /// Looks the format's tokens up.
    ///
    /// # Errors
    /// The tokenizer lacks one, or has more ids than a model of `vocab`.
    pub fn new(tokenizer: Tokenizer, vocab: usize) -> Result<Self, Error> {
        let size = tokenizer.size() as usize;
        if size > vocab {
            return Err(Error::Vocabulary {
                tokenizer: size,
                model: vocab,
            });
        }
        let markers = Markers::find(&tokenizer)?;
        Ok(Self { tokenizer, markers })
    }
}

/// A conversation.
pub struct Session {
    network: Network,
    words: Words,
    /// What the network has seen. A turn feeds only what is new.
    fed: Fed,
    messages: Vec<Message>,
    thinking: bool,
    effort: Effort,
    sampling: Sampling,
    history: Option<HistoryFile>,
    /// What was asked of the memory plan.
    request: Request,
}

impl Session {
    /// Opens a conversation of at most the request's positions: from its history if there is one, else empty. A `system`
    /// message begins a new one, and must be the one that a history begins with. A history is saved at once, so that a
    /// folder that cannot be written is known before anything is asked.
    ///
    /// # Errors
    /// The history cannot be read or saved, or begins otherwise.
    pub fn open(
        network: Network,
        words: Words,
        request: Request,
        system: Option<String>,
        history: Option<HistoryFile>,
    ) -> Result<Self, Error> {
        let mut messages = match &history {
            Some(history) => history.load()?,
            None => Vec::new(),
        };
        if let Some(system) = system.map(Message::system) {
            if messages.is_empty() {
                messages.push(system);
            } else if messages[0] != system {
                let path = history.map(|h| h.path().to_owned()).unwrap_or_default();
                return Err(Error::OtherSystem { path });
            }
        }
        let state = network.new_state(request.context)?;
        let session = Self {
            network,
            words,
            fed: Fed::new(state),
            messages,
            thinking: true,
            effort: Effort::Max,
            sampling: Sampling::Greedy,
            history,
            request,
        };
        session.save()?;
        Ok(session)
    }

    /// The network, for its figures.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Positions in use, and planned.
    pub fn positions(&self) -> (usize, usize) {
        (self.fed.ids.len(), self.fed.state.capacity())
    }

    /// The thinking in force: an effort, or none when thinking is off.
    pub fn effort(&self) -> Option<Effort> {
        self.thinking.then_some(self.effort)
    }

    /// Sets how much to think, and thinking on.
    pub fn set_effort(&mut self, effort: Effort) {
        (self.effort, self.thinking) = (effort, true);
    }

    /// Sets whether to think; the effort is remembered.
    pub fn set_thinking(&mut self, on: bool) {
        self.thinking = on;
    }

    /// Sets how tokens are chosen from the next answer on.
    pub fn set_sampling(&mut self, sampling: Sampling) {
        self.sampling = sampling;
    }

    /// The number of the next answer, counted from 1. Draws hang on it, so that a conversation that was loaded from its
    /// history draws what it would have drawn.
    fn turn(&self) -> u64 {
        let answers = self.messages.iter().filter(|m| m.role == Role::Assistant);
        1 + answers.count() as u64
    }

    /// Whether the last message is a user's: one that was sent and not answered.
    pub fn awaits_answer(&self) -> bool {
        self.messages.last().is_some_and(|m| m.role == Role::User)
    }

    /// Forgets everything but an initial system message.
    ///
    /// # Errors
    /// The history cannot be saved; the conversation is reset all the same.
    pub fn reset(&mut self) -> Result<(), Error> {
        let system = self
            .messages
            .first()
            .is_some_and(|m| m.role == Role::System);
        self.messages.truncate(usize::from(system));
        if let Ok(state) = self.network.new_state(self.fed.state.capacity()) {
            self.fed = Fed::new(state);
        }
        self.save()
    }

    /// Appends a user's message and saves it.
    ///
    /// # Errors
    /// There is no room for an answer, or it cannot be saved; then it is not kept.
    pub fn say(&mut self, text: &str) -> Result<(), Error> {
        self.messages.push(Message::user(text));
        let kept = self.check_room(&self.prompt()).and_then(|()| self.save());
        if kept.is_err() {
            self.messages.pop();
        }
        kept
    }

    /// Positions that the next answer has to read before its first token.
    pub fn unread(&self) -> usize {
        let prompt = self.prompt();
        prompt.len() - self.seen(&prompt)
    }

    /// Answers the last message. What was said is kept, however the turn ends; the second part says whether it is saved
    /// as well.
    pub fn answer(&mut self, observer: &mut dyn Observer) -> (TurnFacts, Result<(), Error>) {
        let prompt = self.prompt();
        if let Err(error) = self.prepare(&prompt) {
            return (TurnFacts::failed(&error), Ok(()));
        }
        let thinking = self.thinking();
        let mut sampler = Sampler::new(self.sampling, self.turn());
        let made = turn::run(
            &mut self.network,
            &self.words,
            &mut self.fed,
            &prompt,
            thinking,
            &mut sampler,
            observer,
        );
        let facts = made.facts.clone();
        self.messages.push(self.message(made));
        (facts, self.save())
    }

    /// Sees to it that what the network has seen is a beginning of the prompt. The recurrent state cannot be rolled
    /// back: another beginning, or a state that was torn, is read from the start.
    fn prepare(&mut self, prompt: &[u32]) -> Result<(), Error> {
        self.check_room(prompt)?;
        if self.seen(prompt) > 0
            && self.fed.unpark(&mut self.network).is_ok()
            && self.fed.state.is_whole()
        {
            return Ok(());
        }
        let planned = self.fed.state.capacity();
        self.fed = Fed::new(self.network.new_state(planned)?);
        Ok(())
    }

    /// Takes the memory of another preset on this machine, with context and threads as they were asked for at the start.
    /// The conversation and its state stay; a parked token is finished first.
    ///
    /// # Errors
    /// The plan cannot be had; the old one is in force then.
    pub fn set_preset(&mut self, preset: Preset) -> Result<Plan, Error> {
        let closed = || model::Error::from(stream::Error::Closed);
        let shape = self.network.shape().ok_or_else(closed)?;
        let request = Request {
            preset,
            trunk: None,
            cache: None,
            ..self.request.clone()
        };
        let plan = plan(shape, &request, &Machine::detect()?)?;
        self.fed.unpark(&mut self.network)?;
        self.network.replan_to(&plan)?;
        Ok(plan)
    }

    /// One position at least must be left for the answer.
    fn check_room(&self, prompt: &[u32]) -> Result<(), Error> {
        let planned = self.fed.state.capacity();
        match prompt.len() < planned {
            true => Ok(()),
            false => Err(Error::TooLong {
                needed: prompt.len() + 1,
                planned,
            }),
        }
    }

    fn message(&self, made: Made) -> Message {
        if made.facts.ended == Ended::Finished {
            let turn = finished::parse(
                &self.words.tokenizer,
                &self.words.markers,
                self.thinking(),
                &made.ids,
            );
            if let Ok(turn) = turn {
                return turn.message;
            }
        }
        Message::assistant(self.thinking.then_some(made.think), made.response)
    }

    fn thinking(&self) -> Thinking {
        match self.thinking {
            true => Thinking::On(Some(self.effort)),
            false => Thinking::Off,
        }
    }

    /// The ids that the model answers to.
    fn prompt(&self) -> Vec<u32> {
        let mut segments = render::conversation(&self.messages, self.thinking());
        segments.extend(render::opening(self.thinking()));
        render::encode(&self.words.tokenizer, &self.words.markers, &segments)
    }

    /// How many of the prompt's ids the network has seen: all that it was fed, or none.
    fn seen(&self, prompt: &[u32]) -> usize {
        let seen = self.fed.seen();
        let count = seen.len();
        if count < prompt.len() && seen.eq(prompt[..count].iter().copied()) {
            count
        } else {
            0
        }
    }

    fn save(&self) -> Result<(), Error> {
        match &self.history {
            Some(history) => history.save(&self.messages),
            None => Ok(()),
        }
    }
}
