//! The files of a conversation under damage, full drives, kills and other programs' shapes: nothing is lost, nothing is
//! written over, and everything that is wrong is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use k3::chat::{
    Answer, Draw, Ended, Error, Facts, Header, HistoryFile, Opened, Sampling, Store, now,
};
use k3::text::{Effort, Message, Thinking};
use proptest::prelude::*;

fn talk() -> Vec<Message> {
    vec![
        Message::system("Be kind."),
        Message::user("Say \"hi\" in 中文,\nplease."),
        Message::assistant(Some("They greet: 你好".into()), "你好!"),
    ]
}

fn facts_of(ids: &[u32]) -> Facts {
    Facts {
        when: "2026-01-31T23:59:59Z".into(),
        answer: Some(Answer {
            model: "m".into(),
            ids: ids.to_vec(),
            thinking: Thinking::On(Some(Effort::High)),
            sampling: Sampling::Greedy,
            think_tokens: 3,
            response_tokens: 2,
            seconds_prefill: 1.5,
            seconds_decode: 2.25,
            retained: Some(0.5),
            drops: 0,
            ended: Ended::Finished,
        }),
    }
}

fn header() -> Header {
    Header {
        model: "m".into(),
        thinking: Thinking::default(),
        sampling: Sampling::Greedy,
        turn: 1,
        goes_on_from: None,
        when: now(),
    }
}

fn open(path: &Path) -> (Store, Opened) {
    Store::open(path).unwrap_or_else(|e| panic!("{e}"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A fixed sequence of numbers that look like none (xorshift).
fn numbers() -> impl FnMut() -> usize {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 33) as usize
    }
}

/// Puts `bytes` in place of a history whose lines before line `bad` (from 0) are whole, opens and saves it.
fn survives(bytes: &[u8], bad: usize, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    fs::write(&path, bytes).unwrap();
    let (mut store, opened) = match Store::open(&path) {
        Ok(opened) => opened,
        Err(error) => {
            // Only if not a single message could be taken: then the file stays as it is.
            let said = error.to_string();
            assert_eq!(bad, 0, "{what}: {said}");
            let named =
                said.contains("talk.jsonl") && (said.contains("line 1") || said.contains("UTF-16"));
            assert!(named || said.contains("column"), "{what}: {said}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "{what}");
            return;
        }
    };
    assert_eq!(
        fs::read(&path).unwrap(),
        bytes,
        "{what}: opening writes nothing"
    );
    assert!(opened.messages.len() >= bad, "{what}: {:?}", opened.notes);
    assert_eq!(opened.messages[..bad], talk()[..bad], "{what}");
    let strict = k3::text::history::read(&path);
    assert_eq!(
        strict.is_err(),
        opened.kept.is_some(),
        "{what}: {:?}",
        opened.notes
    );
    if let Some(kept) = &opened.kept {
        let line = format!("line {}", bad + 1);
        let name = kept.display().to_string();
        assert!(
            opened.notes.iter().any(|note| note.contains(&name)),
            "{what}"
        );
        assert!(
            opened.notes[0].contains(&line) || opened.notes[0].contains("lines"),
            "{what}: {:?}",
            opened.notes
        );
    }
    store.save(&opened.messages, &opened.facts).unwrap();
    if let Some(kept) = &opened.kept {
        assert_eq!(fs::read(kept).unwrap(), bytes, "{what}");
    }
    drop(store);
    let (_, again) = open(&path);
    assert_eq!(again.messages, opened.messages, "{what}");
    assert_eq!(again.kept, None, "{what}");
}

#[test]
fn no_damage_to_any_byte_loses_what_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    HistoryFile::new(&path).save(&talk()).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut number = numbers();
    for at in 0..whole.len() {
        let line = whole[..at].iter().filter(|byte| **byte == b'\n').count();
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (number() % 8);
        survives(&flipped, line, &format!("byte {at} flipped"));
        survives(&whole[..at], line, &format!("cut at {at}"));
        let nul = [&whole[..at], &[0], &whole[at..]].concat();
        survives(&nul, line, &format!("NUL at {at}"));
    }
}

#[test]
fn a_torn_end_has_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    HistoryFile::new(&path).save(&talk()).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let (_store, opened) = open(&path);
    assert_eq!(opened.messages, talk()[..2]);
    assert!(
        opened.notes[0].contains("line 3: it has no end"),
        "{:?}",
        opened.notes
    );
    assert!(opened.kept.unwrap().ends_with("talk.jsonl.damaged-1"));
}

