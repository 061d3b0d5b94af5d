//! A conversation with a real server, named by the environment: `K3_REAL_SERVER` is its address, `K3_REAL_MODEL` its model (where it has
//! several), `K3_API_KEY` its key. NOT RUN without. docs/remote.md says which servers it was run against, and how they are started.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use k3::chat::{Limits, Sampling, Store};
use k3::engine::remote::{Key, Opening, Patience, Retry, Server, start};
use k3::engine::{Command, Ended, Event, Handle, TurnFacts};
use k3::text::Effort;

const DEADLINE: Duration = Duration::from_secs(120);

/// The rest of a turn: its text, what was noted, its figures.
fn turn(engine: &Handle) -> (String, Vec<String>, TurnFacts) {
    let (mut text, mut notes) = (String::new(), Vec::new());
    loop {
        match engine.events.recv_timeout(DEADLINE).expect("an event") {
            Event::Delta { text: more, .. } => text += &more,
            Event::Note(note) | Event::Warning(note) => notes.push(note),
            Event::TurnEnded(facts) => return (text, notes, facts),
            _ => {}
        }
    }
}

#[test]
fn a_real_server_answers_twice_and_what_it_said_is_kept() {
    let Ok(address) = std::env::var("K3_REAL_SERVER") else {
        println!("a real server: NOT RUN, K3_REAL_SERVER names none");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let server = Server::new(&address)
        .unwrap()
        .with_key(Key::from_environment().unwrap())
        .with_model(std::env::var("K3_REAL_MODEL").ok());
    let engine = start(Opening {
        server,
        history: Some(Store::open(&path).unwrap()),
        system: Some("Be brief.".to_owned()),
        effort: Some(Effort::Low),
        sampling: Sampling::Greedy,
        limits: Limits {
            tokens: Some(64),
            stop_ids: Vec::new(),
        },
        patience: Patience::default(),
        retry: Retry::default(),
    })
    .unwrap();
    match engine.events.recv_timeout(DEADLINE).unwrap() {
        Event::Ready { model, .. } => println!("{model:?}"),
        other => panic!("{other:?}"),
    }
    for question in ["Hello!", "And again?"] {
        engine
            .commands
            .send(Command::Send(question.to_owned()))
            .unwrap();
        let (text, notes, facts) = turn(&engine);
        println!("{question} -> {text:?} {facts:?} {notes:?}");
        let ended = matches!(facts.ended, Ended::Finished | Ended::Limit | Ended::Length);
        assert!(ended && !text.is_empty(), "{:?}", facts.ended);
    }
    println!("{:?}", engine.telemetry.read().remote);
    engine.commands.send(Command::Quit).unwrap();
    while !matches!(
        engine.events.recv_timeout(DEADLINE).unwrap(),
        Event::Stopped(_)
    ) {}
    let (_, opened) = Store::open(&path).unwrap();
    assert_eq!(opened.messages.len(), 5, "{:?}", opened.notes);
}
