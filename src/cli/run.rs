//! `k3 run`: continues a prompt and reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::budget::BudgetArgs;
use super::generation::{Generation, Request};
use super::model::{self, Folder};
use super::output::Output;
use super::plan_report::{self, RateArgs};
use super::teacher::Teacher;
use super::{Exit, SamplingArgs, ids, machine, open, say};
use crate::chat::generate::Choosing;
use crate::chat::{Sampler, Words};
use crate::checkpoint::{Checkpoint, Config};
use crate::kernels::Isa;
use crate::model::{
    Blueprint, Compute, ModelKey, Network, PREFILL_CHUNK, SavedState, State, StateWriter,
};
use crate::stream::trace::TraceWriter;
use crate::stream::{Files, Plan, TrunkPlan};
use crate::text::Names;

/// Arguments of `k3 run`.
#[derive(Args)]
pub struct RunArgs {
    /// Checkpoint folder in the released layout (default: the demo model inside the program)
    model: Option<PathBuf>,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Folder of tiktoken.model and tokenizer_config.json (default: MODEL)
    #[arg(long, value_name = "DIR")]
    tok: Option<PathBuf>,
    /// Tokens to generate; exactly so many unless a stop id comes (default: 8, and 0 with --tf-check)
    #[arg(long, value_name = "N")]
    r#gen: Option<usize>,
    /// Stop after this id (up to 8 times)
    #[arg(long, value_name = "ID")]
    stop_id: Vec<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Run only the first N layers
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Carry no state: compute everything again for every token (for tests)
    #[arg(long)]
    recompute: bool,
    /// Accepted for scripts of the C engine; carrying the state is the only way here
    #[arg(long, hide = true, conflicts_with = "recompute")]
    incremental: bool,
    /// Write what the model carries to this file in the end, so that another run goes on from there
    #[arg(long, value_name = "FILE", conflicts_with = "recompute")]
    save_state: Option<PathBuf>,
    /// Go on from a saved state: its ids come first, the prompt is appended
    #[arg(long, value_name = "FILE", conflicts_with = "recompute")]
    load_state: Option<PathBuf>,
    /// Guess up to N tokens ahead and verify them in one pass (0 to 8); what comes out is the same
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = ids::guesses, allow_negative_numbers = true, conflicts_with = "recompute")]
    spec: usize,
    /// Compare the most probable token after each position of the prompt with the prompt's next
    #[arg(long, conflicts_with = "load_state")]
    tf_check: bool,
    /// Write the result as one JSON object; `-` is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the logits of the last prompt position (f32, little-endian)
    #[arg(long, value_name = "FILE")]
    dump_logits: Option<PathBuf>,
    /// Write the logits of every prompt position (f32, little-endian)
    #[arg(long, value_name = "FILE")]
    dump_all_logits: Option<PathBuf>,
    /// Write the experts that each token chose, the file that `k3 sim-cache` reads
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write nothing to standard output while generating
    #[arg(long)]
    no_stream_text: bool,
    /// The model's configuration (default: config.json in MODEL)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What to continue; one of the three, or a loaded state alone.
#[derive(Args)]
#[group(multiple = false)]
struct PromptArgs {
    /// The prompt as text, taken as it is
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The prompt as a text file, taken as it is
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// The prompt as token ids, separated by commas or blanks
    #[arg(long, value_name = "1,2,3")]
    ids: Option<String>,
}

/// Where the config names no longest context, none longer than the release's is planned.
const LONGEST_CONTEXT: usize = 1 << 20;

/// Everything that was refused or accepted before a weight is read.
struct Checked {
    checkpoint: Arc<Checkpoint>,
    files: Files,
    /// Where the prompt is text.
    words: Option<Words>,
    /// Of a loaded state, and then of the prompt.
    ids: Vec<u32>,
    state: State,
    key: ModelKey,
    count: usize,
    stop_ids: Vec<u32>,
    layers: usize,
    blueprint: Blueprint,
    plan: Plan,
    trace: Option<TraceWriter>,
    out: Option<Output>,
    dump_last: Option<Output>,
    dump_all: Option<Output>,
    save: Option<StateWriter>,
}

