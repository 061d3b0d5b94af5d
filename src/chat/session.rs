//! A conversation with a model: what was said, and what the network has seen of it.

use std::path::Path;

use super::fed::Fed;
use super::generate::Choosing;
use super::prompt::{self, Spoken};
use super::transcript::{TakenBack, Transcript};
use super::turn::Turn;
use super::{
    Answer, Change, Ended, Error, Facts, Header, Limits, Observer, Opened, Partial, Sampler,
    Sampling, StateStore, Store, TurnFacts, Words, now, replan,
};
use crate::checkpoint::hex;
use crate::model::{Logits, Network};
use crate::stream::{Plan, Request};
use crate::text::{Effort, Message, Thinking};

/// How a conversation begins.
#[derive(Debug, Default)]
pub struct Opening {
    /// Begins a new conversation, and must be what a history begins with.
    pub system: Option<String>,
    /// Where the conversation is kept, and what was found there.
    pub history: Option<(Store, Opened)>,
    /// Where states are kept, so that what was read need not be read again.
    pub states: Option<StateStore>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Where turns end.
    pub limits: Limits,
    /// How many tokens may be guessed and checked in one pass.
    pub guesses: usize,
}

/// A conversation.
pub struct Session {
    network: Network,
    words: Words,
    /// What the network has seen. A turn feeds only what is new.
    fed: Fed,
    /// What was said, and its files.
    said: Transcript,
    /// What was taken back to be answered anew, until there is another answer.
    replaced: Option<TakenBack>,
    /// Whether the last turn said nothing, so that the answer it was to replace stands.
    stands: bool,
    thinking: bool,
    effort: Effort,
    sampling: Sampling,
    limits: Limits,
    guesses: usize,
    states: Option<StateStore>,
    /// What was asked of the memory plan.
    request: Request,
    /// Whose vocabulary the ids of this session's answers are of.
    model: String,
    /// Seconds that reading a position took last.
    pace: Option<f64>,
    /// What the person may like to know.
    notes: Vec<String>,
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
            states,
            sampling,
            limits,
            guesses,
        } = opening;
        let model = network
            .key()
            .map_or(String::new(), |key| hex(&key.identity));
        let (said, partial) = Transcript::open(history, system)?;
        let state = network.new_state(request.context)?;
        let mut session = Self {
            network,
            words,
            fed: Fed::new(state, request.kept_states),
            said,
            replaced: None,
            stands: false,
            thinking: true,
            effort: Effort::Max,
            sampling,
            limits,
            guesses,
            states,
            request,
            model,
            pace: None,
            notes: Vec::new(),
        };
        session.begin(partial)?;
        Ok(session)
    }

    /// Saves what was found, with a turn that did not end.
    fn begin(&mut self, partial: Option<Partial>) -> Result<(), Error> {
        let taken_up = partial.is_some_and(|partial| self.take_up(partial));
        self.said.save()?;
        match taken_up {
            true => self.said.drop_partial(),
            false => Ok(()),
        }
    }

    /// Goes over to another conversation; this one is saved already. Its state is kept where states are.
    ///
    /// # Errors
    /// The other one cannot be saved, or there is no memory for its state.
    pub fn load(&mut self, history: (Store, Opened)) -> Result<(), Error> {
        if let Err(error) = self.keep_state(true) {
            self.said.warn(&error);
        }
        self.fed.restart(&self.network)?;
        let warnings = self.said.take_warnings();
        let (said, partial) = Transcript::new(Some(history));
        (self.said, self.replaced, self.stands) = (said, None, false);
        for warning in &warnings {
            self.said.warn(warning);
        }
        self.begin(partial)
    }

    /// Where the conversation is kept, if it is.
    pub fn history(&self) -> Option<&Path> {
        self.said.path()
    }

    /// Takes in what a turn had said when the program ended in the middle of it. It is kept like an answer that was
    /// stopped: it can be gone on with, made anew, or taken back. False if it cannot be taken in.
    fn take_up(&mut self, partial: Partial) -> bool {
        if partial.is_text() {
            self.notes.push(self.said.take_up_text(partial).to_owned());
            return true;
        }
        let header = partial.header;
        let mut answer = Answer {
            ids: partial.ids,
            ..Answer::begun(header.model, header.thinking, header.sampling)
        };
        let Some((message, ending)) = (answer.model == self.model)
            .then(|| prompt::read_back(&self.words, spoken(&answer)))
            .flatten()
        else {
            let why = "the last answer was cut, and another model made it: it stays in the journal";
            self.said.warn(&why);
            return false;
        };
        self.said.cut(partial.messages);
        // The last token was written down, and the end came before the history was saved.
        if let Some(ending) = ending {
            answer.ended = Ended::of(&ending);
        }
        let far = match answer.ended {
            Ended::Killed => "it is kept as far as it came",
            _ => "it had come to its end",
        };
        self.notes.push(format!(
            "the program ended after {} tokens of the last answer; {far}",
            answer.ids.len()
        ));
        self.said.push(message, Some(answer));
        true
    }

    /// What the person must know about the conversation's files, a line each; once.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.said.take_warnings()
    }

    /// What the person may like to know, a line each; once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The network, for its figures.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Takes another memory plan, see [`replan`]. A pass that was left half way is finished first.
    ///
    /// # Errors
    /// The plan cannot be had; the old one is in force then.
    pub fn change_plan(&mut self, change: Change) -> Result<Plan, Error> {
        self.settle()?;
        let request = change.of(&self.request);
        let plan = replan(&mut self.network, &request)?;
        self.request = request;
        Ok(plan)
    }

    /// Says what is asked of the memory plan now: it was changed while a turn ran.
    pub fn set_request(&mut self, request: Request) {
        self.request = request;
    }

    /// What was asked of the memory plan.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        self.said.messages()
    }

    /// What is known about each message.
    pub fn facts(&self) -> &[Option<Facts>] {
        self.said.facts()
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
        self.said.set_system(text);
        self.said.save()
    }

    /// Whether the last message is a user's: one that was sent and not answered.
    pub fn awaits_answer(&self) -> bool {
        self.said.awaits_answer()
    }

    /// Whether the last answer can be gone on with: it was stopped or cut.
    pub fn can_go_on(&self) -> bool {
        self.open_answer().is_some()
    }

    /// How the last answer ended, if it can be gone on with.
    pub fn open_ended(&self) -> Option<&Ended> {
        self.open_answer().map(|answer| &answer.ended)
    }

    fn open_answer(&self) -> Option<&Answer> {
        let last = self.said.last_answer()?;
        let same = last.thinking.is_on() == self.thinking && last.model == self.model;
        (same && last.ended.is_open()).then_some(last)
    }

    /// Forgets everything but an initial system message.
    ///
    /// # Errors
    /// The history cannot be saved; the conversation is reset all the same.
    pub fn reset(&mut self) -> Result<(), Error> {
        let saved = self.said.reset();
        self.fed.restart(&self.network)?;
        saved
    }

    /// Appends a user's message and saves it.
    ///
    /// # Errors
    /// There is no room for an answer, the last message has none, it cannot be written down, or it cannot be saved; then it
    /// is not kept.
    pub fn say(&mut self, text: &str) -> Result<(), Error> {
        self.said.ask(text)?;
        self.replaced = None;
        let kept = self
            .check_room(&self.prompt())
            .and_then(|()| self.said.save());
        if kept.is_err() {
            self.said.withdraw();
        }
        kept
    }

    /// Takes the last answer back, so that its message can be answered anew. Gives what the message says.
    ///
    /// # Errors
    /// There is none, or the history cannot be saved; the conversation is as it was.
    pub fn take_back_answer(&mut self) -> Result<String, Error> {
        let (text, taken) = self.said.take_back_answer()?;
        self.replaced = taken.or(self.replaced.take());
        Ok(text)
    }

    /// Takes the last message and its answer back. Gives what the message said.
    ///
    /// # Errors
    /// There is none, or the history cannot be saved; the conversation is as it was.
    pub fn take_back_message(&mut self) -> Result<String, Error> {
        self.said.take_back_message()
    }

    /// Whether the last turn was to answer anew, was stopped before it said anything, and left the old answer standing.
    pub fn old_answer_stands(&self) -> bool {
        self.stands
    }

    /// Positions that the next answer has to read before its first token; of an answer that is gone on with, before its
    /// next.
    pub fn unread(&self) -> usize {
        let prompt = self.prompt();
        prompt.len() - self.fed.seen(&prompt)
    }

    /// Tokens that an answer may have at most, if that is limited.
    pub fn limit(&self) -> Option<usize> {
        self.limits.tokens
    }

    /// Seconds that reading a position took last, if any were read.
    pub fn seconds_to_read(&self) -> Option<f64> {
        self.pace
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
        let (thinking, number) = (self.thinking(), 1 + self.answers_before());
        // A turn is made with what its beginning was made with.
        let sampling = begun.as_ref().map_or(self.sampling, |begun| begun.sampling);
        let ids = begun.as_ref().map_or(Vec::new(), |begun| begun.ids.clone());
        self.begin_journal(thinking, sampling, number as u64, &ids, observer);
        let said = &mut self.said;
        let mut write_down = |id| said.token(id);
        let made = Turn {
            network: &mut self.network,
            words: &self.words,
            fed: &mut self.fed,
            thinking,
            choosing: Choosing {
                sampler: Sampler::new(sampling, number as u64),
                guesses: self.guesses,
            },
            limits: &self.limits,
            begun: ids,
            write_down: &mut write_down,
            observer,
        }
        .run(prompt, logits);
        let facts = made.facts.clone();
        if facts.fed > 0 && facts.seconds_prefill > 0.0 {
            self.pace = Some(facts.seconds_prefill / facts.fed as f64);
        }
        let answer = Answer {
            ids: made.ids,
            ..Answer::begun(self.model.clone(), thinking, sampling)
        };
        let answer = match &begun {
            Some(begun) => answer.with(&facts).after(begun),
            None => answer.with(&facts),
        };
        if begun.is_some() {
            self.said.cut(self.messages().len() - 1);
        }
        match self.replaced.take() {
            // Stopped before it said anything: the answer that it was to replace stands.
            Some(old) if answer.ids.is_empty() => {
                self.said.put_back(old);
                self.stands = true;
            }
            _ => {
                self.stands = false;
                let reasoning = thinking.is_on().then_some(made.think);
                let message = Message::assistant(reasoning, made.response);
                self.said.push(message, Some(answer));
            }
        }
        let saved = self.said.save();
        let ended = self.said.end_turn();
        (facts, saved.and(ended))
    }

    /// Begins the journal of a turn. Where there can be none the person is told, and the turn is made without.
    fn begin_journal(
        &mut self,
        thinking: Thinking,
        sampling: Sampling,
        turn: u64,
        ids: &[u32],
        observer: &mut dyn Observer,
    ) {
        let complete = self.messages().len() - usize::from(self.can_go_on());
        let header = Header {
            model: self.model.clone(),
            thinking,
            sampling,
            turn,
            when: now(),
            goes_on_from: None,
        };
        if let Err(error) = self.said.begin_turn(complete, header, ids) {
            observer.warn(&error.to_string());
        }
    }

    /// Answers that stand before the one that comes next.
    fn answers_before(&self) -> usize {
        self.said.answers() - usize::from(self.can_go_on())
    }

    /// Sees to it that what the network has seen is a beginning of the prompt; the logits where it is all of it.
    fn prepare(&mut self, prompt: &[u32]) -> Result<Option<Logits>, Error> {
        self.check_room(prompt)?;
        self.load_state(prompt);
        let (follows, logits) = self.fed.follow(&mut self.network, prompt)?;
        if !follows {
            self.fed.restart(&self.network)?;
        }
        Ok(logits)
    }

    /// Takes the saved state that has seen the most of the prompt, if that is more than memory has. A saved state is a
    /// help: what is wrong with one is said and costs reading.
    fn load_state(&mut self, prompt: &[u32]) {
        if self.fed.goes_on(prompt) {
            return;
        }
        let (Some(states), Some(key)) = (&self.states, self.network.key()) else {
            return;
        };
        let capacity = self.fed.state().capacity();
        let found = states.find(&key, prompt, capacity);
        for skipped in &found.skipped {
            self.said.warn(skipped);
        }
        let Some(saved) = found.state else {
            return;
        };
        if saved.positions() <= self.fed.seen(prompt) {
            return;
        }
        let fresh = self.network.new_state(capacity).map_err(Error::from);
        let loaded = fresh.and_then(|fresh| Ok(states.load(saved, &key, fresh)?));
        match loaded {
            Ok((state, ids)) => {
                let seen = ids[..state.positions()].to_vec();
                self.notes.push(format!(
                    "{} positions come from a saved state and are not read again (saved states take {:.2} of {:.2} GB)",
                    seen.len(),
                    states.size() as f64 / 1e9,
                    states.cap() as f64 / 1e9
                ));
                self.fed.replace(state, seen);
            }
            Err(error) => self.said.warn(&error),
        }
    }

    /// Looks for a saved state of what has been said, so that what [`Self::unread`] says is what will be read.
    pub fn recall(&mut self) {
        let prompt = self.prompt();
        self.load_state(&prompt);
    }

    /// Saves the state, so that the conversation can be opened again without reading it. Between turns; a pass that was left
    /// half way is given up with `leaving`, else nothing is saved while there is one.
    ///
    /// # Errors
    /// It cannot be written. Nothing is lost but time.
    pub fn keep_state(&mut self, leaving: bool) -> Result<(), Error> {
        let (Some(states), Some(key)) = (&self.states, self.network.key()) else {
            return Ok(());
        };
        let whole = match leaving {
            true => self.fed.fall_back()?,
            false => self.fed.is_whole(),
        };
        if whole && !self.fed.ids().is_empty() {
            states.save(&key, self.fed.state(), self.fed.ids())?;
        }
        Ok(())
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

    fn thinking(&self) -> Thinking {
        match self.thinking {
            true => Thinking::On(Some(self.effort)),
            false => Thinking::Off,
        }
    }

    /// The ids that the model answers to, or goes on behind.
    pub fn prompt(&self) -> Vec<u32> {
        let thinking = self.thinking();
        let begun = self.open_answer();
        let complete = self.messages().len() - usize::from(begun.is_some());
        let spoken = self.facts().iter().map(|facts| {
            let answer = facts.as_ref()?.answer.as_ref()?;
            (answer.model == self.model).then(|| spoken(answer))
        });
        let mut ids = prompt::conversation(
            &self.words,
            &self.messages()[..complete],
            spoken.take(complete),
            thinking,
        );
        ids.extend(prompt::opening(&self.words, thinking));
        if let Some(begun) = begun {
            ids.extend(&begun.ids);
        }
        ids
    }
}

fn spoken(answer: &Answer) -> Spoken<'_> {
    Spoken {
        ids: &answer.ids,
        thought: answer.thinking.is_on(),
    }
}
