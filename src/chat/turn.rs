//! One turn: a prompt's ids go in, channels of text come out.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::fed::Fed;
use super::generate::{self, Choosing, Halt, Watch};
use super::prompt::writable;
use super::{Error, Words};
use crate::model::{Logits, Network};
use crate::text::{Channel, CompletionParser, Ending, Event, Thinking};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The model closed its message.
    Finished,
    /// The person stopped it.
    Cancelled,
    /// The context is full.
    Length,
    /// It has as many tokens as a turn may have.
    Limit,
    /// At this id, which was named as one to stop at.
    StopId(u32),
    /// The model's structure was not that of an answer; what could be read is kept.
    Malformed(String),
    /// Computing failed; what was answered so far is kept.
    Failed(String),
    /// The program ended in the middle; what was written down so far is kept.
    Killed,
}

impl Ended {
    /// Of an answer that the model itself ended so.
    pub(super) fn of(ending: &Ending) -> Self {
        match ending {
            Ending::Complete(_) => Self::Finished,
            other => Self::Malformed(other.to_string()),
        }
    }

    /// Whether the answer can be gone on with from where it ended.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Finished | Self::Malformed(_))
    }
}

/// A turn in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnFacts {
    /// How it ended.
    pub ended: Ended,
    /// Tokens in the think channel.
    pub think_tokens: usize,
    /// Tokens in the response channel.
    pub response_tokens: usize,
    /// Positions that were read before the first token.
    pub fed: usize,
    /// Passes through the layers after the first token.
    pub passes: usize,
    /// Until the first token of the answer.
    pub seconds_prefill: f64,
    /// From the first token on.
    pub seconds_decode: f64,
    /// Share of the requested expert bytes that did not have to be read, if any were requested.
    pub retained: Option<f64>,
    /// Experts that could not be read.
    pub drops: u64,
    /// Positions in use after it.
    pub positions: usize,
}

impl TurnFacts {
    /// Of a turn in which nothing has happened yet.
    pub fn nothing(ended: Ended) -> Self {
        Self {
            ended,
            think_tokens: 0,
            response_tokens: 0,
            fed: 0,
            passes: 0,
            seconds_prefill: 0.0,
            seconds_decode: 0.0,
            retained: None,
            drops: 0,
            positions: 0,
        }
    }

    /// Of a turn that could not begin.
    pub(super) fn failed(error: &Error) -> Self {
        Self::nothing(Ended::Failed(error.to_string()))
    }
}

/// Who watches a turn and may stop it.
pub trait Observer {
    /// The prompt is being read: so many of its new positions are through.
    fn prefill(&mut self, done: usize, of: usize);
    /// Between two passes, where another plan may be taken.
    fn between(&mut self, network: &mut Network);
    /// A token came: where it belongs (none for structure), and the text it made readable.
    fn delta(&mut self, channel: Option<Channel>, text: &str);
    /// Something went wrong that does not end the turn.
    fn warn(&mut self, why: &str);
    /// Whether to stop here. Asked between any two layers.
    fn stop(&mut self) -> bool;
}

/// Where a turn ends, whatever the model says.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// At most so many tokens.
    pub tokens: Option<usize>,
    /// At any of these ids.
    pub stop_ids: Vec<u32>,
}

/// Where the ids of the running turn are written down before the next is computed.
pub(super) type WriteDown<'a> = &'a mut dyn FnMut(u32) -> Result<(), Error>;

/// What a turn made.
pub(super) struct Made {
    /// The ids, with those that were there before.
    pub ids: Vec<u32>,
    pub think: String,
    pub response: String,
    pub facts: TurnFacts,
}

/// What a turn is made with.
pub(super) struct Turn<'a> {
    pub network: &'a mut Network,
    pub words: &'a Words,
    pub fed: &'a mut Fed,
    pub thinking: Thinking,
    pub choosing: Choosing,
    pub limits: &'a Limits,
    /// What was answered before, if the answer is gone on with. The prompt ends with these ids.
    pub begun: Vec<u32>,
    pub write_down: WriteDown<'a>,
    pub observer: &'a mut dyn Observer,
}

impl Turn<'_> {
    /// Feeds what was not seen of `prompt`, then makes tokens until the message is closed. What was made is given back
    /// however it ends. What was seen must be a beginning of `prompt`; `logits` are what follows it where all was seen.
    pub fn run(self, prompt: Vec<u32>, logits: Option<Logits>) -> Made {
        let Self {
            network,
            words,
            fed,
            thinking,
            mut choosing,
            limits,
            begun,
            write_down,
            observer,
        } = self;
        let (before, mut passes) = (network.expert_counters(), fed.passes());
        let mut speech = Speech::new(words, thinking, limits, write_down, observer);
        let anew = begun.is_empty();
        choosing.sampler.skip(begun.len());
        let outcome = speech.repeat(begun).and_then(|()| {
            let logits = match logits {
                Some(logits) => Some(logits),
                None => generate::read(network, fed, &prompt, anew, &mut speech)?,
            };
            speech.reading = false;
            speech.facts.seconds_prefill = speech.began.elapsed().as_secs_f64();
            speech.began = Instant::now();
            let Some(logits) = logits else {
                return Ok(Halt::Stopped);
            };
            if anew {
                fed.mark(Some(&logits))?;
            }
            passes = fed.passes();
            let mut said = prompt;
            generate::speak(network, fed, logits, &mut said, &mut choosing, &mut speech)
        });
        speech.finish(outcome, fed.ids().len(), |facts| {
            let now = network.expert_counters();
            let requested = now.bytes_requested - before.bytes_requested;
            let read = now.bytes_read - before.bytes_read;
            facts.retained = (requested > 0).then(|| 1.0 - read as f64 / requested as f64);
            facts.drops = now.drops - before.drops;
            facts.passes = fed.passes() - passes;
        })
    }
}