/// Runs the command.
///
/// # Errors
/// Refusals before anything is loaded; reading or computing fails; a result cannot be written.
pub fn run(arguments: &RunArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let checked = check(arguments)?;
    let sampler = Sampler::new(arguments.sampling.sampling(), 1);
    let Checked {
        checkpoint,
        layers,
        plan,
        ..
    } = checked;
    if layers < checkpoint.config().layers() {
        say!(
            "k3: only the first {layers} of {} layers run",
            checkpoint.config().layers()
        );
    }
    let shape = checked.blueprint.shape();
    let trunk = TrunkPlan::of(&plan, &checked.blueprint.walk);
    let compute = Compute::new(plan.threads, Isa::detect())?;
    let mut network = Network::over_files(
        &checkpoint,
        checked.files,
        checked.blueprint,
        &trunk,
        plan.expert_slots,
        compute,
    )?;
    network.plan_chunk(plan.chunk);
    if let Some(trace) = checked.trace {
        network.record(trace);
    }
    let seconds_load = started.elapsed().as_secs_f64();
    let request = Request {
        words: checked.words,
        interrupted: interrupt()?,
        count: checked.count,
        choosing: Choosing {
            sampler,
            guesses: arguments.spec,
        },
        stop_ids: checked.stop_ids,
        recompute: arguments.recompute,
        // Standard output belongs to the JSON object if that goes there.
        stream: !arguments.no_stream_text
            && !checked.out.as_ref().is_some_and(Output::is_standard_output),
        dump_last: checked.dump_last,
        dump_all: checked.dump_all,
        teacher: arguments.tf_check.then(Teacher::default),
        whole: checked.save.is_some(),
    };
    let mut generation = Generation::new(network, checked.state, checked.ids, request);
    let mut ended = generation.go();
    generation.summary();
    if let Some(writer) = checked.save {
        match generation.save(&checked.key, writer) {
            Ok(bytes) => say!("k3: state saved, {:.3} GB", bytes as f64 / 1e9),
            // What went wrong first says more.
            Err(error) if ended.as_ref().is_err_and(failed) => say!("k3: {error}"),
            Err(error) => ended = Err(error.into()),
        }
    }
    if let Some(mut out) = checked.out {
        let (trunk, experts) = (generation.trunk_counters(), generation.expert_counters());
        // What was read while it computed; pins were loaded before.
        let streamed = trunk.bytes_read - trunk.bytes_pinned;
        let meters = generation.meters();
        let (waited, computed) = (
            meters.waits.total().as_secs_f64(),
            meters.computed.as_secs_f64(),
        );
        let wall = started.elapsed().as_secs_f64();
        let mut value = json!({
            "prompt_ids": generation.prompt(),
            "generated_ids": generation.generated(),
            "full_ids": generation.full(),
            "generated_text": generation.text().map_or(Value::Null, Value::from),
            "stopped_at": generation.stopped_at(),
            "layers": layers,
            "passes": generation.passes(),
            "expert_drops": experts.drops,
            "seconds_prefill": generation.seconds_prefill(),
            "seconds_per_token": generation.seconds_per_token(),
            "wall_seconds": wall,
            "seconds_load": seconds_load,
            "seconds_wait_trunk": meters.waits.trunk.as_secs_f64(),
            "seconds_wait_experts": meters.waits.experts.as_secs_f64(),
            "seconds_disk_wait": waited,
            "seconds_compute": computed,
            "seconds_compute_trunk": meters.kernels.trunk.as_secs_f64(),
            "seconds_compute_experts": meters.kernels.experts.as_secs_f64(),
            "seconds_compute_attention": meters.kernels.attention.as_secs_f64(),
            "seconds_other": (wall - seconds_load - waited - computed).max(0.0),
            "peak_rss_bytes": machine::peak_rss_bytes(),
            "threads": plan.threads,
            "plan": plan_report::json(&plan, &shape, RateArgs::default()),
            "trunk_bytes_read": trunk.bytes_read,
            "trunk_bytes_pinned": trunk.bytes_pinned,
            "trunk_gb_per_s": streamed as f64 / 1e9 / generation.seconds().max(1e-9),
            "ring_slots": plan.ring_slots,
            "expert_requests": experts.requests,
            "expert_bytes_requested": experts.bytes_requested,
            "expert_bytes_read": experts.bytes_read,
            "lm_head_bytes_read": trunk.head_bytes_read,
            "embedding_bytes_read": trunk.embedding_bytes_read,
        });
        if let Some(teacher) = generation.teacher() {
            value["tf_positions"] = teacher.positions().into();
            value["tf_matches"] = teacher.matches().into();
            value["tf_agreement"] = teacher.agreement().into();
        }
        out.write(format!("{value:#}\n").as_bytes())?;
        out.finish()?;
    }
    ended
}

/// Whether a run that ended so did not end at a safe point.
fn failed(error: &anyhow::Error) -> bool {
    !matches!(error.downcast_ref(), Some(Exit::Interrupted))
}

/// Set by the first SIGINT or SIGTERM, which stop the run at the next layer; a second one ends the program at once.
pub(super) fn interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    crate::system::flag_at_interrupt(&interrupted)?;
    Ok(interrupted)
}

