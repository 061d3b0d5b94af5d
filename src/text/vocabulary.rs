//! The vocabulary: which byte strings are tokens, and their ranks. Read from `tiktoken.model`; special tokens are
//! not in it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::{Result, TextError, read_file};
use crate::checkpoint::one_line;

/// Longest token that is accepted, in bytes; the longest of the release has 256.
const LONGEST_TOKEN: usize = 512;
/// A free slot of the hash table.
const FREE: u32 = u32::MAX;

/// Tokens by rank and ranks by token. A rank is the id of its token, from 0 without gaps.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// The bytes of all tokens, in the order of rank.
    bytes: Vec<u8>,
    /// Where each token ends in `bytes`.
    ends: Vec<u32>,
    /// Ranks by hash, with linear probing; a power of two, at most half full.
    slots: Vec<u32>,
    longest: usize,
}

impl Vocabulary {
    /// Reads a `tiktoken.model`: a line a token, the token's bytes in base64, one space, its rank.
    ///
    /// # Errors
    /// The file cannot be read; a line is not of this form; ranks are not 0, 1, 2, … in order; a token comes twice
    /// or has more than 512 bytes; one of the 256 single bytes is no token.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&read_file(path)?).map_err(|(line, reason)| TextError::Vocabulary {
            path: path.to_owned(),
            line,
            reason,
        })
    }

    /// [`Self::read`] without the file; errors are the line and what is wrong there.
    fn parse(text: &[u8]) -> std::result::Result<Self, (usize, String)> {
        let mut vocabulary = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            slots: vec![FREE; 1024],
            longest: 0,
        };
        let mut lines = 0;
        for line in text.split(|&byte| byte == b'\n') {
            lines += 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                vocabulary
                    .add_line(line)
                    .map_err(|reason| (lines, reason))?;
            }
        }
        if let Some(missing) = (0..=u8::MAX).find(|&byte| vocabulary.rank(&[byte]).is_none()) {
            return Err((
                lines,
                format!("the file ends without a token for the single byte {missing}"),
            ));
        }
        vocabulary.bytes.shrink_to_fit();
        vocabulary.ends.shrink_to_fit();
        Ok(vocabulary)
    }

    fn add_line(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        let separator = line
            .iter()
            .position(|&byte| byte == b' ')
            .ok_or("no space between token and rank")?;
        let (token, rank) = (&line[..separator], &line[separator + 1..]);
        let token = STANDARD
            .decode(token)
            .map_err(|error| format!("the token is not base64 ({error})"))?;
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(format!(
                "a token has {} bytes, not 1 to {LONGEST_TOKEN}",
                token.len()
            ));
        }
        let next = self.len();
        let in_order = rank.iter().all(u8::is_ascii_digit)
            && std::str::from_utf8(rank).is_ok_and(|digits| digits.parse() == Ok(next));
        if !in_order {
            return Err(format!(
                "rank {} stands where {next} must follow",
                one_line(&String::from_utf8_lossy(rank))
            ));
        }
        let slot = match self.find(&token) {
            Ok(rank) => return Err(format!("the token is that of rank {rank} once more")),
            Err(slot) => slot,
        };
        let end = u32::try_from(self.bytes.len() + token.len())
            .map_err(|_| "the tokens exceed 4 GiB".to_owned())?;
        self.slots[slot] = next;
        self.longest = self.longest.max(token.len());
        self.bytes.extend_from_slice(&token);
        self.ends.push(end);
        if 2 * self.ends.len() >= self.slots.len() {
            self.grow();
        }
        Ok(())
    }

    /// Makes the hash table twice as large.
    fn grow(&mut self) {
        self.slots = vec![FREE; 2 * self.slots.len()];
        for rank in 0..self.len() {
            if let Err(slot) = self.find(self.token(rank)) {
                self.slots[slot] = rank;
            }
        }
    }

    /// The rank of a token, or the free slot where it would stand.
    fn find(&self, token: &[u8]) -> std::result::Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash(token) as usize & mask;
        loop {
            match self.slots[slot] {
                FREE => return Err(slot),
                rank if self.token(rank) == token => return Ok(rank),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// The bytes of a rank that exists.
    fn token(&self, rank: u32) -> &[u8] {
        let start = rank
            .checked_sub(1)
            .map_or(0, |before| self.ends[before as usize]);
        &self.bytes[start as usize..self.ends[rank as usize] as usize]
    }

    /// How many tokens there are, and so the first id that is none of theirs.
    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Never: a vocabulary has the 256 single bytes at least.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rank of these bytes if they are a token.
    pub fn rank(&self, token: &[u8]) -> Option<u32> {
        if token.len() > self.longest {
            None
        } else {
            self.find(token).ok()
        }
    }

    /// The bytes of a rank.
    pub fn bytes(&self, rank: u32) -> Option<&[u8]> {
        (rank < self.len()).then(|| self.token(rank))
    }
}

#[cfg(test)]
impl Vocabulary {
    /// The single bytes and `merges`.
    pub(super) fn small(merges: &[impl AsRef<[u8]>]) -> Self {
        Self::parse(super::small_vocabulary::tiktoken_model(merges).as_bytes()).unwrap()
    }
}

/// A hash that is good enough for byte strings that a file chose before any text was seen.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    // The multiplication mixes upwards, the table looks at the low bits.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::small_vocabulary::{MERGES, tiktoken_model};

    fn reason(text: &str) -> (usize, String) {
        Vocabulary::parse(text.as_bytes())
            .map(|vocabulary| vocabulary.len())
            .expect_err("refused")
    }

    #[test]
    fn tokens_and_ranks_are_found_both_ways() {
        let vocabulary = Vocabulary::small(&MERGES);
        assert_eq!(vocabulary.len(), 256 + MERGES.len() as u32);
        assert!(!vocabulary.is_empty());
        for rank in 0..vocabulary.len() {
            assert_eq!(vocabulary.rank(vocabulary.bytes(rank).unwrap()), Some(rank));
        }
        assert_eq!(vocabulary.bytes(vocabulary.len()), None);
        assert_eq!(vocabulary.rank(b"no such token"), None);
        assert_eq!(vocabulary.rank(&[b'x'; 600]), None);
        // The released order of the single bytes.
        for (byte, rank) in [
            (b'!', 0),
            (b'a', 64),
            (0, 188),
            (b'\t', 197),
            (b'\n', 198),
            (b' ', 220),
            (0x7f, 221),
        ] {
            assert_eq!(vocabulary.rank(&[byte]), Some(rank));
        }
    }

    #[test]
    fn line_ends_are_forgiven() {
        let model = tiktoken_model(&[""; 0]);
        for text in [
            model.replace('\n', "\r\n"),
            model.trim_end().to_owned(),
            model.replacen('\n', "\n\n", 3),
        ] {
            assert_eq!(Vocabulary::parse(text.as_bytes()).unwrap().len(), 256);
        }
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let model = tiktoken_model(&["ab"]);
        let replaced = |line: usize, by: &str| {
            let mut lines: Vec<&str> = model.lines().collect();
            lines[line - 1] = by;
            reason(&lines.join("\n"))
        };
        assert_eq!(replaced(3, "Iw==2").0, 3);
        assert!(
            replaced(3, "Iw==  2")
                .1
                .contains("stands where 2 must follow")
        );
        assert!(replaced(3, "Iw= 2").1.contains("base64"));
        assert!(replaced(3, "#### 2").1.contains("base64"));
        assert!(replaced(3, " 2").1.contains("0 bytes"));
        assert_eq!(
            replaced(3, "Iw== +2"),
            (3, "rank +2 stands where 2 must follow".into())
        );
        assert!(replaced(3, "Iw== ").1.contains("where 2"));
        assert!(replaced(3, "Iw== 1").1.contains("rank 1 stands where 2"));
        assert!(replaced(3, "Iw== 3").1.contains("rank 3 stands where 2"));
        assert!(replaced(3, "IQ== 2").1.contains("that of rank 0 once more"));
    }

    #[test]
    fn every_single_byte_must_be_there() {
        let model = tiktoken_model(&[""; 0]);
        let cut: String = model
            .lines()
            .take(255)
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(reason(&cut).1.contains("single byte 173"));
        assert!(reason("").1.contains("single byte 0"));
    }

    #[test]
    fn a_token_of_512_bytes_is_the_longest() {
        let with = |length: usize| tiktoken_model(&["x".repeat(length).as_str()]);
        assert!(Vocabulary::parse(with(512).as_bytes()).is_ok());
        assert_eq!(
            reason(&with(513)),
            (257, "a token has 513 bytes, not 1 to 512".into())
        );
    }

    #[test]
    fn the_error_names_the_file_and_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiktoken.model");
        let missing = Vocabulary::read(&path).expect_err("missing").to_string();
        assert!(missing.contains("tiktoken.model"), "{missing}");
        std::fs::write(&path, "IQ== 0\nIQ== 1\n").unwrap();
        let message = Vocabulary::read(&path).expect_err("twice").to_string();
        assert!(
            message.contains("tiktoken.model:2: the token is that of rank 0 once more"),
            "{message}"
        );
    }
}
