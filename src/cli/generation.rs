//! A prompt and what is made of it, token by token.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::Exit;
use super::output::Output;
use super::teacher::Teacher;
use crate::chat::{Sampler, Words};
use crate::model::{Logits, ModelKey, Network, State, StateFileError, StateWriter, Want};
use crate::stream::{ExpertCounters, Reading, TrunkCounters};
use crate::text::{Utf8Stream, visible};

/// What to make.
pub(super) struct Request {
    pub count: usize,
    pub sampler: Sampler,
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
    state: State,
    words: Option<Words>,
    interrupted: Arc<AtomicBool>,
    full: Vec<u32>,
    prompt: usize,
    stopped_at: Option<u32>,
    /// Whether another token is to be computed after the one that is asked for.
    more: bool,
    /// As the request has it.
    whole: bool,
    teacher: Option<Teacher>,
    seconds_prefill: f64,
    /// Time of the tokens after the first.
    seconds_decode: f64,
}

impl Generation {
    /// Goes on from a state. `ids` are those that it has seen, and then those that are to be fed.
    pub(super) fn new(
        network: Network,
        words: Option<Words>,
        state: State,
        ids: Vec<u32>,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        Self {
            network,
            state,
            words,
            interrupted,
            prompt: ids.len(),
            full: ids,
            stopped_at: None,
            more: false,
            whole: false,
            teacher: None,
            seconds_prefill: 0.0,
            seconds_decode: 0.0,
        }
    }

    /// Feeds the prompt and makes tokens. What was made stays, however it ends.
    ///
    /// # Errors
    /// Computing fails, a result cannot be written, or a signal came.
    pub(super) fn go(&mut self, mut request: Request) -> anyhow::Result<()> {
        (self.whole, self.teacher) = (request.whole, request.teacher.take());
        let mut text = Utf8Stream::default();
        let (stream, count) = (request.stream, request.count);
        let made = self.make(request, &mut text);
        if stream && count > 0 {
            show(&(text.finish() + "\n"));
        }
        // A trace is kept as far as it came; what ended the run first says more.
        let recorded = self.network.end_record().map_err(Into::into);
        made.and(recorded)
    }

    fn make(&mut self, request: Request, text: &mut Utf8Stream) -> anyhow::Result<()> {
        let Request {
            count,
            mut sampler,
            stop_ids,
            recompute,
            stream,
            dump_last,
            dump_all,
            ..
        } = request;
        let started = Instant::now();
        self.more = count > 1;
        let mut logits = self.prefill(dump_all)?;
        self.seconds_prefill = started.elapsed().as_secs_f64();
        if let (Some(mut dump), Some(row)) = (dump_last, logits.last()) {
            dump.write(&little_endian(row))?;
            dump.finish()?;
        }
        let decoding = Instant::now();
        for made in 0..count {
            if made > 0 {
                self.more = made + 1 < count;
                logits = match recompute {
                    true => {
                        self.state = self.network.new_state(self.state.capacity())?;
                        self.feed_all(Want::Last, None)?
                    }
                    false => self.feed_all(Want::Last, None)?,
                };
                self.seconds_decode = decoding.elapsed().as_secs_f64();
            }
            let Some(row) = logits.last() else {
                break;
            };
            let id = sampler.next(row)?;
            self.full.push(id);
            if stream {
                let shown = match &self.words {
                    Some(words) => text.push(words.tokenizer.bytes(id)?),
                    None => format!("{}{id}", if made == 0 { "" } else { " " }),
                };
                show(&shown);
            }
            if stop_ids.contains(&id) {
                self.stopped_at = Some(id);
                break;
            }
        }
        Ok(())
    }

    fn prefill(&mut self, dump_all: Option<Output>) -> anyhow::Result<Logits> {
        let want = match dump_all.is_some() || self.teacher.is_some() {
            true => Want::All,
            false => Want::Last,
        };
        let mut dump = dump_all;
        let logits = self.feed_all(want, dump.as_mut())?;
        dump.map_or(Ok(()), Output::finish)?;
        Ok(logits)
    }

    /// Feeds what the state has not seen, in chunks, and gives the last chunk's logits; those of every position go to
    /// `dump`, and are compared, as they come.
    fn feed_all(&mut self, want: Want, mut dump: Option<&mut Output>) -> anyhow::Result<Logits> {
        let mut logits = Logits::default();
        let unseen = self.full[self.state.positions()..].to_vec();
        let mut left = unseen.chunks(self.network.chunk()).peekable();
        while let Some(chunk) = left.next() {
            let inner = want == Want::Last && left.peek().is_some();
            self.network.expect_more(self.more || left.peek().is_some());
            let first = self.state.positions();
            logits = self.feed(chunk, if inner { Want::Nothing } else { want })?;
            if let Some(dump) = &mut dump {
                dump.write(&little_endian(logits.values()))?;
            }
            if let (Want::All, Some(teacher)) = (want, &mut self.teacher) {
                teacher.compare(first, &logits, &self.full);
            }
        }
        Ok(logits)
    }

    /// One chunk through the network. A signal is looked for before it and between layers; there the pass is left, or
    /// finished first if the state is to be kept.
    fn feed(&mut self, ids: &[u32], want: Want) -> anyhow::Result<Logits> {
        let interrupted = Arc::clone(&self.interrupted);
        let interrupted = || interrupted.load(Ordering::Relaxed);
        if interrupted() {
            return Err(Exit::Interrupted.into());
        }
        let mut pass = self.network.begin(&mut self.state, ids, want)?;
        let mut told = false;
        loop {
            if interrupted() && !self.whole {
                return Err(Exit::Interrupted.into());
            }
            if interrupted() && !told {
                eprintln!("k3: finishing the step in flight, then saving; once more ends at once");
                told = true;
            }
            if self.network.advance(&mut pass, &mut self.state)? {
                return Ok(self.network.finish(pass, &mut self.state)?);
            }
        }
    }

    /// Saves the state with all ids: the last one made is not fed yet, and will be when it is loaded.
    ///
    /// # Errors
    /// It is torn, or cannot be written.
    pub(super) fn save(&self, key: &ModelKey, writer: StateWriter) -> Result<u64, StateFileError> {
        writer.save(key, &self.state, &self.full)
    }

    /// What teacher forcing gave, if it was asked for.
    pub(super) fn teacher(&self) -> Option<&Teacher> {
        self.teacher.as_ref()
    }

    /// One line about the run on standard error.
    pub(super) fn summary(&self) {
        eprintln!(
            "k3: {} prompt ids in {:.3} s, {} generated{}",
            self.prompt,
            self.seconds_prefill,
            self.generated().len(),
            match self.seconds_per_token() {
                0.0 => String::new(),
                seconds => format!(", {seconds:.3} s a token"),
            }
        );
        if let Some(teacher) = &self.teacher {
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
        self.words
            .as_ref()
            .and_then(|words| words.tokenizer.decode(self.generated()).ok())
    }

    pub(super) fn stopped_at(&self) -> Option<u32> {
        self.stopped_at
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
