//! Words: text to ids and back, and the form that a chat has in text. No model, no screen, no saved files.
//!
//! Text to ids ([`tokenizer`]): the cutter ends runs that are too long, special names are found where they are
//! allowed, the splitter makes pieces, byte pairs make ids of each piece. Back: the bytes of the ids, through
//! [`utf8`], which never splits a character.
//!
//! A chat ([`message`]) to ids: [`render`] makes segments, in which special tokens come from the renderer alone. Ids to
//! a chat: [`completion`] reads them as they come, [`turn`] judges them when all are there. [`history`] reads messages
//! from a file.

mod bpe;
mod classes;
pub mod completion;
mod cut;
pub mod error;
pub mod history;
pub mod markers;
pub mod message;
pub mod render;
#[cfg(test)]
pub(crate) mod small_vocabulary;
pub mod specials;
pub mod split;
pub mod tokenizer;
pub mod turn;
pub mod utf8;
mod visible;
pub mod vocabulary;

pub use completion::{Channel, CompletionParser, Ending, Event, Place};
pub use error::TextError;
pub use markers::{Marker, Markers};
pub use message::{Effort, Message, Role, Thinking};
pub use tokenizer::{Names, Tokenizer};
pub use turn::{Turn, TurnError};
pub use utf8::Utf8Stream;
pub use visible::{picture, visible};
