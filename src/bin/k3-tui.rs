//! `k3-tui`: the full-screen chat. Arguments and settings, then the engine's thread, then the screen.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use k3::chat::Shelf;
use k3::cli::model::ChatArgs;
use k3::cli::{Exit, LineArgs, chat_line_by_line, refused, say};
use k3::tui::Settings;
use k3::{engine, tui};

/// Chat with Kimi K3 in the terminal, the model streamed from disk.
#[derive(Parser)]
#[command(name = "k3-tui", version, about)]
struct Arguments {
    #[command(flatten)]
    chat: ChatArgs,
    /// Settings file (default: settings.toml in the platform's config folder)
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Line by line, without a full screen: for screen readers
    #[arg(long)]
    plain: bool,
}

fn main() -> ExitCode {
    let parsed = Arguments::command()
        .try_get_matches()
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return ExitCode::from(refused(&error)),
    };
    match chat(arguments, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("k3-tui: {error:#}"));
            ExitCode::from(Exit::code(&error))
        }
    }
}

fn chat(arguments: Arguments, matches: &ArgMatches) -> anyhow::Result<()> {
    let settings = Settings::load(arguments.settings.as_deref())?;
    let mut chat = arguments.chat;
    set(&mut chat, &settings, matches);
    let folders = directories::ProjectDirs::from("", "", "k3-tui");
    let data = folders.as_ref().map(directories::ProjectDirs::data_dir);
    let shelf = settings.keep.then(|| shelf(data)).flatten();
    if chat.history.is_none() {
        chat.history = shelf.as_ref().map(Shelf::new_path);
    }
    let history = chat.history.clone();
    let ended = match arguments.plain || settings.plain {
        true => chat_line_by_line(&LineArgs::from(chat)),
        false => {
            let options = tui::Options {
                theme: settings.theme.unwrap_or_default(),
                raw: settings.raw,
                think: settings.think,
                telemetry: settings.telemetry,
                still: settings.reduced_motion,
                ascii: settings.ascii,
                bell: settings.bell,
                titles: settings.titles,
                shelf: shelf.clone(),
                copies: data.map(Path::to_owned),
                settings: arguments.settings.or_else(Settings::default_path),
            };
            full_screen(&chat, options)
        }
    };
    if let (Some(shelf), Some(history)) = (shelf, history) {
        shelf.drop_empty(&history);
    }
    ended
}

fn full_screen(chat: &ChatArgs, options: tui::Options) -> anyhow::Result<()> {
    let plan = chat.check()?;
    let engine = engine::start(move || plan.open())?;
    tui::run(engine, options.in_environment())
}

/// Takes from the settings what no flag says.
fn set(chat: &mut ChatArgs, settings: &Settings, matches: &ArgMatches) {
    let typed = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
    if chat.model.is_none() && !chat.demo {
        chat.model.clone_from(&settings.model);
    }
    if let Some(preset) = settings.preset.filter(|_| !typed("preset")) {
        chat.budget.preset = preset;
    }
    if !typed("thinking_effort") && !chat.no_think {
        match settings.effort {
            Some(Some(effort)) => chat.thinking_effort = effort,
            Some(None) => chat.no_think = true,
            None => {}
        }
    }
}

/// The folder of conversations. Where there can be none they are not kept, with a word.
fn shelf(data: Option<&Path>) -> Option<Shelf> {
    let folder = data?.join("conversations");
    Shelf::open(&folder)
        .inspect_err(|error| {
            say(format_args!(
                "k3-tui: conversations are not kept: {}: {error}",
                folder.display()
            ));
        })
        .ok()
}
