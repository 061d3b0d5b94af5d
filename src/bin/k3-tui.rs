//! `k3-tui`: the full-screen chat. Arguments and settings, then the engine's thread, then the screen.

use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use k3::chat::Shelf;
use k3::cli::model::ChatArgs;
use k3::cli::remote::{self, RemoteArgs};
use k3::cli::{Exit, LineArgs, ScreenArgs, chat_line_by_line, refused, say};
use k3::engine::remote::Server;
use k3::engine::{self, Handle};
use k3::tui::{self, Backends, Carried, LOCAL, Settings};

fn main() -> ExitCode {
    let parsed = ScreenArgs::command()
        .try_get_matches()
        .and_then(|matches| Ok((ScreenArgs::from_arg_matches(&matches)?, matches)));
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
    // Whoever names a model means it.
    let local = chat.demo || matches.value_source("model") == Some(ValueSource::CommandLine);
    let backends = backends(&chat, &settings, &arguments.remote, local)?;
    let here = backends.listed().current == LOCAL;
    let ended = match arguments.plain || settings.plain {
        true if !here => Err(Exit::Refused(
            "--plain talks to the model on this computer only; leave it out, or --remote (plain and backend in the settings)".into(),
        )
        .into()),
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
            full_screen(backends, options)
        }
    };
    if let (Some(shelf), Some(history)) = (shelf, history) {
        shelf.drop_empty(&history);
    }
    ended
}

fn full_screen(backends: Backends, options: tui::Options) -> anyhow::Result<()> {
    let first = backends.listed().current.clone();
    let engine = backends.open(&first, Carried::default())?;
    tui::run_among(engine, backends, options.in_environment())
}

/// The name of the server whose address stands on the command line.
const REMOTE: &str = "remote";

/// The model here, the servers of the settings, and the one of the command line; and with which of them is begun.
fn backends(
    chat: &ChatArgs,
    settings: &Settings,
    arguments: &RemoteArgs,
    local: bool,
) -> anyhow::Result<Backends> {
    if let Some(taken) = [LOCAL, REMOTE]
        .into_iter()
        .find(|name| settings.servers.contains_key(*name))
    {
        return Err(
            Exit::Refused(format!("no server in the settings can be called {taken}")).into(),
        );
    }
    let here = chat.model.as_ref().map(|path| path.display().to_string());
    let here = here.unwrap_or_else(|| "the demo model".to_owned());
    let mut names = vec![(LOCAL.to_owned(), here)];
    let servers = settings.servers.iter();
    names.extend(servers.map(|(name, server)| (name.clone(), server.url.clone())));
    let mut given: Option<Server> = None;
    let current = match &arguments.remote {
        Some(address) if address.contains("://") || !settings.servers.contains_key(address) => {
            let server = remote::at(address, arguments.served.clone())?;
            names.push((REMOTE.to_owned(), server.base().to_owned()));
            given = Some(server);
            REMOTE
        }
        Some(name) => name,
        None if local => LOCAL,
        None => settings.backend.as_deref().unwrap_or(LOCAL),
    }
    .to_owned();
    if !names.iter().any(|(name, _)| *name == current) {
        let why = format!(
            "backend in the settings is {current}, which is neither local nor a server there"
        );
        return Err(Exit::Refused(why).into());
    }
    let (chat, servers, served) = (
        chat.clone(),
        settings.servers.clone(),
        arguments.served.clone(),
    );
    let first = current.clone();
    let open = move |name: &str, carried: Carried| -> anyhow::Result<Handle> {
        let chat = with(chat.clone(), carried);
        let server = match (name, servers.get(name)) {
            (LOCAL, _) => {
                let plan = chat.check()?;
                return Ok(engine::start(move || plan.open())?);
            }
            (_, Some(settings)) => {
                let server = settings.server()?;
                match &served {
                    Some(model) if name == first => server.with_model(Some(model.clone())),
                    _ => server,
                }
            }
            (_, None) => given
                .clone()
                .ok_or_else(|| Exit::Refused(format!("there is no server {name}")))?,
        };
        Ok(engine::remote::start(chat.with_server(server)?)?)
    };
    Ok(Backends::new(names, &current, open))
}

/// A chat that takes over what goes along from another model.
fn with(mut chat: ChatArgs, carried: Carried) -> ChatArgs {
    if carried.history.is_some() {
        // It begins with the system message already, or has another one by now.
        chat.system = None;
        chat.history = carried.history;
    }
    match carried.thinking {
        Some(Some(effort)) => (chat.thinking_effort, chat.no_think) = (effort, false),
        Some(None) => chat.no_think = true,
        None => {}
    }
    if let Some(sampling) = carried.sampling {
        chat.set_sampling(sampling);
    }
    chat
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
