//! One turn: a prompt's ids go in, channels of text come out.

use std::time::Instant;

use super::session::Words;
use super::{Error, Sampler};
use crate::model::{Logits, Network, PREFILL_CHUNK, Pass, State, Want};
use crate::text::{Channel, CompletionParser, Thinking, completion};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The model closed its message.
    Finished,
    /// The person stopped it.
    Cancelled,
    /// The context is full.
    Length,
    /// The model's structure was not that of an answer; what could be read is kept.
    Malformed(String),
    /// Computing failed; what was answered so far is kept.
    Failed(String),
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
    /// Until the first token of the answer.
    pub seconds_prefill: f64,
    /// From the first token on.
    pub seconds_decode: f64,
    /// Positions in use after it.
    pub positions: usize,
}

impl TurnFacts {
    /// Of a turn in which nothing has happened yet.
    fn nothing(ended: Ended) -> Self {
        Self {
            ended,
            think_tokens: 0,
            response_tokens: 0,
            seconds_prefill: 0.0,
            seconds_decode: 0.0,
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
    /// A layer of the running pass is through.
    fn layer(&mut self, done: usize, of: usize, network: &Network);
    /// A token came: where it belongs (none for structure), and the text it made readable.
    fn delta(&mut self, channel: Option<Channel>, text: &str);
    /// Whether to stop here. Asked between any two layers.
    fn stop(&mut self) -> bool;
}

/// A state and the ids it has seen.
pub(super) struct Fed {
    pub state: State,
    pub ids: Vec<u32>,
    /// A pass that was left between two layers, and its ids: the state is torn until it has been finished.
    parked: Option<(Pass, Vec<u32>)>,
}

impl Fed {
    /// A state that has seen nothing.
    pub fn new(state: State) -> Self {
        Self {
            state,
            ids: Vec::new(),
            parked: None,
        }
    }

    /// Positions that are seen, or will be once the parked pass is finished.
    pub fn seen(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let parked = self.parked.as_ref().map_or(&[][..], |(_, ids)| ids);
        let len = self.ids.len() + parked.len();
        (0..len).map(|i| {
            self.ids
                .get(i)
                .copied()
                .unwrap_or_else(|| parked[i - self.ids.len()])
        })
    }

    /// Finishes the parked pass, if there is one, from the layer it had reached. Its logits are not computed.
    ///
    /// # Errors
    /// Reading fails; the state is torn for good then.
    pub fn unpark(&mut self, network: &mut Network) -> Result<(), Error> {
        let Some((mut pass, ids)) = self.parked.take() else {
            return Ok(());
        };
        pass.want_nothing();
        while !network.advance(&mut pass, &mut self.state)? {}
        network.finish(pass, &mut self.state)?;
        self.ids.extend(ids);
        Ok(())
    }
}

/// What a turn made.
pub(super) struct Made {
    pub ids: Vec<u32>,
    pub think: String,
    pub response: String,
    pub facts: TurnFacts,
}

/// Feeds what `fed` has not seen of `prompt`, then makes tokens until the message is closed. What was made is given back
/// however it ends. `fed` must be a prefix of `prompt`, and shorter.
pub(super) fn run(
    network: &mut Network,
    words: &Words,
    fed: &mut Fed,
    prompt: &[u32],
    thinking: Thinking,
    sampler: &mut Sampler,
    observer: &mut dyn Observer,
) -> Made {
    let mut parser = CompletionParser::new(thinking);
    let mut made = Made {
        ids: Vec::new(),
        think: String::new(),
        response: String::new(),
        facts: TurnFacts::nothing(Ended::Cancelled),
    };
    let started = Instant::now();
    let first = read(network, fed, &prompt[fed.ids.len()..], observer);
    made.facts.seconds_prefill = started.elapsed().as_secs_f64();
    let decoding = Instant::now();
    made.facts.ended = match first {
        Err(error) => Ended::Failed(error.to_string()),
        Ok(None) => Ended::Cancelled,
        Ok(Some(logits)) => match speak(
            network,
            words,
            fed,
            logits,
            sampler,
            &mut parser,
            &mut made,
            observer,
        ) {
            Ok(ended) => ended,
            Err(error) => Ended::Failed(error.to_string()),
        },
    };
    made.facts.seconds_decode = decoding.elapsed().as_secs_f64();
    // What was held back for a character that never became whole.
    note(&parser.finish(), &mut made, observer);
    made.facts.positions = fed.ids.len();
    made
}

/// Reads a prompt in chunks; gives the last position's logits, or nothing when it was stopped.
fn read(
    network: &mut Network,
    fed: &mut Fed,
    ids: &[u32],
    observer: &mut dyn Observer,
) -> Result<Option<Logits>, Error> {
    let mut done = 0;
    observer.prefill(done, ids.len());
    for chunk in ids.chunks(PREFILL_CHUNK) {
        if observer.stop() {
            return Ok(None);
        }
        done += chunk.len();
        let last = done == ids.len();
        let want = if last { Want::Last } else { Want::Nothing };
        let Some(logits) = feed(network, fed, chunk, want, observer)? else {
            return Ok(None);
        };
        observer.prefill(done, ids.len());
        if last {
            return Ok(Some(logits));
        }
    }
    Ok(None)
}

/// Makes tokens until the message ends, the context is full, or it is stopped.
#[allow(clippy::too_many_arguments)]
fn speak(
    network: &mut Network,
    words: &Words,
    fed: &mut Fed,
    mut logits: Logits,
    sampler: &mut Sampler,
    parser: &mut CompletionParser,
    made: &mut Made,
    observer: &mut dyn Observer,
) -> Result<Ended, Error> {
    loop {
        let Some(row) = logits.last() else {
            return Ok(Ended::Length);
        };
        let id = sampler.next(row)?;
        made.ids.push(id);
        let before = parser.speaking();
        let events = parser.push(&words.tokenizer, &words.markers, id)?;
        // A token of text leaves the parser where it was; one of structure does not.
        let channel = before.filter(|_| parser.speaking() == before);
        match channel {
            Some(Channel::Think) => made.facts.think_tokens += 1,
            Some(Channel::Response) => made.facts.response_tokens += 1,
            Some(Channel::Tools) | None => {}
        }
        let told = note(&events, made, observer);
        if !told {
            // The token completed no character, or it is structure: it is a token all the same.
            observer.delta(channel, "");
        }
        if let Some(ending) = parser.ending() {
            return Ok(match ending {
                completion::Ending::Complete(_) => Ended::Finished,
                other => Ended::Malformed(other.to_string()),
            });
        }
        if observer.stop() {
            return Ok(Ended::Cancelled);
        }
        if fed.ids.len() == fed.state.capacity() {
            return Ok(Ended::Length);
        }
        logits = match feed(network, fed, &[id], Want::Last, observer)? {
            Some(logits) => logits,
            None => return Ok(Ended::Cancelled),
        };
    }
}

/// One chunk through the layers. Nothing when it was stopped on the way: then it is parked.
fn feed(
    network: &mut Network,
    fed: &mut Fed,
    ids: &[u32],
    want: Want,
    observer: &mut dyn Observer,
) -> Result<Option<Logits>, Error> {
    let layers = network.layer_count();
    let mut pass = network.begin(&mut fed.state, ids, want)?;
    loop {
        let through = network.advance(&mut pass, &mut fed.state)?;
        observer.layer(pass.layer(), layers, network);
        if through {
            let logits = network.finish(pass, &mut fed.state)?;
            fed.ids.extend_from_slice(ids);
            return Ok(Some(logits));
        }
        if observer.stop() {
            fed.parked = Some((pass, ids.to_vec()));
            return Ok(None);
        }
    }
}

/// Keeps and tells the text of events; whether there was any.
fn note(events: &[completion::Event], made: &mut Made, observer: &mut dyn Observer) -> bool {
    let mut told = false;
    for event in events {
        if let completion::Event::Text(channel, text) = event {
            match channel {
                Channel::Think => made.think.push_str(text),
                // Nothing here calls tools: what the model writes there is shown where its answer is.
                Channel::Response | Channel::Tools => made.response.push_str(text),
            }
            observer.delta(Some(*channel), text);
            told = true;
        }
    }
    told
}
