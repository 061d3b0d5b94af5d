//! Experts read from the shards each time they are asked for. It keeps nothing between requests.

use std::sync::Arc;

use super::{Error, ExpertCounters, ExpertWeights, Experts, Gate, Wanted};
use crate::checkpoint::names::ExpertPart;
use crate::checkpoint::{self, Checkpoint, ExpertAt};

/// How often an expert's read is tried before it counts as a drop.
const ATTEMPTS: usize = 3;
/// Experts in memory at once: a token's worth in the release.
const SLOTS: usize = 16;

/// The plain store: a few buffers that every request fills anew.
pub struct PlainExperts {
    checkpoint: Arc<Checkpoint>,
    layer: usize,
    wanted: Vec<Wanted>,
    /// How many of `wanted` were handed out.
    done: usize,
    slots: Vec<Vec<u8>>,
    gate: Option<Gate>,
    counters: ExpertCounters,
}

impl PlainExperts {
    /// A store over a checkpoint that has been checked.
    pub fn new(checkpoint: Arc<Checkpoint>) -> Self {
        Self {
            checkpoint,
            layer: 0,
            wanted: Vec::new(),
            done: 0,
            slots: Vec::new(),
            gate: None,
            counters: ExpertCounters::default(),
        }
    }

    /// Lets these reads go before what the gate's trunk reads ahead.
    pub fn first(mut self, gate: Option<Gate>) -> Self {
        self.gate = gate;
        self
    }
}

/// Reads an expert's six parts into `slot`, in canonical order.
fn read(
    checkpoint: &Checkpoint,
    layer: usize,
    expert: usize,
    slot: &mut [u8],
) -> Result<(), checkpoint::Error> {
    let place = checkpoint.expert(layer, expert)?;
    match place.at {
        ExpertAt::Run { offset } => checkpoint.read(place.shard, offset, slot),
        ExpertAt::Parts { offsets } => {
            for (part, offset) in ExpertPart::ALL.into_iter().zip(offsets) {
                let range = checkpoint.expert_layout().part(part).range();
                checkpoint.read(place.shard, offset, &mut slot[range])?;
            }
            Ok(())
        }
    }
}

impl Experts for PlainExperts {
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), Error> {
        self.layer = layer;
        self.wanted.clear();
        self.wanted.extend_from_slice(wanted);
        self.done = 0;
        let count = wanted.len() as u64;
        self.counters.requests += count;
        self.counters.bytes_requested += count * self.checkpoint.expert_layout().bytes();
        Ok(())
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, Error> {
        let first = self.done;
        let count = (self.wanted.len() - first).min(SLOTS);
        if count == 0 {
            return Ok(None);
        }
        let _first = self.gate.as_ref().map(Gate::enter);
        let bytes = self.checkpoint.expert_layout().bytes() as usize;
        if self.slots.len() < count {
            self.slots.resize_with(count, || vec![0; bytes]);
        }
        for (wanted, slot) in self.wanted[first..first + count]
            .iter()
            .zip(&mut self.slots)
        {
            let mut attempt = 1;
            while let Err(cause) = read(&self.checkpoint, self.layer, wanted.expert, slot) {
                if attempt == ATTEMPTS {
                    self.counters.drops += 1;
                    return Err(Error::Expert {
                        layer: self.layer,
                        expert: wanted.expert,
                        cause,
                    });
                }
                attempt += 1;
            }
            self.counters.bytes_read += bytes as u64;
        }
        self.done += count;
        let layout = self.checkpoint.expert_layout();
        let arrived = self.slots[..count].iter().enumerate();
        Ok(Some(
            arrived
                .map(|(i, slot)| (first + i, ExpertWeights::in_run(slot, layout)))
                .collect(),
        ))
    }

    fn counters(&self) -> ExpertCounters {
        self.counters
    }
}
