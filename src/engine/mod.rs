//! The inference thread: it owns model, state and conversation, and talks over channels. No screen, no files of its own.
//! [`remote`] speaks the same protocol for a model that runs on a server.

mod offers;
pub mod protocol;
pub mod remote;
mod spawn;
pub mod telemetry;
mod thread;
mod watch;
mod window;

pub use offers::Offers;
pub use protocol::{Command, Ended, Event, ModelFacts, Reread, TurnFacts};
pub use telemetry::{Activity, Cache, Rates, Telemetry, TelemetryCell, TelemetryReader};
pub use thread::start;

use crossbeam_channel::{Receiver, Sender};

/// Events that may wait for a reader. A reader that takes none for so long holds the engine up; none is lost.
pub const EVENT_CAPACITY: usize = 1024;

/// The other end of an engine: what a screen holds.
#[derive(Clone, Debug)]
pub struct Handle {
    /// What is asked.
    pub commands: Sender<Command>,
    /// What is told.
    pub events: Receiver<Event>,
    /// What is going on.
    pub telemetry: TelemetryCell,
}
