//! A history file read as far as it can be read, with what cannot and why. Nothing is written here.

use std::fmt;
use std::path::Path;

use super::Error;
use super::import::{self, Not, Words};
use crate::checkpoint::one_line;
use crate::text::history::{LONGEST_LINE, misplaced, parse};
use crate::text::{Message, TextError};

/// Largest file that is taken for a history: sixty of its longest lines.
const LARGEST: u64 = 1 << 30;

/// Lines that are not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The first of them, from 1.
    pub first: usize,
    /// The last of them.
    pub last: usize,
    /// Why.
    pub cause: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "line {}: {}", self.first, self.cause),
            false => write!(f, "lines {} to {}: {}", self.first, self.last, self.cause),
        }
    }
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// The longest beginning that is a conversation.
    pub messages: Vec<Message>,
    /// What is not taken. Empty if the file is whole.
    pub trouble: Vec<Trouble>,
    /// What is taken otherwise than it stands there, if the file has another shape than that of a history.
    pub words: Vec<String>,
}

impl Salvage {
    /// Reads a file; one that is not there is an empty history.
    ///
    /// # Errors
    /// The file cannot be read ([`TextError::HistoryFile`]); it is of another kind, or not a single message of it can be
    /// read ([`Error::Foreign`]).
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unreadable = |cause| TextError::HistoryFile {
            path: path.to_owned(),
            cause,
        };
        let foreign = |reason: String| Error::Foreign {
            path: path.to_owned(),
            reason,
        };
        let meta = match std::fs::metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            meta => meta.map_err(unreadable)?,
        };
        // Opening a pipe would wait for its writer.
        if !meta.is_file() {
            return Err(foreign("it is no file".into()));
        }
        if meta.len() > LARGEST {
            return Err(foreign("it is larger than 1 GiB, no history is".into()));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::of(&bytes).map_err(|why| foreign(one_line(&why)))
    }

    /// Whether saving these messages would only write down again what stands in the file.
    pub fn is_plain(&self) -> bool {
        self.trouble.is_empty() && self.words.is_empty()
    }

    fn of(bytes: &[u8]) -> Result<Self, String> {
        if is_utf16(bytes) {
            return Err("it is in UTF-16; save it as UTF-8".into());
        }
        let mut words = Words::default();
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if text.len() < bytes.len() {
            words.add("a byte-order mark at the beginning");
        }
        if text.is_empty() {
            return Ok(Self {
                words: words.lines(),
                ..Self::default()
            });
        }
        let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let torn = lines.pop_if(|last| last.is_empty()).is_none();
        let first = parse(lines[0]);
        if first.is_err()
            && let Some((messages, more)) = import::document(text)?
        {
            words.add("a JSON document of messages");
            words.extend(more);
            return Ok(Self {
                messages,
                trouble: Vec::new(),
                words: words.lines(),
            });
        }
        let salvage = by_line(&lines, torn, words)?;
        let any =
            salvage.messages.len() + salvage.trouble.iter().filter(|t| is_misplaced(t)).count();
        match (any, first) {
            (0, Err(cause)) => Err(format!("no message of it can be read; line 1: {cause}")),
            _ => Ok(salvage),
        }
    }
}

/// How the cause of lines begins that can be read, but have no place.
const READABLE: &str = "can be read, but";

fn is_misplaced(trouble: &Trouble) -> bool {
    trouble.cause.starts_with(READABLE)
}

/// Takes lines as long as they are a conversation, and looks at the others. `torn` says that the last has no end.
///
/// # Errors
/// A line of a file of another kind.
fn by_line(lines: &[&[u8]], torn: bool, mut words: Words) -> Result<Salvage, String> {
    let (mut messages, mut trouble) = (Vec::new(), Vec::<Trouble>::new());
    for (i, line) in lines.iter().enumerate() {
        let cause = match take(line) {
            Err(Not::Foreign(reason)) => return Err(format!("line {}: {reason}", i + 1)),
            Err(Not::Broken(reason)) if torn && i + 1 == lines.len() => {
                let reason = one_line(&reason);
                format!("it has no end, as if the file had been cut there: {reason}")
            }
            Err(Not::Broken(reason)) => one_line(&reason),
            Ok((message, more)) => {
                let bad = trouble.first().map(|trouble| trouble.first);
                if bad.is_none() {
                    messages.push(message);
                }
                match (bad, misplaced(&messages)) {
                    (None, None) => {
                        words.extend(more);
                        if line.ends_with(b"\r") {
                            words.add("line ends of CR and LF");
                        }
                        continue;
                    }
                    (None, Some(reason)) => {
                        messages.pop();
                        format!("{READABLE} it is {reason}")
                    }
                    (Some(bad), _) => format!("{READABLE} line {bad} before it is missing"),
                }
            }
        };
        match trouble.last_mut() {
            Some(last) if last.cause == cause => last.last = i + 1,
            _ => trouble.push(Trouble {
                first: i + 1,
                last: i + 1,
                cause,
            }),
        }
    }
    Ok(Salvage {
        messages,
        trouble,
        words: words.lines(),
    })
}

/// The message of one line, as a history has it or as other programs write it.
fn take(line: &[u8]) -> Result<(Message, Words), Not> {
    if line.len() as u64 > LONGEST_LINE {
        return Err(Not::Broken("the line exceeds 16 MiB".into()));
    }
    if !line.is_empty() && line.iter().all(|byte| *byte == 0) {
        return Err(Not::Broken(
            "nothing but NUL bytes, as a power cut leaves them".into(),
        ));
    }
    match parse(line) {
        Ok(message) => Ok((message, Words::default())),
        // What is wrong with it as a line of a history says more than what is wrong with it as something else.
        Err(reason) => import::record(line).map_err(|not| match not {
            Not::Broken(_) => Not::Broken(reason),
            foreign => foreign,
        }),
    }
}

