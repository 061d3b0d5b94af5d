//! Words: text to ids and back, and the form that a chat has in text. No model, no screen, no saved files.
//!
//! A text is cut ([`Tokenizer`]: the cutter, then special names, then the splitter's pieces, then byte pairs).

mod bpe;
mod classes;
mod cut;
pub mod error;
#[cfg(test)]
mod small_vocabulary;
pub mod specials;
pub mod split;
pub mod tokenizer;
pub mod utf8;
pub mod vocabulary;

pub use error::TextError;
pub use tokenizer::{Names, Tokenizer};
pub use utf8::Utf8Stream;
