//! The measuring itself: passes through a network in turns with the limits that they are compared to. It compares no tokens.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::kernels::Isa;
use crate::model::measure::{Memory, fused_rate};
use crate::model::{Compute, LayerState, Network, State, Want};
use crate::stream::measure::{Case, measure_direct};
use crate::stream::{DirectFile, Split};

/// Tokens of a timed decode, after one that is not timed.
const TOKENS: usize = 8;
/// Repeats, taken in turns with the limits.
const REPEATS: usize = 5;
/// Tokens of the prompt.
pub(super) const PROMPT: usize = 512;
/// Positions of the contexts, the near one first.
const CONTEXTS: [usize; 2] = [64, 8192];
/// Positions of passes that check guesses.
const CHECKED: [usize; 5] = [1, 2, 3, 5, 9];

/// What the machine gives.
pub(super) struct Limits {
    compute: Compute,
    memory: Memory,
}

impl Limits {
    /// With so many threads.
    pub fn new(threads: usize) -> Result<Self> {
        Ok(Self {
            compute: Compute::new(threads, Isa::detect())?,
            memory: Memory::new()?,
        })
    }
}

/// Decode with everything in memory.
#[derive(Clone, Copy)]
pub(super) struct Resident {
    /// Median seconds a token.
    pub seconds: f64,
    /// Bytes of weights a second.
    pub rate: f64,
    /// Bytes that memory gives, before or after.
    pub memory: f64,
    pub split: Split,
}

/// Decode with everything in memory, in turns with the memory's rate.
pub(super) fn resident(
    network: &mut Network,
    limits: &Limits,
    bytes: u64,
    mut tell: impl FnMut(Resident) -> Result<()>,
) -> Result<()> {
    // Its experts come from the drive for the first time.
    decode(network, 16)?;
    for _ in 0..REPEATS {
        let before = limits.memory.read(&limits.compute);
        let decoded = decode(network, 16)?;
        tell(Resident {
            seconds: decoded.seconds,
            rate: bytes as f64 / decoded.seconds,
            memory: before.max(limits.memory.read(&limits.compute)),
            split: decoded.split,
        })?;
    }
    Ok(())
}

/// A prompt in one chunk.
pub(super) struct Prompt {
    pub tokens: usize,
    pub seconds: f64,
    /// Multiply-adds a second of its products, while they run.
    pub rate: f64,
    /// Multiply-adds a second that the processor gives.
    pub limit: f64,
    /// Seconds a token takes alone, the mean of before and after: the machine's pace changes within a minute.
    pub alone: f64,
    pub split: Split,
}

/// Prompts with everything in memory.
pub(super) fn prompts(
    network: &mut Network,
    limits: &Limits,
    mut tell: impl FnMut(Prompt) -> Result<()>,
) -> Result<()> {
    let mut decoded = decode(network, 16)?.seconds;
    for tokens in [64, PROMPT, PROMPT, PROMPT] {
        let before = fused_rate(&limits.compute);
        let mut state = network.new_state(tokens)?;
        let kernels = network.meters().kernel_meter();
        let (fused, start) = (kernels.fused_so_far(), Instant::now());
        network.prefill(&mut state, &prompt(tokens), tokens, Want::Last)?;
        let seconds = start.elapsed().as_secs_f64();
        let fused = kernels.fused_so_far() - fused;
        let split = last_token(network);
        let running = (split.kernels.trunk + split.kernels.experts).as_secs_f64();
        let limit = before.max(fused_rate(&limits.compute));
        let earlier = std::mem::replace(&mut decoded, decode(network, 16)?.seconds);
        tell(Prompt {
            tokens,
            seconds,
            rate: fused as f64 / running,
            limit,
            alone: (earlier + decoded) / 2.0,
            split,
        })?;
    }
    Ok(())
}

/// A pass over several positions, of which all but one are guesses.
pub(super) struct Extra {
    pub positions: usize,
    pub seconds: f64,
    /// Seconds of a pass over one.
    pub one: f64,
}

/// What checking guesses costs.
pub(super) fn extra(
    network: &mut Network,
    mut tell: impl FnMut(Extra) -> Result<()>,
) -> Result<()> {
    let mut state = network.new_state(PROMPT)?;
    network.feed(&mut state, &prompt(16), Want::Last)?;
    let mut one = 0.0;
    for positions in CHECKED {
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            let ids = prompt(positions);
            let mut pass = network.begin_draft(&mut state, &ids)?;
            while !network.advance(&mut pass, &mut state)? {}
            let (_, draft) = network.finish_draft(pass, &state)?;
            network.commit(draft, &mut state, 1)?;
            times.push(start.elapsed().as_secs_f64());
        }
        let seconds = median(&mut times);
        if positions == 1 {
            one = seconds;
        }
        tell(Extra {
            positions,
            seconds,
            one,
        })?;
    }
    Ok(())
}

/// Decode behind a context.
pub(super) struct Far {
    pub positions: usize,
    pub seconds: f64,
    /// Seconds a token behind the near one.
    pub near: f64,
}

/// Decode near a context's start and far into it, in turns.
pub(super) fn context(
    network: &mut Network,
    mut tell: impl FnMut(Far) -> Result<()>,
) -> Result<()> {
    for _ in 0..REPEATS.min(3) {
        let near = decode(network, CONTEXTS[0])?.seconds;
        for (i, positions) in CONTEXTS.into_iter().enumerate() {
            let seconds = match i {
                0 => near,
                _ => decode(network, positions)?.seconds,
            };
            tell(Far {
                positions,
                seconds,
                near,
            })?;
        }
    }
    Ok(())
}

