//! The screen. A message comes in, [`update`] changes the [`State`] and says what is to be done, [`view`] draws it.
//! Only [`run`] and what it calls touch the terminal, the clock and the engine's channels.

mod backends;
mod clipboard;
pub mod commands;
mod conversation;
mod draft;
mod editor;
mod effect;
mod escape;
mod event_loop;
mod figures;
mod files;
mod glyph;
mod input;
mod instruments;
pub mod keys;
mod layout;
mod log;
mod markdown;
mod message;
#[cfg(test)]
mod mutations;
mod outward;
mod overlay;
mod panes;
mod recall;
mod samples;
mod search;
mod settings;
mod state;
mod stderr;
mod terminal;
mod theme;
mod totals;
mod tune;
mod turn;
mod unsent;
mod update;
mod view;
mod wrap;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use crossbeam_channel::unbounded;

use crate::chat::Shelf;
use crate::cli::Exit;
use crate::engine::Handle;
use crate::text::visible;

pub use backends::{Backends, Carried, LOCAL, Listed};
pub use effect::{Effect, Outcome};
pub use message::Message;
pub use panes::{TelemetryView, ThinkView};
pub use settings::Settings;
pub use state::State;
pub use theme::Theme;
pub use update::update;
pub use view::view;

/// Time that the engine has to save after a signal, before the program ends all the same.
const LAST_SAVE: Duration = Duration::from_secs(3);

/// What a person sets about the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The looks.
    pub theme: Theme,
    /// Whether answers are shown as they came.
    pub raw: bool,
    /// How much of the reasoning is shown.
    pub think: ThinkView,
    /// How much of the telemetry is shown.
    pub telemetry: TelemetryView,
    /// Whether nothing moves that need not.
    pub still: bool,
    /// Whether the program's own marks keep to ASCII.
    pub ascii: bool,
    /// Whether the end of a long answer rings.
    pub bell: bool,
    /// Whether the window's title and the progress in the bar of tasks are set.
    pub titles: bool,
    /// Where conversations are kept.
    pub shelf: Option<Shelf>,
    /// The folder for what was copied last.
    pub copies: Option<PathBuf>,
    /// The settings file.
    pub settings: Option<PathBuf>,
}

impl Options {
    /// What the environment asks for: no colour where `NO_COLOR` is set to anything, ASCII where the locale is not UTF-8.
    pub fn from_environment() -> Self {
        Self::default().in_environment()
    }

    /// These, as far as the environment does not ask for something else.
    pub fn in_environment(mut self) -> Self {
        self.ascii |= view::ascii_asked_for(|name| std::env::var(name).ok());
        match std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            true => Self {
                theme: Theme::Mono,
                ..self
            },
            false => self,
        }
    }
}

/// Opens the screen on an engine and returns when the person leaves. The terminal has been given back then.
///
/// # Errors
/// No terminal to draw on ([`Exit::Refused`]); a signal ([`Exit::Interrupted`]); the terminal failed; or the engine had
/// stopped for a reason of its own.
pub fn run(engine: Handle, options: Options) -> anyhow::Result<()> {
    run_among(engine, Backends::only(), options)
}

/// The same, among other models that can be gone over to.
///
/// # Errors
/// As [`run`].
pub fn run_among(engine: Handle, backends: Backends, options: Options) -> anyhow::Result<()> {
    // A thread that reads keys stays in its read until the process ends, so a channel without an end.
    let (sender, inputs) = unbounded();
    let terminal = terminal::Terminal::open()?;
    let messages = sender.clone();
    input::listen_to_signals(sender.clone()).context("signals could not be listened to")?;
    let keys = input::Gate::default();
    input::listen_to_keys(sender, keys.clone()).context("the keyboard could not be listened to")?;
    let size = terminal
        .size()
        .context("the size of the terminal could not be read")?;
    let mut state = State::new(size, options.theme);
    state.panes.think = options.think;
    state.panes.telemetry = options.telemetry;
    state.still = options.still;
    state.ascii = options.ascii;
    state.response.set_raw(options.raw);
    state.backends = backends.listed().clone();
    let inputs = (messages, inputs);
    let ended =
        event_loop::Loop::new(state, terminal, inputs, (engine, backends), keys, options).run();
    let (outcome, summary, events) = ended.context("the terminal failed")?;
    if let Some(summary) = summary {
        // Whoever closed the terminal does not read it.
        let _ = writeln!(std::io::stdout(), "{}", visible(&summary));
    }
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::EngineFailed(reason) => anyhow::bail!("the engine stopped: {reason}"),
        Outcome::Interrupted => {
            if let Some(events) = events {
                event_loop::wait_for_end(&events, LAST_SAVE);
            }
            Err(Exit::Interrupted.into())
        }
    }
}