#[test]
fn other_shapes_are_imported_and_the_original_stays() {
    let array = r#"[{"role":"user","content":[{"type":"text","text":"x"}]},
        {"role":"assistant","content":"y","reasoning_content":null}]"#;
    let lines = "\u{feff}{\"role\":\"user\",\"content\":\"x\"}\r\n{\"role\":\"assistant\",\"content\":\"y\"}\r\n";
    for (text, word) in [(array, "JSON document"), (lines, "byte-order mark")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.json");
        fs::write(&path, text).unwrap();
        let (mut store, opened) = open(&path);
        assert_eq!(
            opened.messages,
            [Message::user("x"), Message::assistant(None, "y")]
        );
        assert!(
            opened.notes.iter().any(|note| note.contains(word)),
            "{:?}",
            opened.notes
        );
        store.save(&opened.messages, &opened.facts).unwrap();
        assert_eq!(k3::text::history::read(&path).unwrap(), opened.messages);
        let kept = folder.path().join("talk.json.original-1");
        assert_eq!(fs::read_to_string(kept).unwrap(), text);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.json");
    for (text, reason) in [
        (
            r#"[{"role":"developer","content":"x"}]"#,
            "record 1: the role \"developer\"",
        ),
        (
            "{\"role\":\"user\",\"content\":\"x\"}\n{\"role\":\"tool\",\"content\":\"y\"}\n",
            "line 2: the role \"tool\"",
        ),
        (
            "{\"role\":\"user\",\"content\":\"x\"}\n{\"role\":\"assistant\",\"content\":null}\n",
            "line 2: `content` is null",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let error = Store::open(&path).expect_err(text).to_string();
        assert!(
            error.contains(reason) && error.contains("talk.json"),
            "{error}"
        );
        assert_eq!(names(folder.path()), ["talk.json", "talk.json.lock"]);
    }
}

#[test]
fn the_second_writer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let first = open(&path);
    assert!(matches!(Store::open(&path), Err(Error::Locked { .. })));
    #[cfg(unix)]
    {
        let link = folder.path().join("link.jsonl");
        HistoryFile::new(&path).save(&talk()).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(Store::open(&link), Err(Error::Locked { .. })));
    }
    drop(first);
    assert_eq!(open(&path).1.messages.len(), if cfg!(unix) { 3 } else { 0 });
}

#[test]
fn no_damage_to_the_sidecar_is_felt_in_the_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let facts = vec![
        None,
        Some(Facts {
            when: now(),
            answer: None,
        }),
        Some(facts_of(&[1, 22, 333])),
    ];
    let (mut store, _) = open(&path);
    store.save(&talk(), &facts).unwrap();
    drop(store);
    let (_, opened) = open(&path);
    assert_eq!((opened.facts, opened.notes), (facts.clone(), Vec::new()));
    let sidecar = folder.path().join("talk.jsonl.k3");
    let whole = fs::read(&sidecar).unwrap();
    let mut number = numbers();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (number() % 8);
        for bytes in [&flipped[..], &whole[..at]] {
            fs::write(&sidecar, bytes).unwrap();
            let (_, opened) = open(&path);
            assert_eq!(opened.messages, talk(), "byte {at}");
            let answer = |facts: &Option<Facts>| facts.clone().and_then(|facts| facts.answer);
            if let Some(answer) = answer(&opened.facts[2]) {
                assert_eq!(answer.ids, [1, 22, 333], "byte {at}");
            }
            let lost = opened.facts.iter().flatten().count() < 2;
            // What is cut at the end of a line cannot be told from what was never there.
            let told = !opened.notes.is_empty() || bytes.ends_with(b"}\n") || bytes.ends_with(b"}");
            assert!(!lost || told, "byte {at}: {:?}", opened.facts);
        }
    }
}

