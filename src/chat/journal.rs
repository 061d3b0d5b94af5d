//! The journal of the running turn: every token is on the drive before the next is computed. What a turn says and where
//! it is kept at last is not known here.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Sampling;
use super::facts::{seal_of_all, thinking};
use crate::checkpoint::atomic::AtomicFile;
use crate::checkpoint::one_line;
use crate::text::{Message, Thinking};

/// What a journal appends to the name of the history.
pub(super) const SUFFIX: &str = ".journal";
const VERSION: u32 = 1;

/// What a turn began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The identity of the model.
    pub model: String,
    /// How much it was asked to think.
    #[serde(with = "thinking")]
    pub thinking: Thinking,
    /// How its tokens are chosen.
    pub sampling: Sampling,
    /// The turn's number, for the generator: 1 and the assistants' messages before it.
    pub turn: u64,
    /// When it began: RFC 3339 in UTC.
    pub when: String,
    /// The seal of the message that holds the turn's beginning, if it goes on with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_on_from: Option<String>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    k3_journal: u32,
    /// Messages that the turn answers to, and their hash.
    messages: usize,
    seal: String,
    #[serde(flatten)]
    header: Header,
}

/// A turn that did not end.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// What it began with.
    pub header: Header,
    /// How many messages it answers to. If the history has one more, that one is the beginning of this turn that was saved
    /// before it was gone on with, or an earlier answer in its place.
    pub messages: usize,
    /// Its ids so far.
    pub ids: Vec<u32>,
}

/// What a journal holds.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// There is none, or one without a token.
    Nothing,
    /// A turn of this conversation. The second part says where the file is damaged; the tokens before are kept.
    Turn(Partial, Option<String>),
    /// A turn of another conversation, or of an earlier state of this one.
    Stale,
    /// Not even its first line can be read.
    Garbage(String),
}

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Bytes that are on the drive.
    len: u64,
    sum: Sum,
    ids: Vec<u32>,
    /// How many of them are on the drive.
    written: usize,
}

impl Journal {
    /// Begins the journal of a turn that answers to `messages` and has `ids` so far, in place of what was there.
    pub fn begin(
        path: &Path,
        messages: &[Message],
        header: &Header,
        ids: &[u32],
    ) -> io::Result<Self> {
        let head = Head {
            k3_journal: VERSION,
            messages: messages.len(),
            seal: seal_of_all(messages),
            header: header.clone(),
        };
        let mut text = serde_json::to_vec(&head)?;
        let mut sum = Sum::of(&text);
        text.extend_from_slice(format!(" {sum}\n").as_bytes());
        for id in ids {
            text.extend_from_slice(sum.line(*id).as_bytes());
        }
        let mut file = AtomicFile::begin_own(path)?;
        file.write_all(&text)?;
        Ok(Self {
            file: file.commit_open()?,
            len: text.len() as u64,
            sum,
            ids: ids.to_vec(),
            written: ids.len(),
        })
    }

    /// Writes a token and waits until it is on the drive. After an error the token is written together with the next.
    pub fn append(&mut self, id: u32) -> io::Result<()> {
        self.ids.push(id);
        let mut sum = self.sum;
        let text: String = self.ids[self.written..]
            .iter()
            .map(|id| sum.line(*id))
            .collect();
        // Always from the end of what is known to be there: what an error left half written is written over.
        self.file.seek(SeekFrom::Start(self.len))?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.len += text.len() as u64;
        self.sum = sum;
        self.written = self.ids.len();
        Ok(())
    }

    /// The ids of the turn.
    pub fn into_ids(self) -> Vec<u32> {
        self.ids
    }
}

/// Looks for a turn that did not end and that belongs to this conversation.
pub(super) fn recover(path: &Path, messages: &[Message]) -> Found {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Found::Nothing,
        Err(e) => return Found::Garbage(e.to_string()),
    };
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let (head, mut sum) = match head(lines.next().unwrap_or_default()) {
        Ok(head) => head,
        Err(reason) => return Found::Garbage(format!("line 1: {reason}")),
    };
    if lines.clone().next().is_none() {
        // Nothing was said yet.
        return Found::Nothing;
    }
    let before = messages.get(..head.messages);
    if before.is_none_or(|before| seal_of_all(before) != head.seal)
        || messages.len() > head.messages + 1
    {
        return Found::Stale;
    }
    let (mut ids, mut damage) = (Vec::new(), None);
    let mut lines = lines.enumerate().peekable();
    while let Some((i, line)) = lines.next() {
        let id = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once(' '))
            .and_then(|(id, _)| id.parse().ok());
        let mut next = sum;
        match id {
            Some(id) if next.line(id).as_bytes() == line => ids.push(id),
            // The last one may be torn: it was not on the drive when the end came.
            _ if lines.peek().is_none() && !line.ends_with(b"\n") => break,
            _ => {
                damage = Some(format!("line {}: not a token, or not the next one", i + 2));
                break;
            }
        }
        sum = next;
    }
    let partial = Partial {
        header: head.header,
        messages: head.messages,
        ids,
    };
    Found::Turn(partial, damage)
}

