//! A prompt and what is made of it, token by token, greedily.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::Exit;
use super::output::Output;
use crate::chat::Words;
use crate::kernels::argmax;
use crate::model::{Logits, Network, PREFILL_CHUNK, State, Want};
use crate::stream::{ExpertCounters, Reading, TrunkCounters};
use crate::text::{Utf8Stream, visible};

/// What to make.
pub(super) struct Request {
    pub count: usize,
    pub stop_ids: Vec<u32>,
    /// Start from nothing for every token.
    pub recompute: bool,
    /// Write text to standard output as it is made, or ids where there is no tokenizer.
    pub stream: bool,
    pub dump_last: Option<Output>,
    pub dump_all: Option<Output>,
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
    seconds_prefill: f64,
    /// Time of the tokens after the first.
    seconds_decode: f64,
}

impl Generation {
    /// Reserves the state for `context` positions.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn new(
        network: Network,
        words: Option<Words>,
        prompt: Vec<u32>,
        context: usize,
        interrupted: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let state = network.new_state(context)?;
        Ok(Self {
            network,
            state,
            words,
            interrupted,
            prompt: prompt.len(),
            full: prompt,
            stopped_at: None,
            more: false,
            seconds_prefill: 0.0,
            seconds_decode: 0.0,
        })
    }

    /// Feeds the prompt and makes tokens. What was made stays, however it ends.
    ///
    /// # Errors
    /// Computing fails, a result cannot be written, or a signal came.
    pub(super) fn go(&mut self, request: Request) -> anyhow::Result<()> {
        let Request {
            count,
            stop_ids,
            recompute,
            stream,
            dump_last,
            dump_all,
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
        let mut text = Utf8Stream::default();
        for made in 0..count {
            if made > 0 {
                let full = self.full.clone();
                self.more = made + 1 < count;
                logits = match recompute {
                    true => {
                        self.state = self.network.new_state(self.state.capacity())?;
                        self.feed_all(&full, Want::Last, None)?
                    }
                    false => self.feed_all(&full[full.len() - 1..], Want::Last, None)?,
                };
                self.seconds_decode = decoding.elapsed().as_secs_f64();
            }
            // Logits are finite, so there is a greatest.
            let Some(id) = logits.last().and_then(argmax) else {
                break;
            };
            let id = id as u32;
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
        self.network.end_record()?;
        if stream && count > 0 {
            show(&(text.finish() + "\n"));
        }
        Ok(())
    }

    fn prefill(&mut self, dump_all: Option<Output>) -> anyhow::Result<Logits> {
        let prompt = self.full.clone();
        match dump_all {
            None => self.feed_all(&prompt, Want::Last, None),
            Some(mut dump) => {
                let logits = self.feed_all(&prompt, Want::All, Some(&mut dump))?;
                dump.finish()?;
                Ok(logits)
            }
        }
    }

    /// Feeds ids in chunks and gives the last chunk's logits; those of every position go to `dump` as they come.
    fn feed_all(
        &mut self,
        ids: &[u32],
        want: Want,
        mut dump: Option<&mut Output>,
    ) -> anyhow::Result<Logits> {
        let mut logits = Logits::default();
        let mut left = ids.chunks(PREFILL_CHUNK).peekable();
        while let Some(chunk) = left.next() {
            let inner = want == Want::Last && left.peek().is_some();
            self.network.expect_more(self.more || left.peek().is_some());
            logits = self.feed(chunk, if inner { Want::Nothing } else { want })?;
            if let Some(dump) = &mut dump {
                dump.write(&little_endian(logits.values()))?;
            }
        }
        Ok(logits)
    }

    /// One chunk through the network; between layers a signal is looked for.
    fn feed(&mut self, ids: &[u32], want: Want) -> anyhow::Result<Logits> {
        let mut pass = self.network.begin(&mut self.state, ids, want)?;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Exit::Interrupted.into());
            }
            if self.network.advance(&mut pass, &mut self.state)? {
                return Ok(self.network.finish(pass, &mut self.state)?);
            }
        }
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