#[test]
fn an_edited_history_wins_over_the_facts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let (mut store, _) = open(&path);
    store
        .save(&talk(), &[None, None, Some(facts_of(&[1]))])
        .unwrap();
    drop(store);
    let mut edited = talk();
    edited[2].content.push('?');
    HistoryFile::new(&path).save(&edited).unwrap();
    let (_, opened) = open(&path);
    assert_eq!(
        (opened.messages, opened.facts),
        (edited, vec![None, None, None])
    );
    assert!(
        opened.notes[0].contains("changed elsewhere"),
        "{:?}",
        opened.notes
    );
}

#[test]
fn a_killed_turn_is_offered_and_a_saved_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let journal = folder.path().join("talk.jsonl.journal");
    let (asked, answered) = (talk()[..2].to_vec(), talk());
    let (mut store, _) = open(&path);
    store.save(&asked, &[None, None]).unwrap();
    store.begin_turn(&asked, &header(), &[]).unwrap();
    for id in [1, 2, 3] {
        store.token(id).unwrap();
    }
    // Killed here; opened and closed again, it is still offered.
    drop(store);
    drop(open(&path));
    let (mut store, opened) = open(&path);
    let partial = opened.partial.unwrap();
    assert_eq!(
        (partial.ids.as_slice(), partial.messages),
        (&[1, 2, 3][..], 2)
    );
    // Gone on with, and finished.
    store
        .begin_turn(&asked, &partial.header, &partial.ids)
        .unwrap();
    store.token(4).unwrap();
    let facts = [None, None, Some(facts_of(&[1, 2, 3, 4]))];
    store.save(&answered, &facts).unwrap();
    // Killed between saving the history and removing the journal.
    drop(store);
    assert!(journal.exists());
    let (mut store, opened) = open(&path);
    assert_eq!((opened.partial, opened.messages), (None, answered.clone()));
    assert!(!journal.exists());
    // Gone on with after it was saved as a cut answer.
    store.begin_turn(&asked, &header(), &[1, 2, 3, 4]).unwrap();
    store.token(5).unwrap();
    drop(store);
    let (mut store, opened) = open(&path);
    assert_eq!(opened.partial.unwrap().ids, [1, 2, 3, 4, 5]);
    // A new message without a decision: the journal is kept all the same.
    let more = [&answered[..], &[Message::user("more")]].concat();
    store.save(&more, &[None, None, None, None]).unwrap();
    store.begin_turn(&more, &header(), &[]).unwrap();
    store.token(9).unwrap();
    let first = folder.path().join("talk.jsonl.journal.kept-1");
    assert!(fs::read_to_string(&first).unwrap().contains("\n5 "));
    drop(store);
    // The history goes back: the journal is of another conversation now.
    HistoryFile::new(&path).save(&asked).unwrap();
    let (_, opened) = open(&path);
    assert_eq!(opened.partial, None);
    assert!(
        opened
            .notes
            .iter()
            .any(|note| note.contains("journal.kept-2")),
        "{:?}",
        opened.notes
    );
}

