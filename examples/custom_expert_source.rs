//! Experts from a source of one's own, singly and in batches, compared with the library's store: another source changes
//! where bytes come from, never a bit of the result.
//!
//! `cargo run --release --example custom_expert_source [MODEL]`; without a MODEL it is the demo model.

use std::sync::Arc;

use anyhow::ensure;
use k3::checkpoint::names::ExpertPart;
use k3::checkpoint::{Checkpoint, ExpertAt, demo};
use k3::kernels::Isa;
use k3::model::{Blueprint, Compute, Network, Want};
use k3::stream::{
    self, ExpertCounters, ExpertWeights, Experts, StreamedTrunk, TrunkPlan, Wanted, open_shards,
};

fn main() -> anyhow::Result<()> {
    let unpacked = tempfile::tempdir()?;
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => folder.into(),
        None => demo::unpack(unpacked.path())?,
    };
    let config = k3::checkpoint::Config::load(&folder.join("config.json"))?;
    let layers = config.layers();
    let checkpoint = Checkpoint::open(&folder, config.clone())?;
    checkpoint.check(layers)?;
    let checkpoint = Arc::new(checkpoint);
    let compute = || Compute::new(1, Isa::detect());

    let mut results = Vec::new();
    results.push(logits(&mut Network::open(
        &checkpoint,
        layers,
        compute()?,
    )?)?);
    for batched in [false, true] {
        let blueprint = Blueprint::new(config.clone(), layers);
        let files = open_shards(&checkpoint)?;
        let plan = TrunkPlan::resident(&blueprint.walk);
        let trunk = StreamedTrunk::open(Arc::clone(&checkpoint), &blueprint.walk, &plan, files)?;
        let source = Source::new(Arc::clone(&checkpoint), batched);
        let mut network = Network::new(blueprint, Box::new(trunk), Box::new(source), compute()?)?;
        results.push(logits(&mut network)?);
        let counters = network.expert_counters();
        println!(
            "{}: {} experts asked for, {} MB read",
            if batched { "in batches" } else { "singly" },
            counters.requests,
            counters.bytes_read / 1_000_000
        );
    }
    ensure!(
        results.iter().all(|bits| *bits == results[0]),
        "a source of one's own changed the result"
    );
    println!("the same logits, bit for bit");
    Ok(())
}

/// The logits after a few ids, as bits.
fn logits(network: &mut Network) -> Result<Vec<u32>, k3::model::Error> {
    let mut state = network.new_state(16)?;
    let logits = network.prefill(&mut state, &[3, 1, 4, 1, 5, 9, 2, 6], 8, Want::Last)?;
    Ok(logits
        .values()
        .iter()
        .map(|value| value.to_bits())
        .collect())
}

/// Reads experts when they are asked for, and keeps none. A real one might ask another machine.
struct Source {
    checkpoint: Arc<Checkpoint>,
    /// Whether all experts of a request are read before the first is handed out.
    batched: bool,
    layer: usize,
    wanted: Vec<usize>,
    /// How many of them were handed out.
    given: usize,
    /// The bytes of those that are handed out now, one after the other.
    bytes: Vec<u8>,
    counters: ExpertCounters,
}

impl Source {
    fn new(checkpoint: Arc<Checkpoint>, batched: bool) -> Self {
        Self {
            checkpoint,
            batched,
            layer: 0,
            wanted: Vec::new(),
            given: 0,
            bytes: Vec::new(),
            counters: ExpertCounters::default(),
        }
    }

    /// Fills `bytes` with these experts, each as one run in canonical order.
    fn fetch(&mut self, experts: std::ops::Range<usize>) -> Result<(), k3::checkpoint::Error> {
        let layout = self.checkpoint.expert_layout();
        let size = layout.bytes() as usize;
        self.bytes.resize(experts.len() * size, 0);
        for (expert, run) in self.wanted[experts]
            .iter()
            .zip(self.bytes.chunks_exact_mut(size))
        {
            let place = self.checkpoint.expert(self.layer, *expert)?;
            match place.at {
                ExpertAt::Run { offset } => self.checkpoint.read(place.shard, offset, run)?,
                ExpertAt::Parts { offsets } => {
                    for (part, offset) in ExpertPart::ALL.into_iter().zip(offsets) {
                        let range = layout.part(part).range();
                        self.checkpoint.read(place.shard, offset, &mut run[range])?;
                    }
                }
            }
            self.counters.bytes_read += size as u64;
        }
        Ok(())
    }
}

impl Experts for Source {
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), stream::Error> {
        self.layer = layer;
        self.wanted = wanted.iter().map(|wanted| wanted.expert).collect();
        self.given = 0;
        self.counters.requests += wanted.len() as u64;
        self.counters.bytes_requested +=
            wanted.len() as u64 * self.checkpoint.expert_layout().bytes();
        Ok(())
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, stream::Error> {
        let count = match self.batched {
            true => self.wanted.len() - self.given,
            false => 1.min(self.wanted.len() - self.given),
        };
        if count == 0 {
            return Ok(None);
        }
        let (first, layer) = (self.given, self.layer);
        if let Err(error) = self.fetch(first..first + count) {
            self.counters.drops += 1;
            return Err(stream::Error::Expert {
                layer,
                expert: self.wanted[first],
                cause: Box::new(error.into()),
            });
        }
        self.given += count;
        let layout = self.checkpoint.expert_layout();
        let runs = self.bytes.chunks_exact(layout.bytes() as usize);
        let weights = runs.map(|bytes| ExpertWeights::in_run(bytes, layout));
        Ok(Some((first..).zip(weights).collect()))
    }

    fn counters(&self) -> ExpertCounters {
        self.counters
    }
}
