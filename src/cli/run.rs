//! `k3 run`: continues a prompt, greedily, and reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::generation::{Generation, Request};
use super::output::Output;
use super::{Exit, ids, machine, open};
use crate::kernels::Isa;
use crate::model::{Compute, Network};

/// Arguments of `k3 run`.
#[derive(Args)]
pub struct RunArgs {
    /// Checkpoint folder in the released layout
    model: PathBuf,
    /// The prompt as token ids, separated by commas or blanks
    #[arg(long, value_name = "1,2,3")]
    ids: String,
    /// Tokens to generate; exactly so many unless a stop id comes
    #[arg(long, value_name = "N", default_value_t = 8)]
    r#gen: usize,
    /// Stop after this id (up to 8 times)
    #[arg(long, value_name = "ID")]
    stop_id: Vec<String>,
    /// Threads to compute with (default: all cores)
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Run only the first N layers
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Carry no state: compute everything again for every token (for tests)
    #[arg(long)]
    recompute: bool,
    /// Accepted for scripts of the C engine; carrying the state is the only way here
    #[arg(long, hide = true, conflicts_with = "recompute")]
    incremental: bool,
    /// Write the result as one JSON object; `-` is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the logits of the last prompt position (f32, little-endian)
    #[arg(long, value_name = "FILE")]
    dump_logits: Option<PathBuf>,
    /// Write the logits of every prompt position (f32, little-endian)
    #[arg(long, value_name = "FILE")]
    dump_all_logits: Option<PathBuf>,
    /// Write nothing to standard output while generating
    #[arg(long)]
    no_stream_text: bool,
    /// The model's configuration (default: config.json in MODEL)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// At most this many stop ids.
const STOP_IDS: usize = 8;
/// Where the config names no longest context, none longer than the release's is planned.
const LONGEST_CONTEXT: usize = 1 << 20;

/// Runs the command.
///
/// # Errors
/// Refusals before anything is loaded; reading or computing fails; a result cannot be written.
pub fn run(arguments: &RunArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let config = open::config(&arguments.model, arguments.config.as_ref())?;
    let vocab = config.vocab;
    let prompt = ids::parse_list(&arguments.ids, vocab)?;
    if prompt.is_empty() {
        return Err(
            Exit::Refused("--ids is empty: a prompt needs at least one token id".into()).into(),
        );
    }
    if arguments.stop_id.len() > STOP_IDS {
        return Err(Exit::Refused(format!("more than {STOP_IDS} stop ids")).into());
    }
    let stop_ids = arguments
        .stop_id
        .iter()
        .map(|id| ids::parse(id, vocab))
        .collect::<Result<Vec<_>, _>>()?;
    let layers = arguments.layers.unwrap_or(config.layers());
    if !(1..=config.layers()).contains(&layers) {
        return Err(Exit::Refused(format!(
            "--layers {layers}: the model has 1 to {}",
            config.layers()
        ))
        .into());
    }
    let threads = arguments.threads.unwrap_or_else(machine::default_threads);
    if threads == 0 {
        return Err(Exit::Refused("--threads 0: at least one is needed".into()).into());
    }
    let longest = config.max_positions.unwrap_or(LONGEST_CONTEXT);
    let context = prompt.len().saturating_add(arguments.r#gen);
    if context > longest {
        let message = format!(
            "{} prompt ids and --gen {} make {context} positions, the model has {longest}",
            prompt.len(),
            arguments.r#gen
        );
        return Err(Exit::Refused(message).into());
    }
    let out = arguments.out.as_ref().map(Output::open).transpose()?;
    let dump_last = arguments
        .dump_logits
        .as_ref()
        .map(Output::open)
        .transpose()?;
    let dump_all = arguments
        .dump_all_logits
        .as_ref()
        .map(Output::open)
        .transpose()?;

    let checkpoint = open::checkpoint(&arguments.model, config, layers)?;
    if layers < checkpoint.config().layers() {
        eprintln!(
            "k3: only the first {layers} of {} layers run",
            checkpoint.config().layers()
        );
    }
    let compute = Compute::new(threads, Isa::detect())?;
    let loading = Instant::now();
    let network = Network::open(&checkpoint, layers, compute)?;
    let seconds_loading = loading.elapsed().as_secs_f64();

    let interrupted = Arc::new(AtomicBool::new(false));
    // The first signal stops at the next layer; a second one ends the program at once.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }

    let mut generation = Generation::new(network, prompt, context, interrupted)?;
    let ended = generation.go(Request {
        count: arguments.r#gen,
        stop_ids,
        recompute: arguments.recompute,
        // Standard output belongs to the JSON object if that goes there.
        stream: !arguments.no_stream_text && !out.as_ref().is_some_and(Output::is_standard_output),
        dump_last,
        dump_all,
    });
    generation.summary();
    if let Some(out) = out {
        let (trunk, experts) = (generation.trunk_counters(), generation.expert_counters());
        let value = json!({
            "prompt_ids": generation.prompt(),
            "generated_ids": generation.generated(),
            "full_ids": generation.full(),
            "generated_text": Value::Null,
            "stopped_at": generation.stopped_at(),
            "layers": layers,
            "expert_drops": experts.drops,
            "seconds_prefill": generation.seconds_prefill(),
            "seconds_per_token": generation.seconds_per_token(),
            "wall_seconds": started.elapsed().as_secs_f64(),
            "peak_rss_bytes": machine::peak_rss_bytes(),
            "threads": threads,
            "plan": {
                "context": context,
                "trunk_pinned_bytes": trunk.bytes_pinned,
                "kv_bytes_per_position": generation.kv_bytes_per_position(),
            },
            "trunk_bytes_read": trunk.bytes_read,
            "trunk_bytes_pinned": trunk.bytes_pinned,
            "trunk_gb_per_s": trunk.bytes_read as f64 / 1e9 / seconds_loading.max(1e-9),
            "ring_slots": 0,
            "expert_requests": experts.requests,
            "expert_bytes_requested": experts.bytes_requested,
            "expert_bytes_read": experts.bytes_read,
            "lm_head_bytes_read": trunk.head_bytes_read,
            "embedding_bytes_read": trunk.embedding_bytes_read,
        });
        let mut out = out;
        out.write(format!("{value:#}\n").as_bytes())?;
        out.finish()?;
    }
    ended
}
