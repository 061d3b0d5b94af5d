//! The model that is measured: one that was named, or a synthetic one that lives as long as the measuring.

use std::sync::Arc;

use tempfile::TempDir;

use super::DecodeArgs;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::synth::{self, SynthOptions};
use crate::cli::bench_file::SMALLEST;
use crate::cli::exit::Exit;
use crate::cli::open;
use crate::kernels::Isa;
use crate::model::{Blueprint, Compute, Network};
use crate::stream::{DirectFile, Machine, Preset, Request, Shape, TrunkPlan, plan};
use crate::system;

/// A model to measure.
pub(super) struct Subject {
    pub name: String,
    pub shape: Shape,
    pub threads: usize,
    checkpoint: Arc<Checkpoint>,
    /// Where a synthetic model stands until the end.
    _made: Option<TempDir>,
}

impl Subject {
    /// Opens the model, or makes it.
    ///
    /// # Errors
    /// [`Exit::Refused`] where there is no room for it; the model cannot be read.
    pub fn open(args: &DecodeArgs) -> anyhow::Result<Self> {
        let (path, name, made) = match &args.model {
            Some(path) => (path.clone(), path.display().to_string(), None),
            None => {
                let size = args.size;
                let dir = tempfile::tempdir()?;
                if let Some(free) = system::free(dir.path()).filter(|free| *free < size.bytes()) {
                    return Err(Exit::Refused(format!(
                        "{}: the model takes {:.1} GB and {:.1} GB are free; set TMPDIR to a folder with more room",
                        std::env::temp_dir().display(),
                        size.bytes() as f64 / 1e9,
                        free as f64 / 1e9
                    ))
                    .into());
                }
                synth::write(
                    dir.path(),
                    size.config().as_bytes(),
                    SynthOptions::default(),
                )?;
                (dir.path().to_owned(), size.name().to_owned(), Some(dir))
            }
        };
        let config = open::config(&path, None)?;
        let layers = config.layers();
        let checkpoint = open::checkpoint(&path, config, layers)?;
        let largest = largest(&checkpoint);
        if checkpoint.shard_len(largest) < SMALLEST {
            return Err(Exit::Refused(format!(
                "{}: its largest file holds {} bytes, too few to measure a drive with; leave the model out to measure a \
                 synthetic one",
                path.display(),
                checkpoint.shard_len(largest)
            ))
            .into());
        }
        let shape = Blueprint::new(checkpoint.config().clone(), layers).shape();
        let threads = match args.threads {
            Some(threads) => threads.into(),
            None => std::thread::available_parallelism()?.get(),
        };
        Ok(Self {
            name,
            shape,
            threads,
            checkpoint,
            _made: made,
        })
    }

    /// Bytes of experts that a token goes through.
    pub fn expert_bytes(&self) -> u64 {
        self.shape.experts_per_token() * self.shape.expert
    }

    /// Bytes of weights that a token goes through.
    pub fn token_bytes(&self) -> u64 {
        self.shape.walk() + self.expert_bytes()
    }

    /// The model with all weights in memory.
    ///
    /// # Errors
    /// [`Exit::Refused`] where memory does not hold it.
    pub fn resident(&self) -> anyhow::Result<Network> {
        let need = self.shape.walk() + self.shape.store(self.shape.experts);
        let available = Machine::detect()?.available();
        if let Some((available, _)) = available.filter(|(bytes, _)| *bytes < need + need / 8) {
            return Err(Exit::Refused(format!(
                "all weights take {:.1} GB, and {:.1} GB of memory are available; --streamed-only leaves them on the drive",
                need as f64 / 1e9,
                available as f64 / 1e9
            ))
            .into());
        }
        self.network(u64::MAX, u64::MAX)
    }

    /// The model with a part of the trunk in memory, and as few experts as can be.
    ///
    /// # Errors
    /// It cannot be read, or memory does not hold so much.
    pub fn streamed(&self, trunk: Option<u64>) -> anyhow::Result<Network> {
        self.network(trunk.unwrap_or(self.shape.walk() / 100 * 26), 0)
    }

    /// The largest file, to measure the drive with.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn drive(&self) -> anyhow::Result<DirectFile> {
        let path = self.checkpoint.shard_path(largest(&self.checkpoint));
        Ok(DirectFile::open(path)?)
    }

    fn network(&self, trunk: u64, cache: u64) -> anyhow::Result<Network> {
        let blueprint = Blueprint::new(self.checkpoint.config().clone(), usize::MAX);
        let request = Request {
            preset: Preset::Ultra,
            trunk: Some(trunk),
            cache: Some(cache),
            ring: None,
            context: super::measured::PROMPT,
            threads: self.threads,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        };
        let plan = plan(&blueprint.shape(), &request, &Machine::default())?;
        let trunk = TrunkPlan::of(&plan, &blueprint.walk);
        let compute = Compute::new(self.threads, Isa::detect())?;
        let slots = plan.expert_slots;
        let mut network = Network::planned(&self.checkpoint, blueprint, &trunk, slots, compute)?;
        network.plan_chunk(plan.chunk);
        Ok(network)
    }
}

/// The shard with most bytes.
fn largest(checkpoint: &Checkpoint) -> u16 {
    let shards = 0..checkpoint.shard_count();
    shards
        .max_by_key(|shard| checkpoint.shard_len(*shard))
        .unwrap_or(0)
}