/// An answer as it comes.
struct Speech<'a> {
    words: &'a Words,
    parser: CompletionParser,
    ids: Vec<u32>,
    think: String,
    response: String,
    facts: TurnFacts,
    limits: &'a Limits,
    write_down: WriteDown<'a>,
    /// Nothing is written down any more: it has failed once, and was said.
    unwritten: bool,
    reading: bool,
    /// Tokens, without those that were there before.
    made: usize,
    began: Instant,
    observer: &'a mut dyn Observer,
}

impl<'a> Speech<'a> {
    fn new(
        words: &'a Words,
        thinking: Thinking,
        limits: &'a Limits,
        write_down: WriteDown<'a>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            words,
            parser: CompletionParser::new(thinking),
            ids: Vec::new(),
            think: String::new(),
            response: String::new(),
            facts: TurnFacts::nothing(Ended::Cancelled),
            limits,
            write_down,
            unwritten: false,
            reading: true,
            made: 0,
            began: Instant::now(),
            observer,
        }
    }

    /// Takes in what was said before; nobody is told again.
    fn repeat(&mut self, begun: Vec<u32>) -> Result<(), Error> {
        for &id in &begun {
            let (_, events) = self.hear(id)?;
            self.keep(&events);
        }
        self.ids = begun;
        Ok(())
    }

    /// Reads an id: the channel it belongs to, none for structure, and what it says.
    fn hear(&mut self, id: u32) -> Result<(Option<Channel>, Vec<Event>), Error> {
        let before = self.parser.speaking();
        let events = self
            .parser
            .push(&self.words.tokenizer, &self.words.markers, id)?;
        // A token of text leaves the parser where it was; one of structure does not.
        let channel = before.filter(|_| self.parser.speaking() == before);
        match channel {
            Some(Channel::Think) => self.facts.think_tokens += 1,
            Some(Channel::Response) => self.facts.response_tokens += 1,
            Some(Channel::Tools) | None => {}
        }
        Ok((channel, events))
    }

    /// Keeps the text of events.
    fn keep(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Text(Channel::Think, text) => self.think += &writable(text),
                // Nothing here calls tools: what the model writes there is shown where its answer is.
                Event::Text(_, text) => self.response += &writable(text),
                _ => {}
            }
        }
    }

    /// Keeps and tells the text of events; whether there was any.
    fn tell(&mut self, events: &[Event]) -> bool {
        self.keep(events);
        let mut told = false;
        for event in events {
            if let Event::Text(channel, text) = event {
                self.observer.delta(Some(*channel), &writable(text));
                told = true;
            }
        }
        told
    }

    /// The turn is over.
    fn finish(
        mut self,
        outcome: Result<Halt, Error>,
        positions: usize,
        figures: impl FnOnce(&mut TurnFacts),
    ) -> Made {
        let seconds = self.began.elapsed().as_secs_f64();
        match self.reading {
            true => self.facts.seconds_prefill = seconds,
            false => self.facts.seconds_decode = seconds,
        }
        self.facts.ended = match outcome {
            Err(error) => Ended::Failed(error.to_string()),
            Ok(Halt::Stopped) => Ended::Cancelled,
            Ok(Halt::Full) => Ended::Length,
            Ok(Halt::Done) => match (self.parser.ending(), self.ids.last()) {
                (Some(ending), _) => Ended::of(ending),
                (None, Some(&id)) if self.limits.stop_ids.contains(&id) => Ended::StopId(id),
                (None, _) => Ended::Limit,
            },
        };
        // What was held back for a character that never became whole.
        let rest = self.parser.finish();
        self.tell(&rest);
        self.facts.positions = positions;
        figures(&mut self.facts);
        Made {
            ids: self.ids,
            think: self.think,
            response: self.response,
            facts: self.facts,
        }
    }
}

impl Watch for Speech<'_> {
    fn read(&mut self, done: usize, of: usize) {
        self.facts.fed = done;
        self.observer.prefill(done, of);
    }

    fn between(&mut self, network: &mut Network) {
        self.observer.between(network);
    }

    fn stop(&mut self, _within_pass: bool) -> bool {
        let asked = Instant::now();
        let stop = self.observer.stop();
        // A turn that is halted there takes no time.
        self.began += asked.elapsed();
        stop
    }

    fn chosen(&mut self, id: u32) -> Result<bool, Error> {
        self.ids.push(id);
        if !self.unwritten
            && let Err(error) = (self.write_down)(id)
        {
            self.unwritten = true;
            self.observer.warn(&error.to_string());
        }
        let (channel, events) = self.hear(id)?;
        if !self.tell(&events) {
            // The token completed no character, or it is structure: it is a token all the same.
            self.observer.delta(channel, "");
        }
        self.made += 1;
        Ok(self.parser.ending().is_some()
            || self.limits.stop_ids.contains(&id)
            || self.limits.tokens.is_some_and(|most| self.made >= most))
    }
}
