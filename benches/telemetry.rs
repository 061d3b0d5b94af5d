//! What being watched costs: seconds a token of the demo model, streamed, while nobody reads the telemetry, while a reader
//! looks 4 times a second as the screen does, and 100 times. The three are taken in turns, so that other work on the
//! machine meets all of them. It compares no tokens.
//!
//! `cargo bench --bench telemetry`; figures in `benches/README.md`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use crossbeam_channel::{RecvTimeoutError, bounded};
use k3::checkpoint::{Checkpoint, Config, demo};
use k3::engine::{Activity, TelemetryCell};
use k3::kernels::Isa;
use k3::model::{Blueprint, Compute, Network, Want};
use k3::stream::{Machine, Preset, Request, TrunkPlan, plan};

/// Tokens of one measurement.
const TOKENS: usize = 40;
const ROUNDS: usize = 9;
/// Looks a second; none means nobody reads.
const LOOKS: [Option<u32>; 3] = [None, Some(4), Some(100)];

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let model = demo::unpack(folder.path())?;
    let config = Config::load(&model.join("config.json"))?;
    let checkpoint = Arc::new(Checkpoint::open(&model, config)?);
    let blueprint = Blueprint::new(checkpoint.config().clone(), usize::MAX);
    let threads = std::thread::available_parallelism()?.get();
    // The smallest plan: everything goes through the ring, so everything is counted.
    let request = Request {
        preset: Preset::Ultra,
        trunk: Some(0),
        cache: Some(0),
        ring: None,
        context: TOKENS + 8,
        threads,
        kept_states: 0,
        logits: 1,
        guesses: 0,
    };
    let plan = plan(&blueprint.shape(), &request, &Machine::default())?;
    let trunk = TrunkPlan::of(&plan, &blueprint.walk);
    let compute = Compute::new(threads, Isa::detect())?;
    let mut network = Network::planned(&checkpoint, blueprint, &trunk, plan.expert_slots, compute)?;

    let mut seconds = LOOKS.map(|_| Vec::new());
    decode(&mut network, None)?;
    for _ in 0..ROUNDS {
        for (seconds, looks) in seconds.iter_mut().zip(LOOKS) {
            seconds.push(decode(&mut network, looks)?);
        }
    }
    let plain = seconds[0].clone();
    println!(
        "{:>12} {:>12} {:>16}",
        "looks a s", "ms a token", "ratio, median"
    );
    for (seconds, looks) in seconds.into_iter().zip(LOOKS) {
        let ratios = seconds
            .iter()
            .zip(&plain)
            .map(|(watched, plain)| watched / plain);
        println!(
            "{:>12} {:>12.3} {:>16.4}",
            looks.unwrap_or(0),
            median(seconds.clone()) * 1e3,
            median(ratios.collect())
        );
    }
    Ok(())
}

/// Seconds a token, with or without somebody who looks.
fn decode(network: &mut Network, looks: Option<u32>) -> Result<f64> {
    let cell = TelemetryCell::default();
    cell.watch(network.meters());
    cell.set(|t| t.activity = Activity::Decode);
    let (stop, stopped) = bounded::<()>(0);
    std::thread::scope(|scope| {
        if let Some(looks) = looks {
            let mut reader = cell.reader();
            scope.spawn(move || {
                let between = Duration::from_secs(1) / looks;
                while stopped.recv_timeout(between) == Err(RecvTimeoutError::Timeout) {
                    std::hint::black_box(reader.read(Instant::now()));
                }
            });
        }
        let seconds = tokens(network);
        drop(stop);
        seconds
    })
}

fn tokens(network: &mut Network) -> Result<f64> {
    let mut state = network.new_state(TOKENS + 8)?;
    network.expect_more(true);
    network.feed(&mut state, &[1, 2, 3, 4, 5], Want::Last)?;
    let start = Instant::now();
    for token in 0..TOKENS {
        network.expect_more(token + 1 < TOKENS);
        network.feed(&mut state, &[7], Want::Last)?;
    }
    Ok(start.elapsed().as_secs_f64() / TOKENS as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
