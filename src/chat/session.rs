//! A conversation with a model: what was said, what the network has seen of it, and where it is saved.

use super::fed::Fed;
use super::generate::Choosing;
use super::prompt::{self, Spoken};
use super::turn::{Made, Turn};
use super::{
    Ended, Error, HistoryFile, Limits, Observer, Sampler, Sampling, TurnFacts, Words, replan,
};
use crate::model::{Logits, Network};
use crate::stream::{Plan, Preset, Request};
use crate::text::{Effort, Message, Role, Thinking, turn as finished};

/// How a conversation begins.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Begins a new conversation, and must be what a history begins with.
    pub system: Option<String>,
    /// Where the conversation is kept.
    pub history: Option<HistoryFile>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Where turns end.
    pub limits: Limits,
    /// How many tokens may be guessed and checked in one pass.
    pub guesses: usize,
}

/// An answer, beyond what its message says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its ids.
    pub spoken: Spoken,
    /// Its figures.
    pub facts: TurnFacts,
}

/// A conversation.
pub struct Session {
    network: Network,
    words: Words,
    /// What the network has seen. A turn feeds only what is new.
    fed: Fed,
    messages: Vec<Message>,
    /// One a message; none of those that are no answers, or of which nothing is known.
    answers: Vec<Option<Answer>>,
    thinking: bool,
    effort: Effort,
    sampling: Sampling,
    limits: Limits,
    guesses: usize,
    history: Option<HistoryFile>,
    /// What was asked of the memory plan.
    request: Request,
}