fn check(arguments: &RunArgs) -> anyhow::Result<Checked> {
    let Folder { path: folder, .. } = model::folder(arguments.model.as_deref())?;
    let config = open::config(&folder, arguments.config.as_ref())?;
    let layers = arguments.layers.unwrap_or(config.layers());
    if !(1..=config.layers()).contains(&layers) {
        return Err(Exit::Refused(format!(
            "--layers {layers}: the model has 1 to {}",
            config.layers()
        ))
        .into());
    }
    let stop_ids = ids::stops(&arguments.stop_id, config.vocab)?;
    let (words, prompt) = prompt(arguments, &folder, &config)?;
    let tf_check = arguments.tf_check;
    let saved = arguments.load_state.as_deref();
    let saved = saved.map(SavedState::open).transpose()?;
    let positions = saved.as_ref().map_or(0, SavedState::positions);
    let mut ids = saved
        .as_ref()
        .map_or(Vec::new(), |saved| saved.ids().to_vec());
    ids.extend(prompt);
    if ids.len() <= positions {
        let message = match &saved {
            None => "the prompt is empty: at least one token is needed".to_owned(),
            Some(saved) => format!(
                "{}: everything in it was fed: give at least one token to go on with, as --prompt or --ids",
                saved.path().display()
            ),
        };
        return Err(Exit::Refused(message).into());
    }
    if tf_check && ids.len() < 2 {
        return Err(Exit::Refused("--tf-check needs a prompt of two tokens or more".into()).into());
    }
    let count = arguments.r#gen.unwrap_or(if tf_check { 0 } else { 8 });
    let needed = ids.len().saturating_add(count);
    let longest = config.max_positions.unwrap_or(LONGEST_CONTEXT);
    let mut request = arguments.budget.request(&config, needed)?;
    if needed > longest || needed > request.context {
        let more = match needed > longest {
            true => String::new(),
            false => format!("; ask for more with --context {needed}"),
        };
        let message = format!(
            "{} ids and --gen {count} make {needed} positions, there are {}{more}",
            ids.len(),
            request.context.min(longest)
        );
        return Err(Exit::Refused(message).into());
    }
    if arguments.dump_all_logits.is_some() || tf_check {
        request.logits = (ids.len() - positions).min(PREFILL_CHUNK);
    }
    request.guesses = arguments.spec;
    let output = |path: &Option<PathBuf>| path.as_ref().map(Output::open).transpose();
    let (out, dump_last, dump_all) = (
        output(&arguments.out)?,
        output(&arguments.dump_logits)?,
        output(&arguments.dump_all_logits)?,
    );
    let trace = arguments
        .trace
        .as_deref()
        .map(TraceWriter::create)
        .transpose()?;
    let save = arguments.save_state.as_deref();
    let save = save.map(StateWriter::create).transpose()?;
    let checkpoint = open::checkpoint(&folder, config, layers)?;
    let key = ModelKey::new(checkpoint.identity(), checkpoint.config(), layers);
    if let Some(saved) = &saved {
        saved.check(&key, request.context)?;
    }
    let files = crate::stream::open_weights(&checkpoint, arguments.budget.trunk.as_deref())?;
    let blueprint = Blueprint::new(checkpoint.config().clone(), layers);
    let plan = model::planned(&blueprint, &request)?;
    let mut state = State::new(checkpoint.config(), layers, plan.context)?;
    if let Some(saved) = saved {
        (state, _) = saved.load(&key, state)?;
    }
    Ok(Checked {
        checkpoint,
        files,
        words,
        ids,
        state,
        key,
        count,
        stop_ids,
        layers,
        blueprint,
        plan,
        trace,
        out,
        dump_last,
        dump_all,
        save,
    })
}

/// The prompt's ids, and the tokenizer if it was text.
fn prompt(
    arguments: &RunArgs,
    folder: &std::path::Path,
    config: &Config,
) -> anyhow::Result<(Option<Words>, Vec<u32>)> {
    let PromptArgs {
        prompt,
        prompt_file,
        ids,
    } = &arguments.prompt;
    let text = match (prompt, prompt_file, ids) {
        (_, _, Some(ids)) => return Ok((None, ids::parse_list(ids, config.vocab)?)),
        (Some(text), ..) => text.clone(),
        (_, Some(file), _) => std::fs::read_to_string(file).map_err(|e| {
            Exit::Refused(format!("{}: cannot be read as text: {e}", file.display()))
        })?,
        (None, None, None) if arguments.load_state.is_some() => {
            let words = arguments.tok.as_deref();
            let words = words.map(|folder| model::words(folder, config.vocab));
            return Ok((words.transpose()?, Vec::new()));
        }
        (None, None, None) => {
            let message = "name what to continue: --prompt TEXT, --prompt-file FILE or --ids 1,2,3";
            return Err(Exit::Refused(message.into()).into());
        }
    };
    let words = model::words(arguments.tok.as_deref().unwrap_or(folder), config.vocab)
        .context("a text prompt needs a tokenizer")?;
    let ids = words.tokenizer.encode(&text, Names::AsText);
    Ok((Some(words), ids))
}
