//! A model on a server, from the commands of the screen to the bytes on the wire and the files of the conversation, against a
//! server on this computer that plays every fault.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;
#[path = "support/server.rs"]
mod server;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k3::chat::{Change, Draw, Limits, Sampling, Store};
use k3::engine::remote::{self, Key, Opening, Patience, Retry};
use k3::engine::telemetry::Metrics;
use k3::engine::{self, Command, Ended, Event, Handle, TurnFacts};
use k3::stream::Preset;
use k3::text::{Channel, Effort, Message};
use server::{
    CHUNKED, Certificate, EVENTS, Script, Server, content, json, reasoning, stop, whole, with,
};

const VLLM: &str = include_str!("remote/vllm.sse");
const SGLANG: &str = include_str!("remote/sglang.sse");

/// Far more than anything takes; only a failure waits so long.
const DEADLINE: Duration = Duration::from_secs(60);

fn at(address: &str) -> Opening {
    Opening {
        server: remote::Server::new(address).unwrap(),
        history: None,
        system: None,
        effort: Some(Effort::Max),
        sampling: Sampling::Greedy,
        limits: Limits::default(),
        patience: Patience::default(),
        retry: Retry {
            times: 2,
            first: Duration::from_millis(1),
            longest: Duration::from_secs(60),
        },
    }
}

/// The same, kept in a file.
fn kept(address: &str, path: &Path) -> Opening {
    Opening {
        history: Some(Store::open(path).unwrap()),
        ..at(address)
    }
}

fn next(engine: &Handle) -> Event {
    engine.events.recv_timeout(DEADLINE).expect("an event")
}

/// Opens it, and waits until it is.
fn open(opening: Opening) -> (Handle, Event) {
    let engine = remote::start(opening).unwrap();
    let ready = next(&engine);
    (engine, ready)
}

fn ready(opening: Opening) -> Handle {
    match open(opening) {
        (engine, Event::Ready { .. }) => engine,
        (_, other) => panic!("{other:?}"),
    }
}

