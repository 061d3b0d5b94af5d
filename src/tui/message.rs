//! All that can happen to the screen.

use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::KeyEvent;

use super::unsent::Unsent;
use crate::chat::Kept;
use crate::engine::{Event, Telemetry};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A key went down.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The terminal has this many columns and rows now.
    Resize(u16, u16),
    /// The engine told something.
    Engine(Event),
    /// The engine's thread is gone without a last word.
    EngineGone,
    /// What the engine is doing.
    Telemetry(Box<Telemetry>),
    /// Time since the screen opened. The state knows no other clock.
    Now(Duration),
    /// The editor gave this back, or why it did not.
    Edited(Result<String, String>),
    /// What caches of several sizes, in experts, would have retained of the last tokens.
    Retained(Vec<(usize, f64)>),
    /// This was written and not sent when the program ended the last time.
    Recovered(Unsent),
    /// Something that was to be done in the world has this to say.
    Told(String),
    /// The model of this name is being opened, or why it cannot be.
    Opened(String, Result<(), String>),
    /// The conversations that are kept.
    Sessions(Vec<Kept>),
    /// The conversation was copied to this file.
    Forked(PathBuf),
    /// A signal asks the program to leave.
    Terminate,
    /// A signal asks the program to sleep.
    Suspend,
    /// The program goes on after a sleep that it did not ask for.
    Continued,
}
