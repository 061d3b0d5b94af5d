//! A tokenizer and the ids of the chat format in it.

use super::Error;
use crate::text::{Markers, Tokenizer};

/// A tokenizer and the ids of the chat format in it.
pub struct Words {
    /// Ids and text.
    pub tokenizer: Tokenizer,
    /// The special tokens of the format.
    pub markers: Markers,
}

impl Words {
    /// Looks the format's tokens up.
    ///
    /// # Errors
    /// The tokenizer lacks one, or has more ids than a model of `vocab`.
    pub fn new(tokenizer: Tokenizer, vocab: usize) -> Result<Self, Error> {
        let size = tokenizer.size() as usize;
        if size > vocab {
            return Err(Error::Vocabulary {
                tokenizer: size,
                model: vocab,
            });
        }
        let markers = Markers::find(&tokenizer)?;
        Ok(Self { tokenizer, markers })
    }
}
