//! The sidecar of a history: facts about its messages, in a file beside it. The history wins wherever the two differ, and
//! no error of this file stops a conversation.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::facts::{Facts, seal};
use crate::checkpoint::atomic::replace_own;
use crate::checkpoint::one_line;
use crate::text::Message;

/// What a sidecar appends to the name of the history.
pub(super) const SUFFIX: &str = ".k3";
const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    k3_facts: u32,
}

/// Any other line.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// Which message, from 0.
    message: usize,
    /// Of the message as it was, and of the ids of this entry.
    seal: String,
    #[serde(flatten)]
    facts: Facts,
}

/// What a sidecar gave.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// For each message.
    pub facts: Vec<Option<Facts>>,
    /// What is wrong with the file, if it is damaged.
    pub damage: Option<String>,
    /// Entries whose message is another one now, or is not there.
    pub outdated: usize,
}

/// Reads the facts about these messages. A file that is not there has none.
pub(super) fn read(path: &Path, messages: &[Message]) -> Read {
    let mut read = Read {
        facts: vec![None; messages.len()],
        ..Read::default()
    };
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return read,
        Err(e) => {
            read.damage = Some(e.to_string());
            return read;
        }
    };
    let mut lines = text
        .strip_suffix(b"\n")
        .unwrap_or(&text)
        .split(|byte| *byte == b'\n');
    let head = lines.next().unwrap_or_default();
    match serde_json::from_slice::<Head>(head) {
        Ok(Head { k3_facts: VERSION }) => {}
        Ok(Head { k3_facts }) => {
            read.damage = Some(format!("line 1: version {k3_facts} is not known here"));
            return read;
        }
        Err(e) => {
            read.damage = Some(one_line(&format!("line 1: {e}")));
            return read;
        }
    }
    for (i, line) in lines.enumerate() {
        let entry: Entry = match serde_json::from_slice(line) {
            Ok(entry) => entry,
            Err(e) => {
                read.damage
                    .get_or_insert_with(|| one_line(&format!("line {}: {e}", i + 2)));
                continue;
            }
        };
        let ids = entry
            .facts
            .answer
            .as_ref()
            .map_or(&[][..], |answer| &answer.ids);
        match messages.get(entry.message) {
            Some(message) if seal(message, ids) == entry.seal => {
                read.facts[entry.message] = Some(entry.facts);
            }
            _ => read.outdated += 1,
        }
    }
    read
}

/// Replaces the file at `path`.
///
/// # Errors
/// It cannot be written; the old one is as it was.
pub(super) fn write(path: &Path, messages: &[Message], facts: &[Option<Facts>]) -> io::Result<()> {
    let mut text = serde_json::to_vec(&Head { k3_facts: VERSION })?;
    text.push(b'\n');
    for (i, (message, facts)) in messages.iter().zip(facts).enumerate() {
        let Some(facts) = facts else { continue };
        let ids = facts.answer.as_ref().map_or(&[][..], |answer| &answer.ids);
        let entry = Entry {
            message: i,
            seal: seal(message, ids),
            facts: facts.clone(),
        };
        serde_json::to_writer(&mut text, &entry)?;
        text.push(b'\n');
    }
    replace_own(path, &text)
}
