//! A prompt and what is made of it, token by token.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::output::Output;
use super::teacher::Teacher;
use super::{Exit, say};
use crate::chat::generate::{self, Choosing, Halt, Watch};
use crate::chat::{self, Fed, Words};
use crate::model::{Logits, ModelKey, Network, State, StateFileError, StateWriter};
use crate::stream::{ExpertCounters, Reading, TrunkCounters};
use crate::text::{Utf8Stream, visible};

/// What to make.
pub(super) struct Request {
    /// Where ids are text.
    pub words: Option<Words>,
    /// Set by a signal.
    pub interrupted: Arc<AtomicBool>,
    pub count: usize,
    pub choosing: Choosing,
    pub stop_ids: Vec<u32>,
    /// Start from nothing for every token.
    pub recompute: bool,
    /// Write text to standard output as it is made, or ids where there is no tokenizer.
    pub stream: bool,
    pub dump_last: Option<Output>,
    pub dump_all: Option<Output>,
    /// Compare what is predicted at each position of the prompt with the prompt.
    pub teacher: Option<Teacher>,
    /// Finish the pass that a signal comes in, so that the state is whole.
    pub whole: bool,
}

/// A prompt and what was made of it so far.
pub(super) struct Generation {
    network: Network,
    fed: Fed,
    /// All ids: the prompt's, then those that were made.
    full: Vec<u32>,
    prompt: usize,
    made: Made,
    choosing: Choosing,
    recompute: bool,
    dump_last: Option<Output>,
    /// Passes through the layers after the prompt.
    passes: usize,
    seconds_prefill: f64,
    /// Time of the tokens after the first.
    seconds_decode: f64,
}

/// What watches ids being made, and where they go.
struct Made {
    words: Option<Words>,
    interrupted: Arc<AtomicBool>,
    count: usize,
    stop_ids: Vec<u32>,
    stream: bool,
    whole: bool,
    told: bool,
    text: Utf8Stream,
    dump: Option<Output>,
    teacher: Option<Teacher>,
    /// The prompt, while it is compared with what was predicted.
    prompt: Vec<u32>,
    made: usize,
    stopped_at: Option<u32>,
    /// Why a result cannot be written. The run stops then.
    failed: Option<Exit>,
}

impl Watch for Made {
    fn read(&mut self, _done: usize, _of: usize) {}

    fn between(&mut self, _network: &mut Network) {}

    /// A signal stops it here, unless the state is to be kept: then the pass is finished first.
    fn stop(&mut self, within_pass: bool) -> bool {
        if self.failed.is_some() {
            return true;
        }
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        if interrupted && within_pass && self.whole {
            if !self.told {
                say!("k3: finishing the step in flight, then saving; once more ends at once");
            }
            self.told = true;
            return false;
        }
        interrupted
    }

    fn more(&self) -> bool {
        self.made + 1 < self.count
    }

    fn wants_all(&self) -> bool {
        self.dump.is_some() || self.teacher.is_some()
    }

    fn predicted(&mut self, first: usize, logits: &Logits) {
        if let Some(dump) = &mut self.dump
            && self.failed.is_none()
        {
            self.failed = dump.write(&little_endian(logits.values())).err();
        }
        if let Some(teacher) = &mut self.teacher {
            teacher.compare(first, logits, &self.prompt);
        }
    }

    fn chosen(&mut self, id: u32) -> Result<bool, chat::Error> {
        self.made += 1;
        if self.stream {
            let shown = match &self.words {
                Some(words) => self.text.push(words.tokenizer.bytes(id)?),
                None => format!("{}{id}", if self.made == 1 { "" } else { " " }),
            };
            show(&shown);
        }
        if self.stop_ids.contains(&id) {
            self.stopped_at = Some(id);
        }
        Ok(self.stopped_at.is_some() || self.made == self.count)
    }
}

impl Generation {
    /// Goes on from a state. `ids` are those that it has seen, and then those that are to be fed.
    pub(super) fn new(network: Network, state: State, ids: Vec<u32>, request: Request) -> Self {
        let seen = ids[..state.positions()].to_vec();
        let prompt = match request.teacher {
            Some(_) => ids.clone(),
            None => Vec::new(),
        };
        Self {
            network,
            fed: Fed::having_seen(state, seen, 0),
            prompt: ids.len(),
            full: ids,
            made: Made {
                words: request.words,
                interrupted: request.interrupted,
                count: request.count,
                stop_ids: request.stop_ids,
                stream: request.stream,
                whole: request.whole,
                told: false,
                text: Utf8Stream::default(),
                dump: request.dump_all,
                teacher: request.teacher,
                prompt,
                made: 0,
                stopped_at: None,
                failed: None,
            },
            choosing: request.choosing,
            recompute: request.recompute,
            dump_last: request.dump_last,
            passes: 0,
            seconds_prefill: 0.0,
            seconds_decode: 0.0,
        }
    }