/// Why it did not open.
fn refused(opening: Opening) -> String {
    match open(opening).1 {
        Event::Stopped(Some(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// What a turn told.
#[derive(Debug, Default)]
struct Told {
    think: String,
    response: String,
    notes: Vec<String>,
    others: Vec<Event>,
}

/// The rest of a turn.
fn turn(engine: &Handle) -> (Told, TurnFacts) {
    let mut told = Told::default();
    loop {
        match next(engine) {
            Event::Delta {
                channel: Some(Channel::Think),
                text,
            } => told.think += &text,
            Event::Delta { text, .. } => told.response += &text,
            Event::Note(note) => told.notes.push(note),
            Event::TurnEnded(facts) => return (told, facts),
            Event::TurnStarted { .. } => {}
            other => told.others.push(other),
        }
    }
}

fn send(engine: &Handle, command: Command) {
    engine.commands.send(command).unwrap();
}

fn ask(engine: &Handle, text: &str) -> (Told, TurnFacts) {
    send(engine, Command::Send(text.to_owned()));
    turn(engine)
}

/// Ends an engine, and waits until it has given back what it had.
fn end(engine: &Handle) {
    send(engine, Command::Quit);
    loop {
        match next(engine) {
            Event::Stopped(None) => return,
            Event::Stopped(Some(why)) => panic!("{why}"),
            _ => {}
        }
    }
}

fn failed(facts: &TurnFacts) -> &str {
    match &facts.ended {
        Ended::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

/// What one answer comes to.
fn answered(script: Script) -> (Told, TurnFacts) {
    let server = Server::start(script);
    let engine = ready(at(&server.address));
    let answered = ask(&engine, "hello");
    end(&engine);
    answered
}

#[test]
fn the_streams_of_vllm_and_sglang_are_understood() {
    for (stream, think_tokens, cached) in [(VLLM, 5, Some(16)), (SGLANG, 5, None)] {
        let server = Server::start(Script::always([EVENTS, stream].concat()));
        let engine = ready(at(&server.address));
        let (told, facts) = ask(&engine, "hello");
        assert_eq!(told.think, "They greet 漢字.");
        assert_eq!(told.response, "Héllo 👩‍🚀!\n");
        assert_eq!(facts.ended, Ended::Finished);
        assert_eq!((facts.fed, facts.positions), (31, 40));
        assert_eq!(facts.think_tokens + facts.response_tokens, 9);
        assert_eq!(facts.think_tokens, think_tokens);
        let figures = engine.telemetry.read().remote.unwrap();
        assert_eq!(figures.all.made, 9);
        assert_eq!(figures.last.unwrap().cached, cached);
        assert!(figures.first_token.is_some());
        assert_eq!(engine.telemetry.read().positions, (40, 4096));
        end(&engine);
    }
}

#[test]
fn every_cut_of_a_stream_gives_the_same_answer() {
    // Every byte by itself, inside characters and lines too; as HTTP has it, and all at once.
    let stream = VLLM.replace('\n', "\r\n");
    let bytes = stream.clone();
    let singly = Script::new(move |_, wire| {
        wire.write_all(CHUNKED.as_bytes())?;
        for byte in bytes.bytes() {
            wire.write_all(&[b'1', b'\r', b'\n', byte, b'\r', b'\n'])?;
            wire.flush()?;
        }
        wire.write_all(b"0\r\n\r\n")
    });
    let length = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n",
        stream.len()
    );
    let whole = Script::always([&length, stream.as_str()].concat());
    let marked = Script::always([EVENTS, "\u{feff}: ping\r\r", &VLLM.replace('\n', "\r")].concat());
    for script in [singly, whole, marked] {
        let (told, facts) = answered(script);
        assert_eq!(
            (told.think.as_str(), told.response.as_str()),
            ("They greet 漢字.", "Héllo 👩‍🚀!\n")
        );
        assert_eq!(facts.ended, Ended::Finished);
    }
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Hi","reasoning_content":"hm"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let (told, facts) = answered(Script::always(json(200, body)));
    assert_eq!((told.think.as_str(), told.response.as_str()), ("hm", "Hi"));
    assert_eq!((facts.ended, facts.positions), (Ended::Length, 5));
}

#[test]
fn an_error_in_the_stream_cuts_the_answer_and_is_told() {
    for error in [
        r#"{"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","param":null,"code":500}}"#,
        r#"{"object":"error","message":"EngineCore encountered an issue","code":500}"#,
    ] {
        let stream = [
            EVENTS,
            &content("Half an "),
            "data: ",
            error,
            "\n\ndata: [DONE]\n\n",
        ]
        .concat();
        let (told, facts) = answered(Script::always(stream));
        assert_eq!(told.response, "Half an ");
        assert!(failed(&facts).ends_with("failed: EngineCore encountered an issue"));
        assert!(told.notes.is_empty(), "not asked again: {told:?}");
    }
}

#[test]
fn a_connection_that_ends_early_keeps_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let half = [
        EVENTS,
        &reasoning("They"),
        &content("Half a wo"),
        "data: {\"choi",
    ]
    .concat();
    let chunked = [CHUNKED, "5\r\ndata:"].concat();
    for (number, stream) in [half, chunked].into_iter().enumerate() {
        let server = Server::start(Script::new(move |nth, wire| match nth {
            0 => wire.write_all(stream.as_bytes()),
            _ => wire.write_all(whole("again", "Whole").as_bytes()),
        }));
        let engine = ready(kept(&server.address, &path));
        let (told, facts) = ask(&engine, "hello");
        if number == 0 {
            assert!(failed(&facts).contains("ended in the middle"), "{facts:?}");
            assert_eq!(
                (told.think.as_str(), told.response.as_str()),
                ("They", "Half a wo")
            );
            assert_eq!(server.questions().len(), 1);
            end(&engine);
            let (_, opened) = Store::open(&path).unwrap();
            let last = opened.messages.last().unwrap();
            assert_eq!(last, &Message::assistant(Some("They".into()), "Half a wo"));
            let answer = opened
                .facts
                .last()
                .unwrap()
                .clone()
                .unwrap()
                .answer
                .unwrap();
            assert!(matches!(answer.ended, Ended::Failed(_)), "{answer:?}");
            // Opened again, it says so, and the answer can be made anew.
            let (engine, ready) = open(kept(&server.address, &path));
            let Event::Ready {
                open: Some(Ended::Failed(_)),
                ..
            } = ready
            else {
                panic!("{ready:?}");
            };
            send(&engine, Command::Continue);
            assert!(matches!(next(&engine), Event::Refused(why) if why.contains("/regen")));
            send(&engine, Command::Regenerate);
            let (told, facts) = turn(&engine);
            assert_eq!(
                (told.response.as_str(), facts.ended),
                ("Whole", Ended::Finished)
            );
            end(&engine);
        } else {
            // Nothing was said yet, so it is asked again.
            assert_eq!(
                (told.response.as_str(), facts.ended),
                ("Whole", Ended::Finished)
            );
            assert_eq!(told.notes.len(), 1);
            end(&engine);
        }
    }
}

#[test]
fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    let busy = r#"{"error":{"message":"Too many requests"}}"#;
    for (fault, tries) in [
        (with(429, &["Retry-After: 0"], busy), 2),
        (json(500, busy), 2),
        (json(503, "<html>busy</html>"), 2),
        (String::new(), 2),
        (with(429, &["Retry-After: 3600"], busy), 1),
        (json(400, busy), 1),
        (json(401, busy), 1),
    ] {
        let first = fault.clone();
        let server = Server::start(Script::new(move |nth, wire| match nth {
            0 => wire.write_all(first.as_bytes()),
            _ => wire.write_all(whole("hm", "Hi").as_bytes()),
        }));
        let engine = ready(at(&server.address));
        let (told, facts) = ask(&engine, "hello");
        assert_eq!(server.questions().len(), tries, "{fault}");
        match tries {
            2 => {
                assert_eq!(facts.ended, Ended::Finished, "{fault}");
                assert_eq!(told.notes.len(), 1);
                assert!(told.notes[0].contains("asking again"), "{told:?}");
                assert_eq!(engine.telemetry.read().remote.unwrap().again, 1);
            }
            _ => {
                let why = failed(&facts);
                assert!(
                    why.contains("Too many requests") && !why.contains('<'),
                    "{why}"
                );
                // The message waits, and can be answered.
                send(&engine, Command::Send("more".into()));
                assert!(matches!(next(&engine), Event::Refused(why) if why.contains("/continue")));
                send(&engine, Command::Continue);
                assert_eq!(turn(&engine).0.response, "Hi");
            }
        }
        end(&engine);
    }
}

#[test]
fn it_is_not_tried_for_ever() {
    let (told, facts) = answered(Script::always(json(500, r#"{"error":"out of memory"}"#)));
    assert_eq!(told.notes.len(), 2);
    assert!(failed(&facts).contains("answered 500: out of memory"));
}

#[test]
fn a_chunk_that_is_no_json_is_refused_without_its_text() {
    let stream = [
        EVENTS,
        &content("a"),
        "data: {\"choices\": rosebud}\n\n",
        &stop(),
    ]
    .concat();
    let (told, facts) = answered(Script::always(stream));
    let why = failed(&facts);
    assert!(
        why.contains("no valid JSON at line 1") && !why.contains("rosebud"),
        "{why}"
    );
    assert_eq!(told.response, "a");
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
    let (_, facts) = answered(Script::always(page.to_owned()));
    assert!(failed(&facts).contains("\"text/html\" instead of a stream"));
}

#[test]
fn a_line_of_a_hundred_megabytes_is_refused_and_not_read() {
    const PIECE: usize = 1 << 16;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let (_, facts) = answered(Script::new(move |_, wire| {
        wire.write_all([EVENTS, &content("a"), "data: "].concat().as_bytes())?;
        for _ in 0..100_000_000 / PIECE {
            wire.write_all(&[b'x'; PIECE])?;
            count.fetch_add(PIECE, Ordering::SeqCst);
        }
        Ok(())
    }));
    assert!(failed(&facts).contains("a line of more than"), "{facts:?}");
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 32 << 20, "{sent} bytes were taken");
}

#[test]
fn another_address_is_not_followed_and_gets_no_key() {
    let other = Server::start(Script::always(whole("hm", "Hi")));
    let to = format!(
        "Location: {}/v1/chat/completions?key=sk-secret",
        other.address
    );
    for status in [301, 302, 307, 308] {
        let server = Server::start(Script::always(with(status, &[&to], "")));
        let mut opening = at(&server.address);
        opening.server = opening
            .server
            .with_key(Some(Key::new("sk-secret", "").unwrap()));
        let engine = ready(opening);
        let (_, facts) = ask(&engine, "hello");
        let why = failed(&facts);
        assert!(
            why.contains(&other.address) && !why.contains("sk-secret"),
            "{why}"
        );
        end(&engine);
    }
    assert!(other.seen().is_empty());
}

#[test]
fn a_certificate_must_be_trusted_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, another) = (Certificate::own(), Certificate::own());
    let server = Server::start_with(Script::always(whole("hm", "Hi")), Some(&certificate));
    let path = folder.path().join("ca.pem");
    let named = |pem: &str| {
        std::fs::write(&path, pem).unwrap();
        let mut opening = at(&server.address);
        opening.server = opening.server.with_certificates(&path).unwrap();
        opening
    };
    for opening in [at(&server.address), named(&another.pem)] {
        let why = refused(opening);
        assert!(
            why.contains("no safe connection") && why.contains("ca_file"),
            "{why}"
        );
    }
    assert!(server.seen().is_empty());
    let engine = ready(named(&certificate.pem));
    assert_eq!(ask(&engine, "hello").0.response, "Hi");
    end(&engine);
}

#[test]
fn a_field_that_a_server_refuses_is_left_out_with_a_note() {
    let refusal = r#"{"error":{"message":"Input should be 'low', 'medium' or 'high'","type":"Bad Request","param":"reasoning_effort","code":400}}"#;
    let server = Server::start(Script::new(move |nth, wire| match nth {
        0 => wire.write_all(json(400, refusal).as_bytes()),
        1 => {
            wire.write_all(json(422, r#"{"detail":"extra field chat_template_kwargs"}"#).as_bytes())
        }
        _ => wire.write_all(whole("hm", "Hi").as_bytes()),
    }));
    let engine = ready(at(&server.address));
    let (told, facts) = ask(&engine, "hello");
    assert_eq!(facts.ended, Ended::Finished);
    assert_eq!(told.notes.len(), 2, "{told:?}");
    assert!(told.notes[0].contains("refuses reasoning_effort"));
    assert!(ask(&engine, "and?").0.notes.is_empty(), "it is known");
    let questions = server.questions();
    assert_eq!(questions[0]["reasoning_effort"], "max");
    assert_eq!(questions[1].get("reasoning_effort"), None);
    assert_eq!(questions[3].get("chat_template_kwargs"), None);
    end(&engine);
}

#[test]
fn what_is_set_reaches_the_server() {
    let server = Server::start(Script::always(whole("They greet.", "Hi")));
    let mut opening = at(&server.address);
    opening.system = Some("Be kind.".into());
    opening.server = opening
        .server
        .with_key(Some(Key::new("sk-secret", "").unwrap()));
    let engine = ready(opening);
    ask(&engine, "one");
    let draw = Draw {
        temperature: 0.5,
        ..Draw::new(7)
    };
    for command in [
        Command::Effort(Effort::Low),
        Command::Sampling(Sampling::Draw(draw)),
    ] {
        send(&engine, command);
        next(&engine);
    }
    ask(&engine, "two");
    send(&engine, Command::Think(false));
    next(&engine);
    ask(&engine, "three");
    let questions = server.questions();
    assert_eq!(questions[0]["temperature"], 0);
    assert_eq!(
        questions[0]["chat_template_kwargs"]["thinking_effort"],
        "max"
    );
    assert_eq!(questions[0]["messages"][0]["content"], "Be kind.");
    assert_eq!(questions[1]["temperature"], 0.5);
    assert_eq!(questions[1]["seed"], 7);
    assert_eq!(questions[1]["reasoning_effort"], "low");
    assert_eq!(
        questions[1]["messages"][2]["reasoning_content"],
        "They greet."
    );
    assert_eq!(questions[2]["chat_template_kwargs"]["thinking"], false);
    assert_eq!(questions[2]["messages"][2].get("reasoning_content"), None);
    let posts = server
        .seen()
        .into_iter()
        .filter(|seen| seen.line.starts_with("POST"));
    for post in posts {
        let key = "authorization: bearer sk-secret";
        assert!(
            post.headers
                .iter()
                .any(|line| line.to_ascii_lowercase() == key)
        );
    }
    end(&engine);
}

#[test]
fn no_key_and_no_message_is_in_errors_or_beside_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let quoting = r#"{"error":{"message":"Incorrect key sk-secret-123. Input: {'content': 'My password is rosebud, keep it'}"}}"#;
    let stream = [EVENTS, &content("a"), "data: ", quoting, "\n\n"].concat();
    let server = Server::start(Script::new(move |nth, wire| match nth {
        0 => wire.write_all(json(401, quoting).as_bytes()),
        _ => wire.write_all(stream.as_bytes()),
    }));
    let mut opening = kept(&server.address, &path);
    opening.server = opening
        .server
        .with_key(Some(Key::new("sk-secret-123", "").unwrap()));
    let shown = format!("{opening:?}");
    let engine = ready(opening);
    let message = "My password is rosebud, keep it";
    let mut told = vec![shown, failed(&ask(&engine, message).1).to_owned()];
    send(&engine, Command::Continue);
    told.push(failed(&turn(&engine).1).to_owned());
    end(&engine);
    for text in &told {
        assert!(
            !text.contains("sk-secret") && !text.contains("rosebud"),
            "{text}"
        );
    }
    assert!(told[1].contains("Incorrect key (key)"), "{}", told[1]);
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned();
        assert!(!text.contains("sk-secret"), "{}", entry.display());
        assert_eq!(
            text.contains("rosebud"),
            entry == path,
            "{}",
            entry.display()
        );
        files += 1;
    }
    assert!(files >= 3, "history, sidecar and lock");
}

/// A server that says something, and then waits until the other end has gone.
fn waiting(first: String) -> (Server, crossbeam_channel::Receiver<bool>) {
    let (gone, told) = crossbeam_channel::bounded(1);
    let server = Server::start(Script::new(move |_, wire| {
        wire.write_all([EVENTS, &first].concat().as_bytes())?;
        wire.flush()?;
        let mut rest = [0; 1];
        // A client that closes in the middle may reset the connection.
        let closed = !matches!(wire.read(&mut rest), Ok(1..));
        let _ = gone.send(closed);
        Ok(())
    }));
    (server, told)
}

#[test]
fn a_cancel_closes_the_connection_at_once() {
    for (first, said) in [(content("Half"), "Half"), (String::new(), "")] {
        let (server, gone) = waiting(first);
        let engine = ready(at(&server.address));
        send(&engine, Command::Send("hello".into()));
        loop {
            match next(&engine) {
                Event::TurnStarted { .. } if said.is_empty() => break,
                Event::Delta { .. } => break,
                _ => {}
            }
        }
        // Where nothing was said, the question must have arrived before it is taken back.
        let deadline = Instant::now() + DEADLINE;
        while server.questions().is_empty() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        for command in [
            Command::Pause,
            Command::Send("more".into()),
            Command::Offers,
        ] {
            send(&engine, command);
            assert!(matches!(next(&engine), Event::Refused(_)));
        }
        send(&engine, Command::Cancel);
        let (_, facts) = turn(&engine);
        assert_eq!(facts.ended, Ended::Cancelled);
        assert!(gone.recv_timeout(DEADLINE).unwrap(), "closed");
        end(&engine);
    }
}

#[test]
fn a_server_that_falls_silent_is_not_waited_for_for_ever() {
    for (first, said) in [(content("Half"), "Half"), (String::new(), "")] {
        let (server, gone) = waiting(first);
        let mut opening = at(&server.address);
        opening.patience = Patience {
            first: Duration::from_millis(100),
            between: Duration::from_millis(100),
            ..Patience::default()
        };
        let engine = ready(opening);
        let (told, facts) = ask(&engine, "hello");
        assert_eq!(told.response, said);
        assert!(failed(&facts).contains("said nothing for"), "{facts:?}");
        assert!(gone.recv_timeout(DEADLINE).unwrap());
        end(&engine);
    }
}

#[test]
fn what_came_is_in_the_journal_while_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let (server, _gone) = waiting([reasoning("They"), content("Half a wo")].concat());
    let engine = ready(kept(&server.address, &path));
    send(&engine, Command::Send("hello".into()));
    let journal = folder.path().join("talk.jsonl.journal");
    let deadline = Instant::now() + DEADLINE;
    let half = loop {
        let text = std::fs::read(&journal).unwrap_or_default();
        if String::from_utf8_lossy(&text).contains("Half a wo") {
            break text;
        }
        assert!(Instant::now() < deadline, "not written down");
        std::thread::yield_now();
    };
    // What a power cut would leave: history and journal as they are now.
    let cut = folder.path().join("cut.jsonl");
    std::fs::copy(&path, &cut).unwrap();
    let left = half;
    std::fs::write(folder.path().join("cut.jsonl.journal"), &left).unwrap();
    send(&engine, Command::Cancel);
    turn(&engine);
    end(&engine);
    assert!(!journal.exists(), "it is in the history");
    let (engine, ready) = open(kept(&server.address, &cut));
    let Event::Ready { messages, open, .. } = ready else {
        panic!("{ready:?}");
    };
    assert_eq!(open, Some(Ended::Killed));
    let last = Message::assistant(Some("They".into()), "Half a wo");
    assert_eq!(messages.last(), Some(&last));
    assert!(matches!(next(&engine), Event::Note(note) if note.contains("kept as far")));
    end(&engine);
    // The model on this computer takes it up as well.
    let here = folder.path().join("here.jsonl");
    std::fs::write(&here, "{\"role\":\"user\",\"content\":\"hello\"}\n").unwrap();
    std::fs::write(folder.path().join("here.jsonl.journal"), &left).unwrap();
    let plan = demo::chat(&["--states-gb", "0", "--history", here.to_str().unwrap()]);
    let engine = engine::start(move || plan.open()).unwrap();
    match next(&engine) {
        Event::Ready { messages, open, .. } => {
            assert_eq!(messages.last(), Some(&last));
            assert_eq!(open, None, "its ids are not known");
        }
        other => panic!("{other:?}"),
    }
    end(&engine);
}

#[test]
fn a_conversation_goes_from_a_server_to_this_computer_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let server = Server::start(Script::always(whole("They greet.", "Hi there.")));
    let engine = ready(kept(&server.address, &path));
    ask(&engine, "hello");
    end(&engine);
    let (_, opened) = Store::open(&path).unwrap();
    let answer = opened.facts[1].clone().unwrap().answer.unwrap();
    assert_eq!((answer.model.as_str(), answer.ids.len()), ("server: k3", 0));
    // Here.
    let history = path.to_str().unwrap();
    let plan = demo::chat(&["--states-gb", "0", "--gen", "3", "--history", history]);
    let here = engine::start(move || plan.open()).unwrap();
    match next(&here) {
        Event::Ready { messages, open, .. } => {
            assert_eq!(messages.len(), 2);
            assert_eq!(
                messages[1],
                Message::assistant(Some("They greet.".into()), "Hi there.")
            );
            assert_eq!(open, None);
        }
        other => panic!("{other:?}"),
    }
    let (told, _) = ask(&here, "and what is the ring?");
    end(&here);
    // And back: with all that was said.
    let engine = ready(kept(&server.address, &path));
    ask(&engine, "thanks");
    end(&engine);
    let questions = server.questions();
    let messages = questions[1]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5);
    assert_eq!(
        messages[3]["reasoning_content"]
            .as_str()
            .unwrap_or_default(),
        told.think
    );
    assert_eq!(messages[3]["content"], told.response);
    let (_, opened) = Store::open(&path).unwrap();
    assert!(opened.notes.is_empty(), "{:?}", opened.notes);
    assert_eq!(opened.messages.len(), 6);
}