/// Decode with a part of the trunk in memory.
pub(super) struct Streamed {
    /// Median seconds a token.
    pub seconds: f64,
    /// Bytes read a token.
    pub bytes: f64,
    /// Bytes a second that the drive gives: the mean of before and after. The better of two would be more than it gives in
    /// between, since it varies.
    pub drive: f64,
    pub split: Split,
}

impl Streamed {
    /// Seconds that the drive takes for what was read.
    pub fn reading(&self) -> f64 {
        self.bytes / self.drive
    }
}

/// Bytes a second that the drive gives.
fn rate(drive: &DirectFile) -> Result<f64> {
    let cases: Vec<Case> = Case::usual()
        .into_iter()
        .filter(|case| case.bytes == 32 << 20 && case.in_flight == 4)
        .take(1)
        .collect();
    let rates = measure_direct(drive, &cases, 1, Duration::from_secs(2))?;
    Ok(rates.best().median())
}

/// Bytes a second that drive and memory give at the same time.
pub(super) struct Both {
    pub drive: f64,
    pub memory: f64,
}

impl Both {
    /// Seconds of a token that goes through so many bytes of weights and reads so many from a drive that gives `alone` by itself:
    /// it gives less while weights are gone through, and the rest comes at its own rate.
    pub fn seconds(&self, weights: f64, read: f64, alone: f64) -> f64 {
        let computing = weights / self.memory;
        computing + (read - computing * self.drive).max(0.0) / alone
    }
}

/// The drive while all threads read memory: what a read brings goes through memory too, and where both are a virtual machine's,
/// they take from each other.
pub(super) fn both(limits: &Limits, drive: &DirectFile) -> Result<Both> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut rates = Vec::new();
            while !ended.load(Relaxed) {
                rates.push(limits.memory.read(&limits.compute));
            }
            rates
        });
        let drive = rate(drive);
        ended.store(true, Relaxed);
        let mut rates = reading.join().unwrap_or_default();
        Ok(Both {
            drive: drive?,
            memory: match rates.is_empty() {
                true => 0.0,
                false => median(&mut rates),
            },
        })
    })
}

/// Decode from the drive, in turns with its rate.
pub(super) fn streamed(
    network: &mut Network,
    drive: &DirectFile,
    mut tell: impl FnMut(Streamed) -> Result<()>,
) -> Result<()> {
    for _ in 0..REPEATS {
        let before = rate(drive)?;
        let decoded = decode(network, 16)?;
        tell(Streamed {
            seconds: decoded.seconds,
            bytes: decoded.bytes,
            drive: (before + rate(drive)?) / 2.0,
            split: decoded.split,
        })?;
    }
    Ok(())
}

/// A prompt with a part of the trunk in memory.
pub(super) struct StreamedPrompt {
    pub tokens: usize,
    pub seconds: f64,
    pub bytes: f64,
    /// Chunks, each a pass over the trunk.
    pub passes: usize,
}

/// A prompt from the drive, in the chunks of the plan.
pub(super) fn streamed_prompt(network: &mut Network) -> Result<StreamedPrompt> {
    let mut state = network.new_state(PROMPT)?;
    network.expect_more(false);
    let (chunk, before, start) = (network.chunk(), read(network), Instant::now());
    network.prefill(&mut state, &prompt(PROMPT), chunk, Want::Last)?;
    Ok(StreamedPrompt {
        tokens: PROMPT,
        seconds: start.elapsed().as_secs_f64(),
        bytes: (read(network) - before) as f64,
        passes: PROMPT.div_ceil(chunk),
    })
}

/// Some ids that differ.
fn prompt(tokens: usize) -> Vec<u32> {
    (0..tokens as u32).map(|i| i * 7 % 1000).collect()
}

struct Decoded {
    /// Median seconds a token.
    seconds: f64,
    /// Bytes read a token.
    bytes: f64,
    /// Where the last token's time went.
    split: Split,
}

/// Tokens behind so many positions.
fn decode(network: &mut Network, positions: usize) -> Result<Decoded> {
    let mut state = network.new_state(positions + TOKENS + 1)?;
    network.expect_more(true);
    network.feed(&mut state, &prompt(16), Want::Last)?;
    lengthen(&mut state, positions);
    let mut before = 0;
    let mut seconds = Vec::new();
    for token in 0..=TOKENS {
        network.expect_more(token < TOKENS);
        let start = Instant::now();
        network.feed(&mut state, &[7 + token as u32], Want::Last)?;
        match token {
            0 => before = read(network),
            _ => seconds.push(start.elapsed().as_secs_f64()),
        }
    }
    Ok(Decoded {
        bytes: (read(network) - before) as f64 / seconds.len() as f64,
        seconds: median(&mut seconds),
        split: last_token(network),
    })
}

/// Repeats what is cached until it is as long as after so many positions: attention takes as long, and a prompt need not be
/// computed.
fn lengthen(state: &mut State, positions: usize) {
    let fed = state.positions();
    for layer in &mut state.layers {
        if let LayerState::Mla(cache) = layer {
            let rows = cache.rows.clone();
            let more = (rows.len() / fed) * positions.saturating_sub(fed);
            cache.rows.extend(rows.into_iter().cycle().take(more));
        }
    }
}

/// Bytes that came from the drive.
fn read(network: &Network) -> u64 {
    network.trunk_counters().bytes_read + network.expert_counters().bytes_read
}

fn last_token(network: &Network) -> Split {
    let reading = network.meters().read(Instant::now());
    reading.last_token.unwrap_or_default()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
