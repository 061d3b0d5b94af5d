//! What an update wants done in the world. Data: the loop carries it out.

use crate::engine::Command;

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
