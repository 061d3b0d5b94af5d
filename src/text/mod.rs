//! Words: text to ids and back, and the form that a chat has in text. No model, no screen, no saved files.
//!
//! A text is cut ([`Tokenizer`]: the cutter, then special names, then the splitter's pieces, then byte pairs).

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
pub mod vocabulary;

pub use completion::{Channel, CompletionParser, Ending, Event, Place};
pub use error::TextError;
pub use markers::{Marker, Markers};
pub use message::{Effort, Message, Role, Thinking};
pub use tokenizer::{Names, Tokenizer};
pub use turn::{Turn, TurnError};
pub use utf8::Utf8Stream;