/// The first line, and the sum that the next one goes on from.
fn head(line: &[u8]) -> Result<(Head, Sum), String> {
    let line = line.strip_suffix(b"\n").ok_or("it has no end")?;
    // The sum is the eight digits behind the last space.
    let at = line.len().checked_sub(9).ok_or("it is too short")?;
    let (json, stated) = line.split_at(at);
    let sum = Sum::of(json);
    if stated != format!(" {sum}").as_bytes() {
        return Err("its checksum is another".into());
    }
    let head: Head = serde_json::from_slice(json).map_err(|e| one_line(&e.to_string()))?;
    match head.k3_journal {
        VERSION => Ok((head, sum)),
        other => Err(format!("version {other} is not known here")),
    }
}

/// A checksum over everything up to a line: the first four bytes of a SHA-256 that goes on from line to line, so that a
/// line that is missing is seen as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum([u8; 4]);

impl Sum {
    fn of(bytes: &[u8]) -> Self {
        let hash = Sha256::digest(bytes);
        Self([hash[0], hash[1], hash[2], hash[3]])
    }

    /// The line of the next token.
    fn line(&mut self, id: u32) -> String {
        *self = Self::of(&[self.0, id.to_le_bytes()].concat());
        format!("{id} {self}\n")
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn header() -> Header {
        Header {
            model: "m".into(),
            thinking: Thinking::default(),
            sampling: Sampling::Greedy,
            turn: 1,
            goes_on_from: None,
            when: "2026-01-31T23:59:59Z".into(),
        }
    }

    fn turn(path: &Path, messages: &[Message]) -> (Vec<u32>, Option<String>) {
        match recover(path, messages) {
            Found::Turn(partial, damage) => {
                assert_eq!(partial.header, header());
                (partial.ids, damage)
            }
            other => panic!("{other:?}"),
        }
    }

    const IDS: [u32; 4] = [7, 163_585, 0, u32::MAX];

    /// A journal of [`IDS`], and the lengths of the file after the header and after each of them.
    fn written(path: &Path, messages: &[Message]) -> Vec<usize> {
        let mut journal = Journal::begin(path, messages, &header(), &[]).unwrap();
        let mut lengths = vec![fs::metadata(path).unwrap().len() as usize];
        for (i, id) in IDS.into_iter().enumerate() {
            journal.append(id).unwrap();
            lengths.push(fs::metadata(path).unwrap().len() as usize);
            assert_eq!(turn(path, messages), (IDS[..=i].to_vec(), None));
        }
        lengths
    }

    #[test]
    fn a_cut_at_any_byte_costs_the_last_token_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let messages = [Message::user("x")];
        let lengths = written(&path, &messages);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            if cut < lengths[0] {
                assert!(matches!(recover(&path, &messages), Found::Garbage(_)));
                continue;
            }
            if cut == lengths[0] {
                assert_eq!(recover(&path, &messages), Found::Nothing);
                continue;
            }
            let count = lengths.iter().filter(|len| **len <= cut).count() - 1;
            assert_eq!(turn(&path, &messages), (IDS[..count].to_vec(), None));
        }
    }

    #[test]
    fn no_flipped_bit_gives_another_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let messages = [Message::user("x")];
        let lengths = written(&path, &messages);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&path, &bytes).unwrap();
                if at < lengths[0] {
                    assert!(
                        matches!(recover(&path, &messages), Found::Garbage(_)),
                        "{at}"
                    );
                    continue;
                }
                let count = lengths.iter().filter(|len| **len <= at).count() - 1;
                let (ids, damage) = turn(&path, &messages);
                assert_eq!(ids, IDS[..count], "byte {at}, bit {bit}");
                // Without its end the last line looks torn.
                let torn = at + 1 == whole.len();
                assert_eq!(damage.is_some(), !torn, "byte {at}, bit {bit}");
            }
        }
        // A line that is missing.
        let without = [&whole[..lengths[1]], &whole[lengths[2]..]].concat();
        fs::write(&path, without).unwrap();
        let (ids, damage) = turn(&path, &messages);
        assert_eq!((ids.as_slice(), damage.is_some()), (&IDS[..1], true));
    }

    #[test]
    fn a_journal_belongs_to_the_conversation_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let (user, assistant) = (Message::user("x"), Message::assistant(None, "y"));
        assert_eq!(recover(&path, &[]), Found::Nothing);
        written(&path, std::slice::from_ref(&user));
        let of = |messages: &[Message]| match recover(&path, messages) {
            Found::Turn(partial, None) => partial.messages,
            Found::Stale => 0,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(std::slice::from_ref(&user)), 1);
        assert_eq!(of(&[user.clone(), assistant.clone()]), 1);
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[Message::user("z")]), 0);
        assert_eq!(of(&[user.clone(), assistant, user]), 0);
    }

    #[test]
    fn a_turn_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let mut journal = Journal::begin(&path, &[], &header(), &IDS).unwrap();
        journal.append(9).unwrap();
        assert_eq!(turn(&path, &[]), ([&IDS[..], &[9]].concat(), None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_full_drive_did_not_take_is_written_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let mut journal = Journal::begin(&path, &[], &header(), &[]).unwrap();
        journal.append(1).unwrap();
        // A device that is always full.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let real = std::mem::replace(&mut journal.file, full);
        for id in [2, 3] {
            let error = journal.append(id).expect_err("full");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(turn(&path, &[]), (vec![1], None));
        journal.file = real;
        // Half a line that an error left.
        fs::write(&path, [&fs::read(&path).unwrap()[..], b"2 12"].concat()).unwrap();
        journal.append(4).unwrap();
        assert_eq!(turn(&path, &[]), (vec![1, 2, 3, 4], None));
    }
}