#[test]
fn reasoning_is_separated_here_where_the_server_does_not() {
    let raw = "They greet.<|close|>think<|sep|><|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>";
    let pieces: Vec<String> = raw
        .as_bytes()
        .chunks(3)
        .map(|piece| content(std::str::from_utf8(piece).unwrap()))
        .collect();
    let server = Server::start(Script::always([EVENTS, &pieces.concat(), &stop()].concat()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let engine = ready(kept(&server.address, &path));
    let (first, facts) = ask(&engine, "hello");
    assert_eq!(facts.ended, Ended::Finished);
    assert_eq!(first.notes.len(), 1, "{first:?}");
    // It was shown as the answer, and then shown anew in its place.
    let shown = first.others.iter().find_map(|event| match event {
        Event::Conversation { messages, .. } => messages.last().cloned(),
        _ => None,
    });
    assert_eq!(
        shown,
        Some(Message::assistant(Some("They greet.".into()), ""))
    );
    assert!(
        first
            .others
            .contains(&Event::TurnResumed { prompt_tokens: 0 })
    );
    // From the first word on, the next time.
    let (second, _) = ask(&engine, "again");
    assert_eq!(
        (second.think.as_str(), second.response.as_str()),
        ("They greet.", "Hi")
    );
    assert!(
        second.notes.is_empty() && second.others.is_empty(),
        "{second:?}"
    );
    end(&engine);
    let (_, opened) = Store::open(&path).unwrap();
    let answer = Message::assistant(Some("They greet.".into()), "Hi");
    assert_eq!(
        (&opened.messages[1], &opened.messages[3]),
        (&answer, &answer)
    );
}

#[test]
fn the_model_is_the_only_one_or_the_one_that_is_named() {
    let two = r#"{"data":[{"id":"a"},{"id":"b","max_model_len":99}]}"#;
    let mut script = Script::always(whole("hm", "Hi"));
    script.models = json(200, two);
    let server = Server::start(script);
    let why = refused(at(&server.address));
    assert!(why.contains("--model") && why.contains("a, b"), "{why}");
    let named = |name: &str| {
        let mut opening = at(&server.address);
        opening.server = opening.server.with_model(Some(name.to_owned()));
        opening
    };
    assert!(refused(named("c")).contains("no model c; it has a, b"));
    match open(named("b")) {
        (engine, Event::Ready { model, .. }) => {
            assert_eq!((model.name.as_str(), model.context), ("b", 99));
            assert_eq!(model.server, Some(server.address.replace("http://", "")));
            end(&engine);
        }
        (_, other) => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_that_says_what_to_do() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let free = listener.local_addr().unwrap().port();
    drop(listener);
    let why = refused(at(&format!("http://127.0.0.1:{free}")));
    assert!(
        why.contains("cannot be reached") && why.contains("is the server running"),
        "{why}"
    );
}

#[test]
fn what_only_a_model_here_can_do_is_refused_with_a_word() {
    let server = Server::start(Script::always(whole("hm", "Hi")));
    let engine = ready(at(&server.address));
    for command in [
        Command::Preset(Preset::Laptop),
        Command::Budget(Change::Ring(4)),
        Command::Offers,
    ] {
        send(&engine, command);
        assert!(matches!(next(&engine), Event::Refused(why) if why.contains("on a server")));
    }
    for command in [Command::Cancel, Command::Pause, Command::Undo] {
        send(&engine, command);
        assert!(matches!(next(&engine), Event::Refused(_)));
    }
    ask(&engine, "one");
    send(&engine, Command::Undo);
    let event = next(&engine);
    let Event::Conversation {
        messages,
        taken_back: Some(text),
        ..
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!((messages.len(), text.as_str()), (0, "one"));
    ask(&engine, "two");
    send(&engine, Command::Reset);
    assert_eq!(
        next(&engine),
        Event::Reset {
            messages: Vec::new()
        }
    );
    end(&engine);
}

#[test]
fn what_the_server_says_about_itself_is_in_the_telemetry() {
    let mut script = Script::always(whole("hm", "Hi"));
    let metrics = "vllm:num_requests_running{engine=\"0\"} 2.0\nvllm:num_requests_waiting{engine=\"0\"} 1.0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n";
    script.metrics = with(200, &[], metrics);
    let server = Server::start(script);
    let engine = ready(at(&server.address));
    let deadline = Instant::now() + DEADLINE;
    let figures = loop {
        if let Some(Metrics::Known(figures)) = engine.telemetry.read().remote.map(|r| r.metrics) {
            break figures;
        }
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    };
    assert_eq!((figures.engine, figures.running), ("vLLM", Some(2)));
    assert_eq!((figures.waiting, figures.cache), (Some(1), Some(0.5)));
    end(&engine);
}