    /// Feeds the prompt and makes tokens. What was made stays, however it ends.
    ///
    /// # Errors
    /// Computing fails, a result cannot be written, or a signal came.
    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        let made = self.make();
        if self.made.stream && self.made.count > 0 {
            let rest = self.made.text.finish();
            show(&(rest + "\n"));
        }
        // A trace is kept as far as it came; what ended the run first says more.
        let recorded = self.network.end_record().map_err(Into::into);
        made.and(recorded)
    }

    fn make(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        let logits = self.read();
        if let Some(failed) = self.made.failed.take() {
            return Err(failed.into());
        }
        let logits = logits?;
        self.seconds_prefill = started.elapsed().as_secs_f64();
        self.made.dump.take().map_or(Ok(()), Output::finish)?;
        if let (Some(mut dump), Some(row)) = (self.dump_last.take(), logits.last()) {
            dump.write(&little_endian(row))?;
            dump.finish()?;
        }
        if self.made.count == 0 {
            return Ok(());
        }
        let (decoding, before) = (Instant::now(), self.fed.passes());
        let halted = match self.recompute {
            true => self.recompute(logits),
            false => generate::speak(
                &mut self.network,
                &mut self.fed,
                logits,
                &mut self.full,
                &mut self.choosing,
                &mut self.made,
            )
            .map_err(Into::into),
        };
        self.seconds_decode = decoding.elapsed().as_secs_f64();
        self.passes = self.fed.passes() - before;
        match halted? {
            Halt::Stopped => Err(Exit::Interrupted.into()),
            Halt::Done | Halt::Full => Ok(()),
        }
    }

    /// Feeds what was not seen of all ids; the last one's logits.
    fn read(&mut self) -> anyhow::Result<Logits> {
        let (network, fed) = (&mut self.network, &mut self.fed);
        generate::read(network, fed, &self.full, false, &mut self.made)?
            .ok_or_else(|| Exit::Interrupted.into())
    }

    /// Makes tokens from nothing each.
    fn recompute(&mut self, mut logits: Logits) -> anyhow::Result<Halt> {
        while let Some(row) = logits.last() {
            let id = self.choosing.sampler.next(row)?;
            self.full.push(id);
            if self.made.chosen(id)? {
                break;
            }
            self.fed.restart(&self.network)?;
            logits = self.read()?;
        }
        Ok(Halt::Done)
    }

    /// Saves the state with all ids: the last one made is not fed yet, and will be when it is loaded.
    ///
    /// # Errors
    /// It is torn, or cannot be written.
    pub(super) fn save(&self, key: &ModelKey, writer: StateWriter) -> Result<u64, StateFileError> {
        writer.save(key, self.fed.state(), &self.full)
    }

    /// What teacher forcing gave, if it was asked for.
    pub(super) fn teacher(&self) -> Option<&Teacher> {
        self.made.teacher.as_ref()
    }

    /// One line about the run on standard error.
    pub(super) fn summary(&self) {
        say!(
            "k3: {} prompt ids in {:.3} s, {} generated{}{}",
            self.prompt,
            self.seconds_prefill,
            self.generated().len(),
            // One comes out of the prompt's own pass.
            match self.generated().len().saturating_sub(1) {
                made if made > self.passes => format!(" ({} passes after the prompt)", self.passes),
                _ => String::new(),
            },
            match self.seconds_per_token() {
                0.0 => String::new(),
                seconds => format!(", {seconds:.3} s a token"),
            }
        );
        if let Some(teacher) = &self.made.teacher {
            teacher.summary(self.seconds_prefill);
        }
    }

    pub(super) fn prompt(&self) -> &[u32] {
        &self.full[..self.prompt]
    }

    pub(super) fn generated(&self) -> &[u32] {
        &self.full[self.prompt..]
    }

    pub(super) fn full(&self) -> &[u32] {
        &self.full
    }

    /// The generated text, where there is a tokenizer.
    pub(super) fn text(&self) -> Option<String> {
        self.made
            .words
            .as_ref()
            .and_then(|words| words.tokenizer.decode(self.generated()).ok())
    }

    pub(super) fn stopped_at(&self) -> Option<u32> {
        self.made.stopped_at
    }

    /// Passes through the layers after the prompt: with guesses fewer than tokens.
    pub(super) fn passes(&self) -> usize {
        self.passes
    }

    pub(super) fn seconds_prefill(&self) -> f64 {
        self.seconds_prefill
    }

    /// Mean over the tokens after the first; zero when there is none.
    pub(super) fn seconds_per_token(&self) -> f64 {
        match self.generated().len() {
            0 | 1 => 0.0,
            n => self.seconds_decode / (n - 1) as f64,
        }
    }

    /// Seconds of prefill and decode together.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds_prefill + self.seconds_decode
    }

    pub(super) fn trunk_counters(&self) -> TrunkCounters {
        self.network.trunk_counters()
    }

    /// What the network counted.
    pub(super) fn meters(&self) -> Reading {
        self.network.meters().read(Instant::now())
    }

    pub(super) fn expert_counters(&self) -> ExpertCounters {
        self.network.expert_counters()
    }
}

/// Shows text on standard output. A reader that went away ends the showing, not the run.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let text = if out.is_terminal() {
        visible(text)
    } else {
        text.into()
    };
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn little_endian(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
