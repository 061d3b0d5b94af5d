//! The screen on the demo model, whose experts fail with a panic once they were asked for so often: for seeing, in a real
//! terminal, what a fault of the program itself leaves behind. Shows nothing else.
//!
//! `cargo run --example failing_engine HISTORY REQUESTS`

#![allow(clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use k3::chat::{Opening, Session, Store, Words};
use k3::checkpoint::{Checkpoint, Config, demo};
use k3::engine::{self, ModelFacts};
use k3::kernels::Isa;
use k3::model::{Blueprint, Compute, Network};
use k3::stream::{
    Error, ExpertCounters, ExpertStore, ExpertWeights, Experts, Preset, Request, StreamedTrunk,
    TrunkPlan, Wanted, open_shards,
};
use k3::text::Tokenizer;
use k3::tui;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failing_engine: {error:#}");
            k3::cli::Exit::code(&error).into()
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let history = arguments.next().context("name a HISTORY")?;
    let left = arguments.next().context("say after how many REQUESTS")?;
    let left = left.to_string_lossy().parse()?;
    let unpacked = tempfile::tempdir()?;
    let folder = demo::unpack(unpacked.path())?;
    let engine = engine::start(move || open(&folder, Path::new(&history), left))?;
    tui::run(engine, tui::Options::from_environment())
}

fn open(folder: &Path, history: &Path, left: usize) -> anyhow::Result<(ModelFacts, Session)> {
    let config = Config::load(&folder.join("config.json"))?;
    let (layers, vocab) = (config.layers(), config.vocab);
    let blueprint = Blueprint::new(config.clone(), layers);
    let checkpoint = Arc::new(Checkpoint::open(folder, config)?);
    let files = || open_shards(&checkpoint);
    let plan = TrunkPlan::resident(&blueprint.walk);
    let trunk = StreamedTrunk::open(Arc::clone(&checkpoint), &blueprint.walk, &plan, files()?)?;
    let experts = Failing {
        store: ExpertStore::new(Arc::clone(&checkpoint), files()?, 64, None)?,
        left,
    };
    let compute = Compute::new(1, Isa::detect())?;
    let network = Network::new(blueprint, Box::new(trunk), Box::new(experts), compute)?;
    let words = Words::new(Tokenizer::load(folder)?, vocab)?;
    let request = Request::of(Preset::Auto, 2048);
    let facts = ModelFacts {
        name: "demo model".into(),
        demo: true,
        layers,
        context: request.context,
        server: None,
    };
    let opening = Opening {
        history: Some(Store::open(history)?),
        ..Opening::default()
    };
    Ok((facts, Session::open(network, words, request, opening)?))
}

/// Experts that are there, until they are not.
struct Failing {
    store: ExpertStore,
    left: usize,
}

impl Experts for Failing {
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), Error> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => panic!("planted in the experts of layer {layer}"),
        }
        self.store.request(layer, wanted)
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, Error> {
        self.store.arrived()
    }

    fn counters(&self) -> ExpertCounters {
        self.store.counters()
    }
}