impl Session {
    /// Opens a conversation of at most the request's positions: from its history if there is one, else empty. A history is
    /// saved at once, so that a folder that cannot be written is known before anything is asked.
    ///
    /// # Errors
    /// The history cannot be read or saved, or begins with another system message.
    pub fn open(
        network: Network,
        words: Words,
        request: Request,
        opening: Opening,
    ) -> Result<Self, Error> {
        let Opening {
            system,
            history,
            sampling,
            limits,
            guesses,
        } = opening;
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
            fed: Fed::new(state, request.kept_states),
            answers: vec![None; messages.len()],
            messages,
            thinking: true,
            effort: Effort::Max,
            sampling,
            limits,
            guesses,
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

    /// Takes the memory of another preset, see [`replan`]. A pass that was left half way is finished first.
    ///
    /// # Errors
    /// The plan cannot be had; the old one is in force then.
    pub fn set_preset(&mut self, preset: Preset) -> Result<Plan, Error> {
        self.settle()?;
        replan(&mut self.network, &self.request, preset)
    }

    /// What was asked of the memory plan.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What is known of the answers, one entry a message.
    pub fn answers(&self) -> &[Option<Answer>] {
        &self.answers
    }

    /// Positions in use, and planned.
    pub fn positions(&self) -> (usize, usize) {
        (self.fed.ids().len(), self.fed.state().capacity())
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

    /// How tokens are chosen.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Sets how tokens are chosen from the next turn on.
    ///
    /// # Errors
    /// Settings outside their bounds; the old ones stay.
    pub fn set_sampling(&mut self, sampling: Sampling) -> Result<(), Error> {
        if let Sampling::Draw(draw) = sampling {
            draw.check()?;
        }
        self.sampling = sampling;
        Ok(())
    }

    /// Sets or removes the system message, which is the first.
    ///
    /// # Errors
    /// It cannot be saved; it holds all the same.
    pub fn set_system(&mut self, text: Option<String>) -> Result<(), Error> {
        if self.begins_with_system() {
            self.messages.remove(0);
            self.answers.remove(0);
        }
        if let Some(text) = text {
            self.messages.insert(0, Message::system(text));
            self.answers.insert(0, None);
        }
        self.save()
    }

    fn begins_with_system(&self) -> bool {
        self.messages
            .first()
            .is_some_and(|m| m.role == Role::System)
    }

    /// Whether the last message is a user's: one that was sent and not answered.
    pub fn awaits_answer(&self) -> bool {
        self.messages.last().is_some_and(|m| m.role == Role::User)
    }

    /// Whether the last answer can be gone on with: it was stopped or cut.
    pub fn can_go_on(&self) -> bool {
        self.open_answer().is_some()
    }

    /// How the last answer ended, if it can be gone on with.
    pub fn open_ended(&self) -> Option<&Ended> {
        self.open_answer().map(|answer| &answer.facts.ended)
    }

    fn open_answer(&self) -> Option<&Answer> {
        let last = self.answers.last()?.as_ref()?;
        let same = last.spoken.thought == self.thinking;
        (same && last.facts.ended.is_open()).then_some(last)
    }

    /// Forgets everything but an initial system message.
    ///
    /// # Errors
    /// The history cannot be saved; the conversation is reset all the same.
    pub fn reset(&mut self) -> Result<(), Error> {
        let system = usize::from(self.begins_with_system());
        self.messages.truncate(system);
        self.answers.truncate(system);
        self.fed.restart(&self.network)?;
        self.save()
    }

    /// Appends a user's message and saves it.
    ///
    /// # Errors
    /// There is no room for an answer, the last message has none, or it cannot be saved; then it is not kept.
    pub fn say(&mut self, text: &str) -> Result<(), Error> {
        if self.awaits_answer() {
            return Err(Error::Unanswered);
        }
        self.push(Message::user(text), None);
        let kept = self.check_room(&self.prompt()).and_then(|()| self.save());
        if kept.is_err() {
            self.pop();
        }
        kept
    }

    /// Takes the last answer back, so that its message can be answered anew. Gives what the message says.
    ///
    /// # Errors
    /// There is none, or the history cannot be saved; the conversation is as it was.
    pub fn take_back_answer(&mut self) -> Result<String, Error> {
        if self.messages.last().map(|m| m.role) == Some(Role::Assistant) {
            self.take_back(1)?;
        }
        match self.messages.last() {
            Some(message) if message.role == Role::User => Ok(message.content.clone()),
            _ => Err(Error::Nothing("no answer to take back")),
        }
    }

    /// Takes the last message and its answer back. Gives what the message said.
    ///
    /// # Errors
    /// There is none, or the history cannot be saved; the conversation is as it was.
    pub fn take_back_message(&mut self) -> Result<String, Error> {
        let count = 1 + usize::from(!self.awaits_answer());
        let at = self.messages.len().checked_sub(count);
        let said = at.and_then(|at| self.messages.get(at));
        let Some(text) = said.filter(|m| m.role == Role::User) else {
            return Err(Error::Nothing("no message to take back"));
        };
        let text = text.content.clone();
        self.take_back(count)?;
        Ok(text)
    }

    fn take_back(&mut self, count: usize) -> Result<(), Error> {
        let keep = self.messages.len() - count;
        let messages = self.messages.split_off(keep);
        let answers = self.answers.split_off(keep);
        let saved = self.save();
        if saved.is_err() {
            self.messages.extend(messages);
            self.answers.extend(answers);
        }
        saved
    }

    fn push(&mut self, message: Message, answer: Option<Answer>) {
        self.messages.push(message);
        self.answers.push(answer);
    }

    fn pop(&mut self) {
        self.messages.pop();
        self.answers.pop();
    }

    /// Positions that the next answer has to read before its first token; of an answer that is gone on with, before its
    /// next.
    pub fn unread(&self) -> usize {
        let prompt = self.prompt();
        prompt.len() - self.fed.seen(&prompt)
    }

    /// Seconds that reading a position took last, if any were read.
    pub fn seconds_to_read(&self) -> Option<f64> {
        let read = self.answers.iter().rev().flatten().map(|a| &a.facts);
        let mut rates = read.filter(|f| f.fed > 0 && f.seconds_prefill > 0.0);
        rates.next().map(|f| f.seconds_prefill / f.fed as f64)
    }

    /// Answers the last message, or goes on with the last answer if that was stopped or cut. What was said is kept, however
    /// the turn ends; the second part says whether it is saved as well.
    pub fn answer(&mut self, observer: &mut dyn Observer) -> (TurnFacts, Result<(), Error>) {
        let begun = self.open_answer().cloned();
        let prompt = self.prompt();
        let logits = match self.prepare(&prompt) {
            Ok(logits) => logits,
            Err(error) => return (TurnFacts::failed(&error), Ok(())),
        };
        let thinking = self.thinking();
        let number = 1 + self.answers_before();
        let mut write_down = |_| Ok(());
        let made = Turn {
            network: &mut self.network,
            words: &self.words,
            fed: &mut self.fed,
            thinking,
            choosing: Choosing {
                sampler: Sampler::new(self.sampling, number as u64),
                guesses: self.guesses,
            },
            limits: &self.limits,
            begun: begun.as_ref().map(|b| b.spoken.clone()).unwrap_or_default(),
            write_down: &mut write_down,
            observer,
        }
        .run(prompt, logits);
        let facts = made.facts.clone();
        let answer = Answer {
            spoken: made.spoken.clone(),
            facts: match &begun {
                Some(begun) => made.facts.clone().after(&begun.facts),
                None => made.facts.clone(),
            },
        };
        let message = self.message(made);
        if begun.is_some() {
            self.pop();
        }
        self.push(message, Some(answer));
        (facts, self.save())
    }

    /// Answers that stand before the one that comes next.
    fn answers_before(&self) -> usize {
        let answers = self.messages.iter().filter(|m| m.role == Role::Assistant);
        answers.count() - usize::from(self.can_go_on())
    }

    /// Sees to it that what the network has seen is a beginning of the prompt; the logits where it is all of it.
    fn prepare(&mut self, prompt: &[u32]) -> Result<Option<Logits>, Error> {
        self.check_room(prompt)?;
        let (follows, logits) = self.fed.follow(&mut self.network, prompt)?;
        if !follows {
            self.fed.restart(&self.network)?;
        }
        Ok(logits)
    }

    /// Finishes a pass that was left half way, so that the state is whole.
    ///
    /// # Errors
    /// Reading fails.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.fed.settle(&mut self.network)
    }

    /// One position at least must be left for the answer.
    fn check_room(&self, prompt: &[u32]) -> Result<(), Error> {
        let planned = self.fed.state().capacity();
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
                &made.spoken.ids,
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

    /// The ids that the model answers to, or goes on behind.
    fn prompt(&self) -> Vec<u32> {
        self.prompt_with(self.thinking())
    }

    fn prompt_with(&self, thinking: Thinking) -> Vec<u32> {
        let begun = self.open_answer();
        let complete = self.messages.len() - usize::from(begun.is_some());
        let spoken = self.answers.iter().map(|a| a.as_ref().map(|a| &a.spoken));
        let mut ids = prompt::conversation(
            &self.words,
            &self.messages[..complete],
            spoken.take(complete),
            thinking,
        );
        ids.extend(prompt::opening(&self.words, thinking));
        if let Some(begun) = begun {
            ids.extend(&begun.spoken.ids);
        }
        ids
    }

    fn save(&self) -> Result<(), Error> {
        match &self.history {
            Some(history) => history.save(&self.messages),
            None => Ok(()),
        }
    }
}
