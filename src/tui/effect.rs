//! What an update wants done in the world. Data: the loop carries it out.

use std::path::PathBuf;
use std::sync::Arc;

use super::backends::Carried;
use crate::engine::{Command, Offers};

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask the engine.
    Send(Command),
    /// Give the terminal back and sleep until told to go on.
    Suspend,
    /// Take the terminal again, as after a sleep, and draw everything.
    Reenter,
    /// Draw everything, whatever the terminal is believed to show.
    Redraw,
    /// Open this text in the person's editor; a message says what it is then.
    Edit(String),
    /// Open the settings file in the person's editor; a message says what came of it.
    EditSettings,
    /// Copy this text, which is called so; a message says how that went.
    Copy(&'static str, String),
    /// Write this text to a new file; a message says how that went.
    Write(String, String),
    /// Find the conversations that are kept; a message brings them.
    ListSessions,
    /// Give the conversation in this file a name; a message says how that went.
    Rename(PathBuf, String),
    /// Copy the conversation in this file to a new one; a message names it.
    Fork(PathBuf),
    /// Find what was written for the conversation in this file and not sent; a message brings it.
    Recover(PathBuf),
    /// Find out what caches of several sizes would have retained; a message says it.
    Simulate(Arc<Offers>),
    /// Open the model of this name, with what goes along; the engine that was there has ended. A message says how that went.
    Open(String, Carried),
    /// Call somebody who looks away.
    Bell,
    /// Leave.
    Exit(Outcome),
}

/// How the screen ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the person asked.
    Done,
    /// The engine had ended before, for this reason.
    EngineFailed(String),
    /// A signal came.
    Interrupted,
}
