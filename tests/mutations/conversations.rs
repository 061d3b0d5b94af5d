//! History, sidecar and journal of a conversation, each changed while the others are good.

use std::fs;
use std::path::{Path, PathBuf};

use k3::chat::{Answer, Ended, Facts, Header, Opened, Sampling, Store};
use k3::text::{Message, Thinking};

use crate::harness::{Format, campaign, one_line};

const HISTORY: &str = "talk.jsonl";
const IDS: [u32; 6] = [7, 19, 3, 163_585, 4, 90];

fn talk() -> Vec<Message> {
    vec![
        Message::system("Be kind."),
        Message::user("Say \"hi\" in 中文,\nplease."),
        Message::assistant(Some("They greet: 你好".into()), "你好!"),
        Message::user("And \u{1b}[2J now?"),
    ]
}

fn facts() -> Vec<Option<Facts>> {
    let answer = Answer {
        model: "m".into(),
        ids: IDS.to_vec(),
        thinking: Thinking::On(None),
        sampling: Sampling::Greedy,
        think_tokens: 3,
        response_tokens: 2,
        seconds_prefill: 1.5,
        seconds_decode: 2.25,
        retained: Some(0.5),
        drops: 0,
        ended: Ended::Finished,
    };
    let facts = Facts {
        when: "2026-01-31T23:59:59Z".into(),
        answer: Some(answer),
    };
    vec![None, None, Some(facts), None]
}

/// A conversation of which a turn is running, and the names and contents of its three files.
fn files(folder: &Path) -> [(PathBuf, Vec<u8>); 3] {
    let path = folder.join(HISTORY);
    let header = Header {
        model: "m".into(),
        thinking: Thinking::default(),
        sampling: Sampling::Greedy,
        turn: 2,
        goes_on_from: None,
        when: "2026-01-31T23:59:59Z".into(),
    };
    let (mut store, _) = Store::open(&path).unwrap();
    store.save(&talk(), &facts()).unwrap();
    store.begin_turn(&talk(), &header, &[]).unwrap();
    for id in IDS {
        store.token(id).unwrap();
    }
    [".k3", ".journal", ""].map(|suffix| {
        let path = folder.join(format!("{HISTORY}{suffix}"));
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    })
}

/// Opens a conversation of which file `changed` has these bytes; checks what holds whatever they are. Nothing that was in the
/// file may be gone afterwards, also not after saving.
fn open(bytes: &[u8], changed: usize) -> Result<Opened, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path());
    files[changed].1 = bytes.to_vec();
    for (path, bytes) in &files {
        fs::write(path, bytes).unwrap();
    }
    let history = folder.path().join(HISTORY);
    let (mut store, opened) = Store::open(&history).map_err(|e| e.to_string())?;
    for note in &opened.notes {
        one_line(note, "a note");
    }
    assert_eq!(opened.messages.len(), opened.facts.len());
    for facts in opened.facts.iter().flatten() {
        let answer = facts.answer.as_ref();
        assert!(
            answer.is_none_or(|answer| answer.ids == IDS),
            "other ids are believed"
        );
    }
    if let Some(partial) = &opened.partial {
        assert!(IDS.starts_with(&partial.ids), "other ids are believed");
    }
    let was = |path: &Path| fs::read(path).is_ok_and(|now| now == bytes);
    // A journal of which no token was written whole holds nothing.
    let empty = changed == 1 && bytes.iter().filter(|byte| **byte == b'\n').count() < 2;
    assert!(
        empty || names(folder.path()).iter().any(|path| was(path)),
        "what the file held is gone after opening"
    );
    let plain = opened.kept.is_none();
    store
        .save(&opened.messages, &opened.facts)
        .map_err(|e| e.to_string())?;
    let again = k3::text::history::read(&history).map_err(|e| e.to_string())?;
    assert_eq!(again, opened.messages);
    let history_changed = changed == 2;
    if history_changed && !plain {
        let kept = names(folder.path()).iter().any(|path| was(path));
        assert!(kept, "what the history held is gone after saving");
    }
    Ok(opened)
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn changed(which: usize, name: &'static str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let [(_, sidecar), (_, journal), (_, history)] = files(folder.path());
    let good = [sidecar, journal, history];
    campaign(Format {
        name,
        file: Some(HISTORY.to_owned()),
        good: vec![good[which].clone()],
        words,
        memory: (64, 256 << 10),
        read: Box::new(move |bytes| {
            let opened = open(bytes, which)?;
            // Sidecar and journal are helpers: nothing in them is felt in the conversation.
            if which < 2 {
                assert_eq!(opened.messages, talk());
            }
            Ok(())
        }),
    });
}

#[test]
fn changed_histories_end_in_an_answer() {
    let words = [
        "\"role\":\"user\"",
        "\"content\":null",
        "\"tool_calls\":[]",
        "\"reasoning_content\":",
        "{\"messages\":[",
        "{\"mapping\":{",
        "\n",
        "\\ud800",
    ];
    changed(2, "history", &words);
}

#[test]
fn changed_sidecars_are_not_felt_in_the_conversation() {
    changed(
        0,
        "sidecar",
        &[
            "\"message\":2",
            "\"seal\":\"\"",
            "\"k3_facts\":1",
            "\"ids\":[1]",
            "\n",
        ],
    );
}

#[test]
fn changed_journals_never_give_another_token() {
    changed(
        1,
        "journal",
        &[
            "\n",
            "7 ",
            "\"turn\":1",
            "\"messages\":4",
            "\"k3_journal\":1",
        ],
    );
}
