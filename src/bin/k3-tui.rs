//! `k3-tui`: the full-screen chat. Arguments and settings, then the engine's thread, then the screen.

use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use k3::chat::Shelf;
use k3::cli::model::ChatArgs;
use k3::cli::{Exit, LineArgs, ScreenArgs, chat_line_by_line};
use k3::tui::Settings;
use k3::{engine, tui};

fn main() -> ExitCode {
    let parsed = ScreenArgs::command()
        .try_get_matches()
        .and_then(|matches| Ok((ScreenArgs::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are no errors.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::REFUSED } else { 0 });
        }
    };
    match chat(arguments, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("k3-tui: {error:#}");
            ExitCode::from(Exit::code(&error))
        }
    }
}

fn chat(arguments: ScreenArgs, matches: &ArgMatches) -> anyhow::Result<()> {
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
            eprintln!(
                "k3-tui: conversations are not kept: {}: {error}",
                folder.display()
            );
        })
        .ok()
}
