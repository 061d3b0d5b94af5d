//! The special tokens: 256 names that stand behind the vocabulary. Read from `tokenizer_config.json`; what they mean
//! in a chat is not known here.

use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::error::{Result, TextError, read_file};
use crate::checkpoint::one_line;

/// How many special tokens there are, named ones and reserved ones.
pub const COUNT: u32 = 256;

/// Names of the special tokens. Their ids are `base` + 0 to 255, by position.
#[derive(Clone, Debug)]
pub struct Specials {
    base: u32,
    /// By id, from `base` on.
    names: Vec<String>,
    /// Indices into `names`, in the order of the names' bytes.
    sorted: Vec<u8>,
    /// Whether a name starts with this byte.
    starts: [bool; 256],
}

impl Specials {
    /// Reads the names of a `tokenizer_config.json` that belongs to a vocabulary of `base` tokens. An id that the
    /// file does not name is called `<|reserved_token_N|>`, N the id.
    ///
    /// # Errors
    /// The file cannot be read or is not such a file; an id is not `base` + 0 to 255; an id or a name comes twice;
    /// a name is empty or part of another, so that a text could mean either.
    pub fn read(path: &Path, base: u32) -> Result<Self> {
        Self::parse(&read_file(path)?, base).map_err(|reason| TextError::Specials {
            path: path.to_owned(),
            reason: one_line(&reason),
        })
    }

    /// [`Self::read`] without the file.
    pub(super) fn parse(json: &[u8], base: u32) -> std::result::Result<Self, String> {
        let config: Config = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let mut names: Vec<Option<String>> = vec![None; COUNT as usize];
        for (id, token) in config.added_tokens_decoder.0 {
            let offset = decimal(&id)
                .and_then(|id| id.checked_sub(base))
                .filter(|&offset| offset < COUNT);
            let Some(offset) = offset else {
                let last = base + COUNT - 1;
                return Err(format!(
                    "special token {id:?} has no id of {base} to {last}, the 256 behind the vocabulary"
                ));
            };
            if names[offset as usize].replace(token.content).is_some() {
                return Err(format!("special token {id} comes twice"));
            }
        }
        let names: Vec<String> = (base..)
            .zip(names)
            .map(|(id, name)| name.unwrap_or_else(|| format!("<|reserved_token_{id}|>")))
            .collect();
        for (first, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(format!(
                    "special token {} has an empty name",
                    base + first as u32
                ));
            }
            let clash = names
                .iter()
                .enumerate()
                .find(|&(second, other)| first != second && other.contains(name.as_str()));
            if let Some((second, _)) = clash {
                let (first, second) = (base + first as u32, base + second as u32);
                return Err(format!(
                    "the name of special token {first} is in that of {second}"
                ));
            }
        }
        let mut sorted: Vec<u8> = (0..=u8::MAX).collect();
        sorted.sort_unstable_by_key(|&index| &names[usize::from(index)]);
        let mut starts = [false; 256];
        for name in &names {
            starts[usize::from(name.as_bytes()[0])] = true;
        }
        Ok(Self {
            base,
            names,
            sorted,
            starts,
        })
    }

    /// The id of a name.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.at_start_of(name)
            .filter(|&(_, length)| length == name.len())
            .map(|(id, _)| id)
    }

    /// The name of an id.
    pub fn name(&self, id: u32) -> Option<&str> {
        let index = id.checked_sub(self.base)?;
        self.names.get(index as usize).map(String::as_str)
    }

    /// The leftmost name in `text`: where it starts, where it ends, and its id.
    pub(super) fn find(&self, text: &str) -> Option<(usize, usize, u32)> {
        let starts = text
            .bytes()
            .enumerate()
            .filter(|&(_, byte)| self.starts[usize::from(byte)]);
        starts
            .filter(|&(start, _)| text.is_char_boundary(start))
            .find_map(|(start, _)| {
                self.at_start_of(&text[start..])
                    .map(|(id, length)| (start, start + length, id))
            })
    }

    /// The id and the length in bytes of the name that `text` starts with.
    fn at_start_of(&self, text: &str) -> Option<(u32, usize)> {
        // A name that the text starts with is not above the text, and since no name starts with another, no further
        // name stands between the two: the greatest name that is not above the text is the only candidate.
        let above = self
            .sorted
            .partition_point(|&index| self.names[usize::from(index)].as_str() <= text);
        let index = self.sorted[above.checked_sub(1)?];
        let name = &self.names[usize::from(index)];
        text.starts_with(name.as_str())
            .then(|| (self.base + u32::from(index), name.len()))
    }
}

