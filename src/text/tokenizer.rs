//! The tokenizer: text to ids and back. What the ids mean to a chat is not known here.

use std::path::Path;

use super::bpe::Bpe;
use super::cut;
use super::error::{Result, TextError};
use super::specials::{self, Specials};
use super::split::Splitter;
use super::utf8::Utf8Stream;
use super::vocabulary::Vocabulary;

/// What the names of special tokens are in a text that is to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Text like any other. For everything that a person, a model or a file says.
    AsText,
    /// The special tokens that they name.
    Allowed,
}

/// A vocabulary, its special tokens, and the splitter.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    specials: Specials,
    splitter: Splitter,
}

/// A stretch of text that is encoded on its own.
enum Unit<'t> {
    Piece(&'t str),
    Special(&'t str, u32),
}

impl Tokenizer {
    /// Reads `tiktoken.model` and `tokenizer_config.json` in `folder`.
    ///
    /// # Errors
    /// One of the files cannot be read or is refused, see [`Vocabulary::read`] and [`Specials::read`].
    pub fn load(folder: &Path) -> Result<Self> {
        let vocabulary = Vocabulary::read(&folder.join("tiktoken.model"))?;
        let specials = Specials::read(&folder.join("tokenizer_config.json"), vocabulary.len())?;
        Ok(Self {
            vocabulary,
            specials,
            splitter: Splitter::new(),
        })
    }

    /// The ids of `text`. Nothing is added in front or behind; an empty text has no ids.
    pub fn encode(&self, text: &str, names: Names) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut bpe = Bpe::default();
        self.units(text, names, |unit| match unit {
            Unit::Piece(piece) => bpe.encode(&self.vocabulary, piece.as_bytes(), &mut ids),
            Unit::Special(_, id) => ids.push(id),
        });
        ids
    }

    /// What [`Self::encode`] encodes one by one: the splitter's pieces, and the names of special tokens if allowed.
    pub fn pieces<'t>(&self, text: &'t str, names: Names) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        self.units(text, names, |unit| match unit {
            Unit::Piece(piece) | Unit::Special(piece, _) => pieces.push(piece),
        });
        pieces
    }

    /// Hands out the units of `text` in order. The cutter comes first, so that a name that it cuts is text; the
    /// splitter sees what stands between two names as a text of its own.
    fn units<'t>(&self, text: &'t str, names: Names, mut take: impl FnMut(Unit<'t>)) {
        for part in cut::parts(text) {
            let mut rest = part;
            if names == Names::Allowed {
                while let Some((start, end, id)) = self.specials.find(rest) {
                    self.splitter
                        .pieces(&rest[..start])
                        .for_each(|piece| take(Unit::Piece(piece)));
                    take(Unit::Special(&rest[start..end], id));
                    rest = &rest[end..];
                }
            }
            self.splitter
                .pieces(rest)
                .for_each(|piece| take(Unit::Piece(piece)));
        }
    }

    /// The bytes of one id; those of a special token are its name. They need not be whole characters.
    ///
    /// # Errors
    /// The id is not one of [`Self::size`].
    pub fn bytes(&self, id: u32) -> Result<&[u8]> {
        self.vocabulary
            .bytes(id)
            .or_else(|| self.specials.name(id).map(str::as_bytes))
            .ok_or(TextError::UnknownId {
                id,
                last: self.size() - 1,
            })
    }

    /// The text of `ids`, with one U+FFFD for each longest run of bytes that cannot be a character.
    ///
    /// # Errors
    /// An id is not one of [`Self::size`].
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        for &id in ids {
            text.push_str(&stream.push(self.bytes(id)?));
        }
        text.push_str(&stream.finish());
        Ok(text)
    }

    /// The first id that is a special token: how many tokens the vocabulary has.
    pub fn base(&self) -> u32 {
        self.vocabulary.len()
    }

    /// How many ids there are, special ones included.
    pub fn size(&self) -> u32 {
        self.base() + specials::COUNT
    }

    /// Whether `id` is a special token.
    pub fn is_special(&self, id: u32) -> bool {
        self.special_name(id).is_some()
    }

    /// The name of `id` if it is a special token.
    pub fn special_name(&self, id: u32) -> Option<&str> {
        self.specials.name(id)
    }

    /// The id of the special token of this name.
    pub fn special(&self, name: &str) -> Option<u32> {
        self.specials.id(name)
    }
}

#[cfg(test)]
impl Tokenizer {
    /// The tokenizer of [`super::small_vocabulary`].
    pub(super) fn small() -> Self {
        use super::small_vocabulary::{MERGES, tokenizer_config};
        Self::with_config(&MERGES, &tokenizer_config(256 + MERGES.len() as u32))
    }