/// With a byte-order mark, or with NUL in every other byte of the beginning.
fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [a, b, c, d, ..] => {
            let nul = [a, b, c, d].map(|byte| *byte == 0);
            nul == [false, true, false, true] || nul == [true, false, true, false]
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"{"role":"system","content":"z"}"#;
    const USER: &str = r#"{"role":"user","content":"x"}"#;
    const ASSISTANT: &str = r#"{"role":"assistant","content":"y"}"#;

    fn salvage(text: &str) -> Salvage {
        Salvage::of(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn a_plain_history_is_plain() {
        for text in [
            String::new(),
            format!("{USER}\n"),
            format!("{SYSTEM}\n{USER}\n{ASSISTANT}"),
        ] {
            let salvage = salvage(&text);
            assert!(salvage.is_plain(), "{text}: {salvage:?}");
            assert_eq!(salvage.messages.len(), text.matches("role").count());
        }
    }

    #[test]
    fn the_longest_beginning_is_kept_and_every_other_line_told() {
        let text = format!("{SYSTEM}\n{USER}\nnoise\n{USER}\n{ASSISTANT}\n\n{ASSISTANT}\n");
        let salvage = salvage(&text);
        assert_eq!(salvage.messages.len(), 2);
        let told: Vec<_> = salvage.trouble.iter().map(Trouble::to_string).collect();
        assert_eq!(
            told,
            [
                "line 3: the line is not a JSON object",
                "lines 4 to 5: can be read, but line 3 before it is missing",
                "line 6: the line is blank",
                "line 7: can be read, but line 3 before it is missing",
            ]
        );
    }

    #[test]
    fn causes_have_words_of_their_own() {
        for (text, kept, told) in [
            (
                format!("{USER}\n{}", &ASSISTANT[..20]),
                1,
                "line 2: it has no end",
            ),
            (
                format!("{USER}\n{USER}\n"),
                1,
                "line 2: can be read, but it is a message of the user",
            ),
            (
                format!("{USER}\n\0\0\0\0\0"),
                1,
                "line 2: it has no end, as if the file had been cut there: nothing but NUL",
            ),
            (
                format!("{USER}\n\0\0\0\0\0\n"),
                1,
                "line 2: nothing but NUL",
            ),
            (
                format!("noise\n{USER}\n"),
                0,
                "line 1: the line is not a JSON object",
            ),
        ] {
            let salvage = salvage(&text);
            assert_eq!(salvage.messages.len(), kept, "{text}");
            let first = salvage.trouble[0].to_string();
            assert!(first.starts_with(told), "{text}: {first}");
        }
    }

    #[test]
    fn other_shapes_have_a_word_and_other_kinds_are_refused() {
        for (bytes, count, word) in [
            (format!("\u{feff}{USER}\n"), 1, "byte-order mark"),
            ("\u{feff}".into(), 0, "byte-order mark"),
            (
                format!("{USER}\r\n{ASSISTANT}\r\n"),
                2,
                "CR and LF (2 times)",
            ),
            (format!("[{USER},\n{ASSISTANT}]"), 2, "JSON document"),
            (
                format!("\u{feff} {{\"messages\": [{USER}]}}\r\n"),
                1,
                "JSON document",
            ),
            (
                format!(
                    "{USER}\n{}\n",
                    ASSISTANT.replace("\"y\"", "\"y\",\"reasoning_content\":null")
                ),
                2,
                "null",
            ),
        ] {
            let salvage = salvage(&bytes);
            assert!(salvage.trouble.is_empty() && !salvage.is_plain(), "{bytes}");
            assert_eq!(salvage.messages.len(), count, "{bytes}");
            assert!(
                salvage.words.iter().any(|w| w.contains(word)),
                "{salvage:?}"
            );
        }
        let utf16 = |text: &str| {
            text.encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect::<Vec<_>>()
        };
        for (bytes, reason) in [
            (utf16(&format!("\u{feff}{USER}")), "UTF-16"),
            (utf16(USER), "UTF-16"),
            (
                b"just some notes\n".to_vec(),
                "line 1: the line is not a JSON object",
            ),
            (b"\x89PNG\r\n\x1a\n\0\0".to_vec(), "line 1"),
            (
                format!("{USER}\n{}\n", ASSISTANT.replace("assistant", "tool")).into_bytes(),
                "line 2: the role \"tool\"",
            ),
            (format!("[{USER},{USER}]").into_bytes(), "record 2"),
        ] {
            let error = Salvage::of(&bytes).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn no_flipped_bit_loses_a_line_before_it() {
        let thought = ASSISTANT.replace('}', r#","reasoning_content":"w"}"#);
        let text = format!("{SYSTEM}\n{USER}\n{thought}\n");
        let lines = [SYSTEM, USER, &thought].map(|line| parse(line.as_bytes()).unwrap());
        for at in 0..text.len() {
            let before = text[..at].matches('\n').count();
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                match Salvage::of(&bytes) {
                    Ok(salvage) => {
                        assert!(salvage.messages.len() >= before, "byte {at}, bit {bit}");
                        assert_eq!(salvage.messages[..before], lines[..before]);
                        if salvage.messages.len() < 3 {
                            assert_eq!(salvage.trouble[0].first, before + 1, "{salvage:?}");
                        }
                    }
                    // The bracket of a list in place of the first brace: nothing before it is lost.
                    Err(error) => assert!(before == 0, "byte {at}, bit {bit}: {error}"),
                }
            }
        }
    }
}
