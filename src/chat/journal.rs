//! The journal of the running turn: every token is on the drive before the next is computed; of a turn that a server makes,
//! its text. Where it is kept at last is not known here.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Sampling;
use super::facts::{seal_of_all, thinking};
use crate::checkpoint::atomic::AtomicFile;
use crate::checkpoint::one_line;
use crate::text::{Channel, Message, Thinking};

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
    /// Its ids so far; none of a turn that a server made.
    pub ids: Vec<u32>,
    /// Text of its think channel so far, of a turn that a server made.
    pub think: String,
    /// The same of its response channel.
    pub response: String,
}

impl Partial {
    /// Whether nothing was written down.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && !self.is_text()
    }

    /// Whether it is known by its text.
    pub fn is_text(&self) -> bool {
        !self.think.is_empty() || !self.response.is_empty()
    }

    /// Whether a message begins with its text.
    pub(super) fn begins(&self, message: &Message) -> bool {
        let reasoning = message.reasoning_content.as_deref().unwrap_or_default();
        reasoning.starts_with(&self.think) && message.content.starts_with(&self.response)
    }
}

/// What is written down at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A token's id.
    Id(u32),
    /// Text of a channel, where ids are not known.
    Text(Channel, String),
}

impl Step {
    /// As it stands in its line.
    fn written(&self) -> String {
        match self {
            Self::Id(id) => id.to_string(),
            Self::Text(channel, text) => {
                let text = serde_json::Value::from(text.as_str());
                format!("[\"{channel}\",{text}]")
            }
        }
    }

    /// What a line holds before its checksum.
    fn read(written: &str) -> Option<Self> {
        if let Ok(id) = written.parse() {
            return Some(Self::Id(id));
        }
        let (word, text): (String, String) = serde_json::from_str(written).ok()?;
        let channels = [Channel::Think, Channel::Response];
        let channel = channels
            .into_iter()
            .find(|channel| channel.to_string() == word)?;
        Some(Self::Text(channel, text))
    }

    /// What its line's checksum is made of, beside the one before.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Id(id) => id.to_le_bytes().to_vec(),
            Self::Text(..) => self.written().into_bytes(),
        }
    }
}

/// What a journal that ended held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// The ids of the turn.
    pub ids: Vec<u32>,
    /// Whether there was text instead.
    pub text: bool,
}

/// What a journal holds.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// There is none, or one without a token.
    Nothing,
    /// A turn of this conversation. The second part says where the file is damaged; the tokens before are kept.
    Turn(Box<Partial>, Option<String>),
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
    /// What is on the drive.
    written: Left,
    /// What is to be written yet.
    unwritten: Vec<Step>,
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
            text.extend_from_slice(sum.line(&Step::Id(*id)).as_bytes());
        }
        let mut file = AtomicFile::begin_own(path)?;
        file.write_all(&text)?;
        Ok(Self {
            file: file.commit_open()?,
            len: text.len() as u64,
            sum,
            written: Left {
                ids: ids.to_vec(),
                text: false,
            },
            unwritten: Vec::new(),
        })
    }

    /// Writes a step and waits until it is on the drive. After an error the step is written together with the next.
    pub fn append(&mut self, step: Step) -> io::Result<()> {
        self.unwritten.push(step);
        let mut sum = self.sum;
        let text: String = self.unwritten.iter().map(|step| sum.line(step)).collect();
        // Always from the end of what is known to be there: what an error left half written is written over.
        self.file.seek(SeekFrom::Start(self.len))?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.len += text.len() as u64;
        self.sum = sum;
        for step in std::mem::take(&mut self.unwritten) {
            self.written.take(step);
        }
        Ok(())
    }

    /// What the turn said.
    pub fn into_left(mut self) -> Left {
        for step in self.unwritten {
            self.written.take(step);
        }
        self.written
    }
}

impl Left {
    fn take(&mut self, step: Step) {
        match step {
            Step::Id(id) => self.ids.push(id),
            Step::Text(..) => self.text = true,
        }
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
    let mut partial = Partial {
        header: head.header,
        messages: head.messages,
        ids: Vec::new(),
        think: String::new(),
        response: String::new(),
    };
    let mut damage = None;
    let mut lines = lines.enumerate().peekable();
    while let Some((i, line)) = lines.next() {
        let step = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.rsplit_once(' '))
            .and_then(|(written, _)| Step::read(written));
        let mut next = sum;
        match step {
            Some(step) if next.line(&step).as_bytes() == line => match step {
                Step::Id(id) => partial.ids.push(id),
                Step::Text(Channel::Think, text) => partial.think += &text,
                Step::Text(_, text) => partial.response += &text,
            },
            // The last one may be torn: it was not on the drive when the end came.
            _ if lines.peek().is_none() && !line.ends_with(b"\n") => break,
            _ => {
                damage = Some(format!("line {}: not a token, or not the next one", i + 2));
                break;
            }
        }
        sum = next;
    }
    Found::Turn(Box::new(partial), damage)
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

    /// The line of the next step.
    fn line(&mut self, step: &Step) -> String {
        *self = Self::of(&[&self.0[..], &step.bytes()].concat());
        format!("{} {self}\n", step.written())
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
            journal.append(Step::Id(id)).unwrap();
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
        journal.append(Step::Id(9)).unwrap();
        assert_eq!(turn(&path, &[]), ([&IDS[..], &[9]].concat(), None));
    }

    #[test]
    fn text_of_a_server_is_written_and_found_as_ids_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let mut journal = Journal::begin(&path, &[], &header(), &[]).unwrap();
        let said = [
            (Channel::Think, "a \"b\"\n"),
            (Channel::Think, "思考 "),
            (Channel::Response, "12 0\u{1}"),
        ];
        for (channel, text) in said {
            journal
                .append(Step::Text(channel, text.to_owned()))
                .unwrap();
        }
        let left = Left {
            ids: Vec::new(),
            text: true,
        };
        assert_eq!(journal.into_left(), left);
        let whole = fs::read(&path).unwrap();
        let found = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            match recover(&path, &[]) {
                Found::Turn(partial, damage) => (partial.think, partial.response, damage.is_some()),
                other => panic!("{other:?}"),
            }
        };
        let think = "a \"b\"\n思考 ".to_owned();
        assert_eq!(
            found(&whole),
            (think.clone(), "12 0\u{1}".to_owned(), false)
        );
        assert_eq!(
            found(&whole[..whole.len() - 1]),
            (think, String::new(), false),
            "the last line is torn"
        );
        let changed = String::from_utf8(whole).unwrap().replace("思考", "思索");
        let (think, response, damaged) = found(changed.as_bytes());
        assert_eq!(
            (think.as_str(), response.as_str(), damaged),
            ("a \"b\"\n", "", true)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_full_drive_did_not_take_is_written_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("talk.journal");
        let mut journal = Journal::begin(&path, &[], &header(), &[]).unwrap();
        journal.append(Step::Id(1)).unwrap();
        // A device that is always full.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let real = std::mem::replace(&mut journal.file, full);
        for id in [2, 3] {
            let error = journal.append(Step::Id(id)).expect_err("full");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(turn(&path, &[]), (vec![1], None));
        journal.file = real;
        // Half a line that an error left.
        fs::write(&path, [&fs::read(&path).unwrap()[..], b"2 12"].concat()).unwrap();
        journal.append(Step::Id(4)).unwrap();
        assert_eq!(turn(&path, &[]), (vec![1, 2, 3, 4], None));
    }
}
