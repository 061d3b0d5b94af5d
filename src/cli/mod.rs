//! The commands of `k3`, one file a command. They check, call the library and report; nothing is computed here.

mod bench;
pub mod bench_decode;
mod bench_file;
pub mod bench_kernels;
mod budget;
mod byte_progress;
mod chat;
mod completions;
mod doctor;
mod download;
mod exit;
mod generation;
mod ids;
mod machine;
pub mod model;
mod open;
mod output;
mod pack;
mod plan;
mod plan_report;
mod presets;
mod provenance;
mod quote;
pub mod remote;
mod run;
mod sampling;
mod say;
mod screen;
pub mod sim_cache;
pub mod synth;
mod teacher;
mod tok;
mod verify;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};

pub use budget::BudgetArgs;
pub use chat::{LineArgs, run as chat_line_by_line};
pub use exit::Exit;
pub use sampling::SamplingArgs;
pub use say::line as say;
pub(crate) use say::say;
pub use screen::ScreenArgs;

/// Kimi K3 on this computer, without a screen.
#[derive(Parser)]
#[command(
    name = "k3",
    version,
    about,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure this machine
    Bench(bench::BenchArgs),
    /// Talk line by line
    Chat(Box<chat::LineArgs>),
    /// What a shell needs to complete commands and flags
    Completions(completions::CompletionsArgs),
    /// Write man pages
    Man(completions::ManArgs),
    /// Whether this machine can run the model, how fast, and what holds it back
    Doctor(doctor::DoctorArgs),
    /// Fetch the model by the hf client
    Download(download::DownloadArgs),
    /// Copy the trunk into one file, for another drive
    Pack(pack::PackArgs),
    /// What a run would take of this machine, before it runs
    Plan(plan::PlanArgs),
    /// What every preset would take of this machine
    Presets(presets::PresetsArgs),
    /// Continue a prompt
    Run(Box<run::RunArgs>),
    /// Replay expert requests against a cache
    SimCache(sim_cache::SimCacheArgs),
    /// Write a synthetic checkpoint in the released layout
    Synth(synth::SynthArgs),
    /// Text to ids, ids to text, a history to a prompt, logits to draws
    Tok(tok::TokArgs),
    /// Whether a model's files are what they should be
    Verify(verify::VerifyArgs),
}

/// The commands as clap knows them, for whoever documents or checks them.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments name (the program's own name first) and gives the exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    if let Some(hint) = c_engine_hint(&arguments) {
        say!("k3: {hint}");
        return Exit::REFUSED;
    }
    let parsed = match Arguments::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            return refused(&error);
        }
    };
    let done = match parsed.command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Chat(arguments) => chat::run(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => completions::man(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Download(arguments) => download::run(&arguments),
        Command::Pack(arguments) => pack::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Presets(arguments) => presets::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::SimCache(arguments) => sim_cache::run(&arguments),
        Command::Synth(arguments) => synth::run(&arguments),
        Command::Tok(arguments) => tok::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            say!("k3: {error:#}");
            Exit::code(&error)
        }
    }
}

/// Says what clap has to say, and gives the exit code: help and version go to standard output and are no errors.
pub fn refused(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        // Whoever reads no more has read enough.
        let _ = error.print();
        return 0;
    }
    say!("{}", error.render().to_string().trim_end());
    Exit::REFUSED
}

/// What to type instead of a spelling of the C engine.
fn c_engine_hint(arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .filter_map(|a| a.to_str())
        .collect();
    let first = *words.first()?;
    let command = command();
    let is_command = command.get_subcommands().any(|c| c.get_name() == first);
    for (flag, instead) in [
        ("--list-presets", "presets are listed by `k3 presets`"),
        (
            "--ultra-low-memory",
            "the smallest plan is `--preset ultra`, as in `k3 chat MODEL --preset ultra`",
        ),
        (
            "--dump-cache-trace",
            "expert requests are written by `k3 run --trace FILE`",
        ),
    ] {
        let given = |word: &&str| word.split('=').next() == Some(flag);
        if words.iter().any(given) {
            return Some(format!("there is no {flag} here: {instead}"));
        }
    }
    if is_command {
        return None;
    }
    if first == "--chat" {
        let model = words
            .get(1)
            .map_or(String::new(), |model| format!(" {model}"));
        return Some(format!("there is no --chat here; type `k3 chat{model}`"));
    }
    if first.starts_with('-') {
        return None;
    }
    let instead = match words.contains(&"--chat") {
        true => format!("k3 chat {first}"),
        false => format!("k3 run {first} --ids 1,2,3"),
    };
    Some(format!(
        "there is no command `{first}`; to use a model folder, type `{instead}` (`k3 --help` lists the commands)"
    ))
}