#[test]
fn a_kill_between_facts_and_history_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let (mut store, _) = open(&path);
    let asked = talk()[..2].to_vec();
    store.save(&asked, &[None, None]).unwrap();
    let before = fs::read(&path).unwrap();
    store.begin_turn(&asked, &header(), &[]).unwrap();
    store.token(1).unwrap();
    store.token(2).unwrap();
    store
        .save(&talk(), &[None, None, Some(facts_of(&[1, 2]))])
        .unwrap();
    drop(store);
    fs::write(&path, before).unwrap();
    let (mut store, opened) = open(&path);
    assert_eq!(opened.messages, asked);
    assert_eq!(opened.partial.unwrap().ids, [1, 2]);
    store.drop_partial().unwrap();
    drop(store);
    assert_eq!(open(&path).1.partial, None);
}

/// A small file system in memory, as long as this lives.
struct Mount(tempfile::TempDir);

impl Mount {
    /// None where this user may not mount; then it says that the test did not run.
    fn new(test: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Self::run(&["-t", "tmpfs", "-o", "size=128k", "tmpfs"], folder.path());
        if !mounted {
            println!("{test}: NOT RUN, no file system can be mounted here");
        }
        mounted.then(|| Self(folder))
    }

    fn run(options: &[&str], at: &Path) -> bool {
        let output = Command::new("mount").args(options).arg(at).output();
        output.is_ok_and(|output| output.status.success())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("talk.jsonl")
    }

