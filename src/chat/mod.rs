//! A conversation: its messages, its files, and turns from text to channels. No threads and no screen.
//!
//! [`store`] has the files together: the history, read by [`salvage`] and [`import`]; the [`sidecar`] of [`facts`]; the
//! [`journal`] of the running turn; the [`lock`]. What it would write over is kept by [`original`].

mod clock;
mod error;
pub mod facts;
mod history;
mod import;
pub mod journal;
mod lock;
mod original;
pub mod salvage;
mod session;
mod sidecar;
mod store;
mod turn;

pub use clock::now;
pub use error::Error;
pub use facts::{Answer, Facts, Outcome, Sampling};
pub use history::HistoryFile;
pub use journal::{Header, Partial};
pub use session::{Session, Words};
pub use store::{Opened, Store};
pub use turn::{Ended, Observer, TurnFacts};
