//! The special tokens that the chat format is made of, and which ids they are in a tokenizer.

use super::error::{Result, TextError};
use super::tokenizer::Tokenizer;

/// A special token that the chat format writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Begins an opening tag.
    Open,
    /// Begins a closing tag.
    Close,
    /// Ends a tag of either kind.
    Sep,
    /// Ends a message.
    EndOfMessage,
}

impl Marker {
    /// The name of the special token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "<|open|>",
            Self::Close => "<|close|>",
            Self::Sep => "<|sep|>",
            Self::EndOfMessage => "<|end_of_msg|>",
        }
    }
}

/// The other id that ends a turn: the release ends most of its turns with it, though it is never written.
const EOS: &str = "[EOS]";

/// Tokens of the released vocabulary, and what its two end ids are, by distance from there. Kimi K2 has as many.
const RELEASED_BASE: u32 = 163_584;
const RELEASED_END_OF_MESSAGE: u32 = 2;
const RELEASED_EOS: u32 = 1;

/// The ids of the markers in one tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markers {
    open: u32,
    close: u32,
    sep: u32,
    end_of_message: u32,
    eos: u32,
}

/// What one id of a completion is to the chat format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'p> {
    /// Bytes of text; not always whole characters.
    Text(&'p [u8]),
    /// A part of a tag. Never [`Marker::EndOfMessage`].
    Marker(Marker),
    /// One of the two ids that end a turn.
    End(u32),
    /// A special token, by name, that has no place in a completion.
    Special(&'p str),
}

impl Markers {
    /// Looks the markers up.
    ///
    /// # Errors
    /// One of them is missing; or the vocabulary has the size of the released one, but the two end ids are others.
    pub fn find(tokenizer: &Tokenizer) -> Result<Self> {
        let id = |name| tokenizer.special(name).ok_or(TextError::NoMarker { name });
        let markers = Self {
            open: id(Marker::Open.name())?,
            close: id(Marker::Close.name())?,
            sep: id(Marker::Sep.name())?,
            end_of_message: id(Marker::EndOfMessage.name())?,
            eos: id(EOS)?,
        };
        if tokenizer.base() == RELEASED_BASE {
            for (name, found, offset) in [
                (
                    Marker::EndOfMessage.name(),
                    markers.end_of_message,
                    RELEASED_END_OF_MESSAGE,
                ),
                (EOS, markers.eos, RELEASED_EOS),
            ] {
                let expected = RELEASED_BASE + offset;
                if found != expected {
                    return Err(TextError::ForeignMarker {
                        name,
                        found,
                        expected,
                    });
                }
            }
        }
        Ok(markers)
    }

    /// The id of a marker.
    pub fn id(&self, marker: Marker) -> u32 {
        match marker {
            Marker::Open => self.open,
            Marker::Close => self.close,
            Marker::Sep => self.sep,
            Marker::EndOfMessage => self.end_of_message,
        }
    }

    /// The two ids that end a turn: the one that is written between messages, and `[EOS]`.
    pub fn ends(&self) -> [u32; 2] {
        [self.end_of_message, self.eos]
    }

    /// What `id` is in a completion.
    ///
    /// # Errors
    /// The tokenizer has no such id.
    pub fn piece<'t>(&self, tokenizer: &'t Tokenizer, id: u32) -> Result<Piece<'t>> {
        let bytes = tokenizer.bytes(id)?;
        Ok(if self.ends().contains(&id) {
            Piece::End(id)
        } else if let Some(marker) = [Marker::Open, Marker::Close, Marker::Sep]
            .into_iter()
            .find(|&m| self.id(m) == id)
        {
            Piece::Marker(marker)
        } else if let Some(name) = tokenizer.special_name(id) {
            Piece::Special(name)
        } else {
            Piece::Text(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::small_vocabulary;

    #[test]
    fn ids_follow_the_vocabulary() {
        let tokenizer = Tokenizer::small();
        let base = tokenizer.base();
        let markers = Markers::find(&tokenizer).unwrap();
        assert_eq!(markers.ends(), [base + 2, base + 1]);
        for (marker, offset) in [
            (Marker::EndOfMessage, 2),
            (Marker::Open, 3),
            (Marker::Close, 4),
            (Marker::Sep, 5),
        ] {
            assert_eq!(markers.id(marker), base + offset);
        }
        let piece = |id| markers.piece(&tokenizer, id).unwrap();
        assert_eq!(piece(base), Piece::Special("[BOS]"));
        assert_eq!(piece(base + 1), Piece::End(base + 1));
        assert_eq!(piece(base + 2), Piece::End(base + 2));
        assert_eq!(piece(base + 3), Piece::Marker(Marker::Open));
        assert_eq!(piece(64), Piece::Text(b"a"));
        assert!(markers.piece(&tokenizer, tokenizer.size()).is_err());
    }

    #[test]
    fn a_tokenizer_without_markers_is_refused() {
        let config = small_vocabulary::tokenizer_config(256).replace("<|sep|>", "<|tool|>");
        let tokenizer = Tokenizer::with_config(&[""; 0], &config);
        let message = Markers::find(&tokenizer)
            .expect_err("no marker")
            .to_string();
        assert!(
            message.starts_with("the tokenizer has no special token <|sep|>"),
            "{message}"
        );
    }

    #[test]
    fn a_vocabulary_of_the_released_size_has_the_released_end_ids() {
        let fillers: Vec<String> = (256..RELEASED_BASE)
            .map(|rank| format!("filler {rank}"))
            .collect();
        let config = small_vocabulary::tokenizer_config(RELEASED_BASE);
        let markers = Markers::find(&Tokenizer::with_config(&fillers, &config)).unwrap();
        assert_eq!(markers.ends(), [163_586, 163_585]);
        let foreign = config.replace("[EOS]", "[X]").replace("[EOT]", "[EOS]");
        let message = Markers::find(&Tokenizer::with_config(&fillers, &foreign))
            .expect_err("foreign")
            .to_string();
        assert!(
            message.starts_with("[EOS] is 163593 in this tokenizer and 163585 in Kimi K3"),
            "{message}"
        );
    }
}