    fn read_only(&self) {
        assert!(Self::run(&["-o", "remount,ro"], self.0.path()));
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let filler = self.0.path().join("filler");
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[1; 512]).is_ok() {}
        filler
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_drive_costs_nothing_but_the_word() {
    let Some(mount) = Mount::new("a_full_drive_costs_nothing_but_the_word") else {
        return;
    };
    let path = mount.path();
    let (mut store, _) = open(&path);
    store.save(&talk(), &[None, None, None]).unwrap();
    let long = [&talk()[..], &[Message::user("x".repeat(20_000))]].concat();
    store.begin_turn(&long, &header(), &[]).unwrap();
    let filler = mount.fill();
    let before = names(mount.0.path());
    match store.save(&long, &[None, None, None, None]) {
        Err(error @ Error::NotSaved { .. }) => {
            assert!(error.to_string().contains("No space left"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(k3::text::history::read(&path).unwrap(), talk());
    assert_eq!(names(mount.0.path()), before, "no temporary file stays");
    let ids: Vec<u32> = (0..2000).collect();
    let failed = ids.iter().filter(|id| store.token(**id).is_err()).count();
    assert!(failed > 0, "the drive was not full");
    // The history is not saved: the journal is all there is, and stays.
    assert!(matches!(store.end_turn(), Err(Error::JournalKept { .. })));
    fs::remove_file(filler).unwrap();
    store.save(&long, &[None, None, None, None]).unwrap();
    store.begin_turn(&long, &header(), &[]).unwrap();
    store.token(7).unwrap();
    let kept = mount.0.path().join("talk.jsonl.journal.kept-1");
    assert!(kept.exists());
    let filler = mount.fill();
    let mut failed = false;
    for id in &ids {
        failed |= store.token(*id).is_err();
    }
    fs::remove_file(filler).unwrap();
    store.token(8).unwrap();
    drop(store);
    let partial = open(&path).1.partial.unwrap();
    assert!(failed);
    assert_eq!(
        partial.ids,
        [&[7][..], &ids, &[8]].concat(),
        "what was late is there"
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_read() {
    let Some(mount) = Mount::new("a_folder_that_cannot_be_written_is_read") else {
        return;
    };
    let path = mount.path();
    HistoryFile::new(&path).save(&talk()).unwrap();
    let torn = mount.0.path().join("torn.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&torn, &whole[..whole.len() - 9]).unwrap();
    mount.read_only();
    let (mut store, opened) = open(&path);
    assert_eq!(opened.messages, talk());
    assert!(
        opened.notes[0].contains("saving it will fail"),
        "{:?}",
        opened.notes
    );
    let error = store.save(&talk(), &opened.facts).expect_err("read-only");
    assert!(matches!(error, Error::NotSaved { .. }), "{error}");
    let error = store
        .begin_turn(&talk(), &header(), &[])
        .expect_err("read-only");
    assert!(error.to_string().contains("the turn goes on"), "{error}");
    store.token(1).expect("nothing to write to");
    store.end_turn().expect("nothing to end");
    // A damaged one cannot be kept, so it cannot be saved.
    let (mut store, opened) = open(&torn);
    assert_eq!((opened.messages.len(), &opened.kept), (2, &None));
    let error = store
        .save(&opened.messages, &opened.facts)
        .expect_err("not kept");
    assert!(
        matches!(&error, Error::NotKept { cause, .. } if cause.kind() == ErrorKind::ReadOnlyFilesystem),
        "{error}"
    );
    assert_eq!(fs::read(&torn).unwrap(), whole[..whole.len() - 9]);
}

/// Says what a token costs in the folder of temporary files: `cargo test --release --test history_files -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_a_token_costs() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(&folder.path().join("talk.jsonl"));
    store.begin_turn(&talk(), &header(), &[]).unwrap();
    let mut times: Vec<_> = (0..500)
        .map(|id| {
            let started = std::time::Instant::now();
            store.token(id).unwrap();
            started.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "median {:?}, 95 of 100 within {:?}, longest {:?}",
        times[250], times[475], times[499]
    );
}

fn text() -> impl Strategy<Value = String> {
    // Anything but NUL, which no history can hold.
    proptest::collection::vec(any::<char>().prop_filter("NUL", |c| *c != '\0'), 0..20)
        .prop_map(|chars| chars.into_iter().collect())
}

fn number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |x| x.is_finite())
}

prop_compose! {
    fn answer()(
        model in text(), ids in proptest::collection::vec(any::<u32>(), 0..8),
        thinking in prop_oneof![
            Just(Thinking::Off), Just(Thinking::On(None)), Just(Thinking::On(Some(Effort::Low)))
        ],
        sampling in prop_oneof![
            Just(Sampling::Greedy),
            (number(), number(), any::<Option<usize>>(), any::<u64>()).prop_map(
                |(temperature, top_p, top_k, seed)| Sampling::Draw(Draw { temperature, top_p, top_k, seed })
            ),
        ],
        ended in prop_oneof![
            Just(Ended::Finished), any::<u32>().prop_map(Ended::StopId), text().prop_map(Ended::Failed)
        ],
        tokens in any::<(u16, u16, u64)>(), seconds in (number(), number()),
        retained in proptest::option::of(number()),
    ) -> Answer {
        Answer {
            model, ids, thinking, sampling, ended, retained,
            think_tokens: tokens.0.into(), response_tokens: tokens.1.into(), drops: tokens.2,
            seconds_prefill: seconds.0, seconds_decode: seconds.1,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_conversation_comes_back(
        system in proptest::option::of(text()),
        turns in proptest::collection::vec((text(), proptest::option::of(text()), text(), proptest::option::of(answer())), 0..4),
        asked in any::<bool>(),
    ) {
        let (mut messages, mut facts) = (Vec::new(), Vec::new());
        if let Some(system) = system {
            messages.push(Message::system(system));
            facts.push(None);
        }
        for (user, reasoning, content, answer) in turns {
            messages.push(Message::user(user));
            facts.push(Some(Facts { when: now(), answer: None }));
            messages.push(Message::assistant(reasoning, content));
            facts.push(answer.map(|answer| Facts { when: now(), answer: Some(answer) }));
        }
        if !asked && messages.last().is_some_and(|m| m.role == k3::text::Role::Assistant) {
            messages.pop();
            facts.pop();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.jsonl");
        let (mut store, _) = open(&path);
        store.save(&messages, &facts).unwrap();
        drop(store);
        let (_, opened) = open(&path);
        prop_assert_eq!(opened.messages, messages);
        prop_assert_eq!(opened.facts, facts);
        prop_assert_eq!(opened.notes, Vec::<String>::new());
        prop_assert_eq!(opened.kept, None);
    }
}
