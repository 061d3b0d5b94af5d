//! The screen. A message comes in, [`update`] changes the [`State`] and says what is to be done, [`view`] draws it.
//! Only [`run`] and what it calls touch the terminal, the clock and the engine's channels.

pub mod commands;
mod draft;
mod effect;
mod event_loop;
mod figures;
mod glyph;
mod input;
pub mod keys;
mod layout;
mod log;
mod message;
mod state;
mod stderr;
mod terminal;
mod theme;
mod turn;
mod update;
mod view;
mod wrap;

use std::time::Duration;

use anyhow::Context;
use crossbeam_channel::unbounded;

use crate::cli::Exit;
use crate::engine::Handle;

pub use effect::{Effect, Outcome};
pub use message::Message;
pub use state::State;
pub use theme::Theme;
pub use update::update;
pub use view::view;

/// Time that the engine has to save after a signal, before the program ends all the same.
const LAST_SAVE: Duration = Duration::from_secs(3);

/// What a person sets about the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The looks.
    pub theme: Theme,
}

impl Options {
    /// What the environment asks for: no colour where `NO_COLOR` is set to anything.
    pub fn from_environment() -> Self {
        let mono = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            theme: if mono { Theme::Mono } else { Theme::Ansi },
        }
    }
}

/// Opens the screen on an engine and returns when the person leaves. The terminal has been given back then.
///
/// # Errors
/// No terminal to draw on ([`Exit::Refused`]); a signal ([`Exit::Interrupted`]); the terminal failed; or the engine had
/// stopped for a reason of its own.
pub fn run(engine: Handle, options: Options) -> anyhow::Result<()> {
    // A thread that reads keys stays in its read until the process ends, so a channel without an end.
    let (sender, inputs) = unbounded();
    let terminal = terminal::Terminal::open()?;
    input::listen_to_signals(sender.clone()).context("signals could not be listened to")?;
    input::listen_to_keys(sender).context("the keyboard could not be listened to")?;
    let size = terminal
        .size()
        .context("the size of the terminal could not be read")?;
    let state = State::new(size, options.theme);
    let events = engine.events.clone();
    let outcome = event_loop::Loop::new(state, terminal, inputs, engine).run();
    match outcome.context("the terminal failed")? {
        Outcome::Done => Ok(()),
        Outcome::EngineFailed(reason) => anyhow::bail!("the engine stopped: {reason}"),
        Outcome::Interrupted => {
            event_loop::wait_for_end(&events, LAST_SAVE);
            Err(Exit::Interrupted.into())
        }
    }
}