    /// The single bytes and `merges`, and the special tokens of a `tokenizer_config.json`.
    pub(super) fn with_config(merges: &[impl AsRef<[u8]>], config: &str) -> Self {
        let vocabulary = Vocabulary::small(merges);
        let specials = Specials::parse(config.as_bytes(), vocabulary.len()).unwrap();
        Self {
            vocabulary,
            specials,
            splitter: Splitter::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str, names: Names) -> Vec<String> {
        let tokenizer = Tokenizer::small();
        let ids = tokenizer.encode(text, names);
        ids.iter()
            .map(|&id| String::from_utf8_lossy(tokenizer.bytes(id).unwrap()).into_owned())
            .collect()
    }

    #[test]
    fn names_are_text_unless_allowed() {
        let tokenizer = Tokenizer::small();
        let text = "a <|open|> b";
        assert!(
            tokenizer
                .encode(text, Names::AsText)
                .iter()
                .all(|&id| !tokenizer.is_special(id))
        );
        assert_eq!(
            tokens(text, Names::Allowed),
            ["a", " ", "<|open|>", " ", "b"]
        );
        assert_eq!(
            tokenizer.encode("[EOS]", Names::Allowed),
            [tokenizer.base() + 1]
        );
        assert_eq!(
            tokenizer.pieces("it's <|sep|>", Names::Allowed),
            ["it's", " ", "<|sep|>"]
        );
        assert_eq!(
            tokenizer.pieces("it's <|sep|>", Names::AsText),
            ["it's", " <|", "sep", "|>"]
        );
    }

    #[test]
    fn the_text_before_a_name_ends_there() {
        // Before a name a run of spaces is whole; before a word the last one goes with the word.
        assert_eq!(
            tokens("  [BOS]  a", Names::Allowed),
            ["  ", "[BOS]", " ", " a"]
        );
    }

    #[test]
    fn nothing_is_added() {
        assert!(tokens("", Names::Allowed).is_empty());
        assert!(tokens("", Names::AsText).is_empty());
        assert_eq!(tokens("\0", Names::AsText), ["\0"]);
        assert_eq!(tokens(" \r\n", Names::AsText), [" ", "\r", "\n"]);
    }

    #[test]
    fn a_name_that_the_cutter_cuts_is_text() {
        let tokenizer = Tokenizer::small();
        let cut = tokenizer.encode(&format!("{}[BOS]", "a".repeat(24_998)), Names::Allowed);
        assert!(cut.iter().all(|&id| !tokenizer.is_special(id)));
        let whole = tokenizer.encode(&format!("{}[BOS]", "a".repeat(24_995)), Names::Allowed);
        assert_eq!(whole.last(), Some(&tokenizer.base()));
    }

    #[test]
    fn the_cutter_shows_in_the_ids() {
        // 25,001 is 4 * 6250 + 1; the cut makes one run of 25,000 and one of 1.
        assert_eq!(tokens(&"a".repeat(25_001), Names::AsText).len(), 6_251);
        // Without a cut, `aaa` more would be `aa` and `a`; with it, 24,998 + 3 is cut at 25,000.
        assert_eq!(tokens(&"a".repeat(50_003), Names::AsText).len(), 12_502);
    }

    #[test]
    fn ids_beyond_the_vocabulary_are_refused() {
        let tokenizer = Tokenizer::small();
        let size = tokenizer.size();
        assert_eq!(size, tokenizer.base() + 256);
        assert_eq!(tokenizer.decode(&[size - 1]).unwrap(), "[PAD]");
        let message = tokenizer
            .decode(&[0, size])
            .expect_err("refused")
            .to_string();
        assert_eq!(
            message,
            format!(
                "there is no token {size}: this vocabulary has ids 0 to {}",
                size - 1
            )
        );
    }

    #[test]
    fn bytes_that_are_no_text_become_one_replacement_each() {
        let tokenizer = Tokenizer::small();
        let of = |byte: u8| tokenizer.vocabulary.rank(&[byte]).unwrap();
        assert_eq!(
            tokenizer
                .decode(&[of(0xf0), of(0x9f), of(b'a'), of(0xff)])
                .unwrap(),
            "\u{fffd}a\u{fffd}"
        );
    }

    #[test]
    fn a_folder_without_a_tokenizer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let message = Tokenizer::load(folder.path())
            .expect_err("nothing there")
            .to_string();
        assert!(message.contains("tiktoken.model"), "{message}");
        super::super::small_vocabulary::write_to(folder.path()).unwrap();
        assert_eq!(
            Tokenizer::load(folder.path()).unwrap().size(),
            Tokenizer::small().size()
        );
    }
}
