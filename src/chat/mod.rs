//! A conversation: its messages, its history file, and turns from text to channels. No threads and no screen.

mod draws;
mod error;
pub mod fed;
pub mod generate;
mod history;
mod ngram;
pub mod prompt;
mod replan;
mod sampler;
mod sampling;
mod session;
mod turn;
mod words;

pub use draws::Draws;
pub use error::Error;
pub use history::HistoryFile;
pub use replan::replan;
pub use sampler::Sampler;
pub use sampling::{Draw, Sampling, SamplingError, TEMPERATURE, TOP_P};
pub use session::{Answer, Opening, Session};
pub use turn::{Ended, Limits, Observer, TurnFacts};
pub use words::Words;