/// A number as JSON keys and users write ids: digits only, no zero in front.
fn decimal(digits: &str) -> Option<u32> {
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if canonical { digits.parse().ok() } else { None }
}

/// The part of the file that is read. Other keys may hold anything.
#[derive(serde::Deserialize)]
struct Config {
    added_tokens_decoder: Entries,
}

/// One special token; the flags that Hugging Face adds do not change what it encodes to.
#[derive(serde::Deserialize)]
struct AddedToken {
    content: String,
}

/// The entries of a JSON object in order, so that a key that comes twice is not lost.
struct Entries(Vec<(String, AddedToken)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object of special tokens by id")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::small_vocabulary::{NAMES, tokenizer_config};

    fn small(base: u32) -> Specials {
        Specials::parse(tokenizer_config(base).as_bytes(), base).unwrap()
    }

    fn refusal(entries: &str) -> String {
        let json = format!(r#"{{"added_tokens_decoder": {{{entries}}}}}"#);
        Specials::parse(json.as_bytes(), 1000).expect_err("refused")
    }

    #[test]
    fn ids_follow_the_vocabulary_and_not_the_release() {
        for base in [300, 163_584] {
            let specials = small(base);
            for (offset, name) in NAMES {
                assert_eq!(specials.id(name), Some(base + offset));
                assert_eq!(specials.name(base + offset), Some(name));
            }
            let reserved = format!("<|reserved_token_{}|>", base + 100);
            assert_eq!(specials.id(&reserved), Some(base + 100));
            assert_eq!(specials.name(base + 100), Some(reserved.as_str()));
            assert_eq!(specials.name(base + 256), None);
            assert_eq!(specials.name(base - 1), None);
            assert_eq!(specials.id("[BOS"), None);
            assert_eq!(specials.id("[BOS]x"), None);
            assert_eq!(specials.id(""), None);
        }
    }

    #[test]
    fn the_leftmost_name_is_found() {
        let specials = small(300);
        assert_eq!(
            specials.find("中[BOS[UNK]<|open|>"),
            Some((7, 12, 300 + 254))
        );
        assert_eq!(specials.find("<|open|<|close|>"), Some((7, 16, 304)));
        assert_eq!(specials.find("<|reserved_token_400|>"), Some((0, 22, 400)));
        // The name of another id of the release, and a family member's marker.
        assert_eq!(
            specials.find("<|reserved_token_163600|> <|im_end|> [BOS"),
            None
        );
        assert_eq!(specials.find(""), None);
    }

    #[test]
    fn every_name_is_found() {
        let specials = small(163_584);
        for id in 163_584..163_584 + COUNT {
            let name = specials.name(id).unwrap();
            assert_eq!(
                specials.find(&format!("<[{name}>")),
                Some((2, 2 + name.len(), id))
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(refusal(r#""999": {"content": "x"}"#).contains("1000 to 1255"));
        assert!(refusal(r#""1256": {"content": "x"}"#).contains("1000 to 1255"));
        assert!(refusal(r#""01000": {"content": "x"}"#).contains("01000"));
        assert!(refusal(r#""+1000": {"content": "x"}"#).contains("+1000"));
        assert!(
            refusal(r#""1000": {"content": "x"}, "1000": {"content": "y"}"#)
                .contains("comes twice")
        );
        assert!(
            refusal(r#""1000": {"content": "x"}, "1001": {"content": "x"}"#)
                .contains("is in that of")
        );
        assert!(
            refusal(r#""1000": {"content": "[a]"}, "1001": {"content": "[a]b"}"#)
                .contains("is in that of")
        );
        assert!(
            refusal(r#""1000": {"content": "<|reserved_token_1001|>"}"#).contains("is in that of")
        );
        assert!(refusal(r#""1000": {"content": ""}"#).contains("empty"));
        assert!(refusal(r#""1000": {"content": 5}"#).contains("string"));
        assert!(refusal(r#""1000": {}"#).contains("content"));
        assert!(Specials::parse(b"{}", 1000).is_err());
        assert!(Specials::parse(br#"{"added_tokens_decoder": []}"#, 1000).is_err());
        assert!(Specials::parse(b"not json", 1000).is_err());
    }

    #[test]
    fn the_error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer_config.json");
        std::fs::write(&path, "{}").unwrap();
        let message = Specials::read(&path, 256)
            .expect_err("no names")
            .to_string();
        assert!(
            message.contains("tokenizer_config.json: missing field `added_tokens_decoder`"),
            "{message}"
        );
    }
}
