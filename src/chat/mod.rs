//! A conversation: its messages, its history file, and turns from text to channels. No threads and no screen.

mod error;
mod history;
mod session;
mod turn;

pub use error::Error;
pub use history::HistoryFile;
pub use session::{Session, Words};
pub use turn::{Ended, Observer, TurnFacts};
