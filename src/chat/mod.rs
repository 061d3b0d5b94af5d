//! A conversation: its messages, its history file, and turns from text to channels. No threads and no screen.

mod draws;
mod error;
mod history;
mod sampler;
mod sampling;
mod session;
mod states;
mod turn;

pub use draws::Draws;
pub use error::Error;
pub use history::HistoryFile;
pub use sampler::Sampler;
pub use sampling::{Draw, Sampling, SamplingError, TEMPERATURE, TOP_P};
pub use session::{Session, Words};
pub use states::{Found, Kept, StateStore};
pub use turn::{Ended, Observer, TurnFacts};
