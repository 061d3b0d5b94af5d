//! A conversation: its messages, its files, and turns from text to channels. No threads and no screen.
//!
//! A [`Session`] renders the conversation into a [`prompt`], sees to it that what the network has [`fed`] is a beginning of
//! it, and lets a [`turn`] [`generate`] the rest: a [`Sampler`] chooses, an [`ngram`] may guess.
//!
//! [`ModelFiles`] are looked at, planned and opened to a session by `open`.
//!
//! [`store`] has the files together: the history, read by [`salvage`] and [`import`]; the [`sidecar`] of [`facts`]; the
//! [`journal`] of the running turn; the [`lock`]. What it would write over is kept by [`original`]. The [`shelf`] is the folder
//! of those conversations for which no file was named.

mod clock;
mod draws;
mod error;
pub mod facts;
mod fed;
pub mod generate;
mod history;
mod import;
pub mod journal;
mod lock;
mod ngram;
mod open;
mod original;
pub mod prompt;
mod replan;
pub mod salvage;
mod sampler;
mod sampling;
mod session;
pub mod shelf;
mod sidecar;
mod states;
mod store;
mod transcript;
mod turn;
mod words;

pub use clock::now;
pub use draws::Draws;
pub use error::Error;
pub use facts::{Answer, Facts};
pub use fed::Fed;
pub use history::HistoryFile;
pub use journal::{Header, Partial};
pub(crate) use lock::is_free;
pub use open::{CheckedModel, ModelFiles};
pub(crate) use original::beside;
pub use replan::{Change, replan};
pub use sampler::Sampler;
pub use sampling::{Draw, Sampling, SamplingError, TEMPERATURE, TOP_P};
pub use session::{Opening, Session};
pub use shelf::{Kept, Shelf};
pub use states::{Found, Saved, StateStore};
pub use store::{Opened, Store};
pub use transcript::{TakenBack, Transcript};
pub use turn::{Ended, Limits, Observer, TurnFacts};
pub use words::Words;
