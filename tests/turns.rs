//! Turns of a conversation, taken apart: stopped anywhere and gone on with, guessed ahead, drawn, opened again. Whatever
//! happens on the way, the tokens are those of an undisturbed conversation, and nothing is read twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;

use std::path::{Path, PathBuf};

use k3::chat::{Ended, Observer, Session, TurnFacts};
use k3::model::Network;
use k3::text::{Channel, Effort, Message};

/// A conversation with the demo model. Less thinking makes shorter turns.
fn open(arguments: &[&str]) -> Session {
    let common = ["--thinking-effort", "low", "--threads", "1"];
    demo::chat(&[&common, arguments].concat()).open().unwrap().1
}

/// What is heard of a turn, and when it is stopped.
#[derive(Default)]
struct Listener {
    /// Stops when it is asked for the time after so many.
    stop_after: Option<usize>,
    asked: usize,
    said: String,
    warned: Vec<String>,
}

impl Listener {
    fn stopping(after: usize) -> Self {
        Self {
            stop_after: Some(after),
            ..Self::default()
        }
    }
}

impl Observer for Listener {
    fn prefill(&mut self, _: usize, _: usize) {}
    fn between(&mut self, _: &mut Network) {}
    fn delta(&mut self, channel: Option<Channel>, text: &str) {
        self.said += match channel {
            Some(Channel::Think) => "t:",
            Some(_) => "r:",
            None => "",
        };
        self.said += text;
    }
    fn warn(&mut self, why: &str) {
        self.warned.push(why.to_owned());
    }
    fn stop(&mut self) -> bool {
        self.asked += 1;
        self.stop_after.is_some_and(|after| self.asked > after)
    }
}

fn answer(session: &mut Session) -> (String, TurnFacts) {
    let mut listener = Listener::default();
    let (facts, saved) = session.answer(&mut listener);
    saved.unwrap();
    assert_eq!(listener.warned, [""; 0]);
    (listener.said, facts)
}

/// The ids of every answer so far.
fn ids(session: &Session) -> Vec<Vec<u32>> {
    let answers = session.facts().iter().flatten();
    answers
        .filter_map(|facts| Some(facts.answer.as_ref()?.ids.clone()))
        .collect()
}

const QUESTIONS: [&str; 5] = [
    "hello",
    "what is the ring?",
    "thanks",
    "what is an expert?",
    "你好 😀 <|end_of_msg|>",
];

/// Says something and hears the whole answer.
fn talk(session: &mut Session, text: &str) -> TurnFacts {
    session.say(text).unwrap();
    answer(session).1
}

#[test]
fn stopped_anywhere_and_gone_on_with_it_says_the_same() {
    let mut whole = open(&["--keep-states", "2"]);
    let mut asked = Listener::default();
    whole.say(QUESTIONS[1]).unwrap();
    assert_eq!(whole.answer(&mut asked).0.ended, Ended::Finished);
    let want = ids(&whole);
    // Every layer of the prompt's chunks and of the first tokens, then here and there.
    let places = (0..40).chain((40..asked.asked).step_by(37));
    for after in places {
        let mut session = open(&["--keep-states", "2"]);
        session.say(QUESTIONS[1]).unwrap();
        let mut first = Listener::stopping(after);
        assert_eq!(session.answer(&mut first).0.ended, Ended::Cancelled);
        assert!(session.can_go_on());
        let (rest, facts) = answer(&mut session);
        assert_eq!(facts.ended, Ended::Finished, "{after}");
        assert_eq!(ids(&session), want, "{after}");
        assert_eq!(first.said + &rest, asked.said, "{after}");
        assert_eq!(session.messages(), whole.messages());
        // Nothing was read twice: stopped in its first chunk, that is gone on with as well.
        assert!(facts.fed <= 128, "{after}: {}", facts.fed);
    }
}

#[test]
fn stopped_anywhere_and_answered_anew_or_spoken_to_it_says_the_same() {
    let said = |after: Option<usize>, anew: bool| {
        let mut session = open(&["--keep-states", "2"]);
        talk(&mut session, QUESTIONS[0]);
        session.say(QUESTIONS[1]).unwrap();
        if let Some(after) = after {
            let stopped = session.answer(&mut Listener::stopping(after)).0;
            assert_eq!(stopped.ended, Ended::Cancelled);
        }
        if anew {
            if after.is_some() {
                session.take_back_answer().unwrap();
            }
            answer(&mut session);
        }
        let cut = session.messages().to_vec();
        talk(&mut session, QUESTIONS[2]);
        (cut, session.messages().to_vec(), ids(&session))
    };
    let want = said(None, true);
    for after in [0, 1, 3, 7, 8, 9, 30, 61] {
        assert_eq!(said(Some(after), true), want, "answered anew after {after}");
        // A message behind a cut answer: as if the conversation had been read from its start.
        let (cut, messages, _) = said(Some(after), false);
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("chat.jsonl");
        let lines: Vec<_> = cut
            .iter()
            .map(|m| serde_json::to_string(m).unwrap() + "\n")
            .collect();
        std::fs::write(&history, lines.concat()).unwrap();
        let mut read = open(&["--history", history.to_str().unwrap(), "--states-gb", "0"]);
        talk(&mut read, QUESTIONS[2]);
        assert_eq!(read.messages(), messages, "spoken to after {after}");
    }
}

/// The ids that follow a prompt, every one of them computed from nothing.
fn recomputed(prompt: &[u32], count: usize) -> Vec<u32> {
    let ids: Vec<_> = prompt.iter().map(u32::to_string).collect();
    let run = assert_cmd::Command::cargo_bin("k3")
        .unwrap()
        .arg("run")
        .arg(demo::demo_model())
        .args(["--recompute", "--ids", &ids.join(","), "--out", "-"])
        .args(["--gen", &count.to_string()])
        .output()
        .unwrap();
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    serde_json::from_value(result["generated_ids"].clone()).unwrap()
}

#[test]
fn five_turns_live_reloaded_resumed_and_recomputed() {
    let mut session = open(&[]);
    let mut prompts = Vec::new();
    for text in QUESTIONS {
        session.say(text).unwrap();
        prompts.push(session.prompt());
        answer(&mut session);
    }
    let want = ids(&session);
    for (turn, (prompt, want)) in prompts.iter().zip(&want).enumerate() {
        // All of the first turn; of the later ones the beginning, since every token costs a whole prompt.
        let count = if turn == 0 { want.len() } else { 6 };
        let anew = recomputed(prompt, count);
        assert_eq!(anew, want[..count], "every token from nothing");
    }
    // (all ids, new ids, ids seen in the end) of each turn, and the ids of the answers.
    let reopened = |states: &str, keep: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (history, dir) = (
            folder.path().join("chat.jsonl"),
            folder.path().join("states"),
        );
        let mut fed = Vec::new();
        for text in QUESTIONS {
            let mut session = open(&[
                "--history",
                history.to_str().unwrap(),
                "--state-dir",
                dir.to_str().unwrap(),
                "--states-gb",
                states,
                "--keep-states",
                keep,
            ]);
            session.say(text).unwrap();
            let whole = session.unread();
            session.recall();
            let unread = session.unread();
            let facts = answer(&mut session).1;
            session.keep_state(true).unwrap();
            assert_eq!(facts.fed, unread, "what was said is what was read");
            fed.push((whole, unread, facts.positions));
            if text == QUESTIONS[4] {
                return (fed, ids(&session));
            }
        }
        unreachable!("five turns")
    };
    let (read, reloaded) = reopened("0", "2");
    assert_eq!(reloaded, want, "from history and sidecar");
    assert!(
        read.iter().all(|(whole, fed, _)| fed == whole),
        "without states everything is read: {read:?}"
    );
    let (read, resumed) = reopened("1", "0");
    assert_eq!(resumed, want, "from states");
    for turns in read.windows(2) {
        let (.., before) = turns[0];
        let (whole, fed, _) = turns[1];
        // All that the last session had seen, is not fed again: the end of its answer was never fed.
        assert_eq!(fed, whole - before, "{read:?}");
    }
}

#[test]
fn guesses_change_nothing_but_the_number_of_passes() {
    let talked = |guesses: &str, drawn: &[&str]| {
        let mut session = open(&[&["--spec", guesses], drawn].concat());
        let mut passes = 0;
        let mut tokens = 0;
        for text in &QUESTIONS[..4] {
            let facts = talk(&mut session, text);
            passes += facts.passes;
            tokens += ids(&session).last().unwrap().len();
        }
        (ids(&session), session.positions(), passes, tokens)
    };
    for drawn in [&[][..], &["--temperature", "1.3", "--seed", "9"]] {
        let (want, positions, serial, tokens) = talked("0", drawn);
        assert_eq!(
            serial,
            tokens - 4,
            "the first comes out of the prompt's pass"
        );
        for guesses in ["1", "4", "8"] {
            let (got, at, passes, _) = talked(guesses, drawn);
            assert_eq!((got, at), (want.clone(), positions), "--spec {guesses}");
            assert!(passes <= serial);
            println!("--spec {guesses} {drawn:?}: {passes} passes for {tokens} tokens");
        }
    }
}

#[test]
fn guesses_stop_where_single_tokens_stop() {
    let stopped = |arguments: &[&str]| {
        let mut session = open(&[&["--spec"], arguments].concat());
        let facts = talk(&mut session, QUESTIONS[1]);
        (facts.ended, ids(&session), session.positions())
    };
    let all = stopped(&["0"]).1.remove(0);
    for at in [1, 5, all.len() / 2, all.len() - 2] {
        let (stop, most) = (all[at].to_string(), at.to_string());
        for flags in [["--stop-id", stop.as_str()], ["--gen", &most]] {
            let want = stopped(&[&["0"], &flags[..]].concat());
            for guesses in ["4", "8"] {
                let got = stopped(&[&[guesses], &flags[..]].concat());
                assert_eq!(got, want, "{flags:?} --spec {guesses}");
            }
        }
    }
    // In the middle of a draft: stopped between two layers, gone on with by the same pass.
    for after in (0..600).step_by(53) {
        let mut session = open(&["--spec", "8"]);
        session.say(QUESTIONS[1]).unwrap();
        session.answer(&mut Listener::stopping(after)).1.unwrap();
        if session.can_go_on() {
            answer(&mut session);
        }
        assert_eq!(ids(&session), [&all[..]], "{after}");
    }
}

#[test]
fn a_seed_draws_the_same_after_a_reload_and_after_a_stop() {
    let drawn = ["--temperature", "1.2", "--seed", "77", "--states-gb", "0"];
    let want = {
        let mut session = open(&drawn);
        for text in &QUESTIONS[..3] {
            talk(&mut session, text);
        }
        ids(&session)
    };
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("chat.jsonl");
    let mut got = Vec::new();
    for text in &QUESTIONS[..3] {
        let mut session = open(&[&drawn[..], &["--history", history.to_str().unwrap()]].concat());
        session.say(text).unwrap();
        session.answer(&mut Listener::stopping(41)).1.unwrap();
        if session.can_go_on() {
            answer(&mut session);
        }
        got = ids(&session);
    }
    assert_eq!(got, want);
}

#[test]
fn answers_anew_and_messages_taken_back_read_nothing_twice() {
    let mut session = open(&["--keep-states", "2", "--temperature", "1.5", "--seed", "3"]);
    talk(&mut session, QUESTIONS[0]);
    let asked = talk(&mut session, QUESTIONS[1]);
    let first = ids(&session);
    session.take_back_answer().unwrap();
    assert_eq!(session.unread(), 0, "what the network said there is kept");
    let again = answer(&mut session).1;
    assert_eq!(
        (again.fed, ids(&session)),
        (0, first.clone()),
        "one seed, one answer"
    );
    assert_eq!(session.take_back_message().unwrap(), QUESTIONS[1]);
    let edited = talk(&mut session, QUESTIONS[3]);
    assert!(
        edited.fed < asked.positions / 2,
        "only the new message: {} of {}",
        edited.fed,
        asked.positions
    );
    // With no copy in memory the conversation is read again, with the same outcome.
    let mut other = open(&["--keep-states", "0", "--temperature", "1.5", "--seed", "3"]);
    talk(&mut other, QUESTIONS[0]);
    let read = talk(&mut other, QUESTIONS[3]);
    assert_eq!(ids(&other), ids(&session));
    assert_eq!(read.positions, edited.positions);
    other.take_back_answer().unwrap();
    let whole = other.unread();
    assert_eq!(answer(&mut other).1.fed, whole, "all of it");
    assert!(whole > read.fed, "{whole} and {}", read.fed);
}

/// Found by the kill test: an answer that was cut, gone on with to its end, and killed between the saving of the facts and
/// that of the history.
#[test]
fn an_answer_gone_on_with_and_killed_while_it_is_saved_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("chat.jsonl");
    let (path, journal) = (
        history.to_str().unwrap().to_owned(),
        folder.path().join("chat.jsonl.journal"),
    );
    let flags = ["--history", &path, "--states-gb", "0"];
    let mut session = open(&flags);
    session.say(QUESTIONS[1]).unwrap();
    session.answer(&mut Listener::stopping(60)).1.unwrap();
    let cut = std::fs::read(&history).unwrap();
    // The journal as it is when the last token has been written down, and nothing is saved yet.
    struct Last(Listener, PathBuf, Vec<u8>);
    impl Observer for Last {
        fn prefill(&mut self, done: usize, of: usize) {
            self.0.prefill(done, of);
        }
        fn between(&mut self, network: &mut Network) {
            self.0.between(network);
        }
        fn delta(&mut self, channel: Option<Channel>, text: &str) {
            self.2 = std::fs::read(&self.1).unwrap();
            self.0.delta(channel, text);
        }
        fn warn(&mut self, why: &str) {
            self.0.warn(why);
        }
        fn stop(&mut self) -> bool {
            false
        }
    }
    let mut last = Last(Listener::default(), journal.clone(), Vec::new());
    assert_eq!(session.answer(&mut last).0.ended, Ended::Finished);
    let (want, whole) = (ids(&session), session.messages().to_vec());
    drop(session);
    // The facts are those of the whole answer, the history has the cut one.
    std::fs::write(&history, cut).unwrap();
    std::fs::write(&journal, &last.2).unwrap();
    let session = open(&flags);
    assert_eq!((ids(&session), session.messages()), (want, &whole[..]));
    assert!(!session.can_go_on() && !journal.exists());
}

#[test]
fn what_is_taken_back_is_not_gone() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("chat.jsonl");
    let history = history.to_str().unwrap();
    let flags = [
        "--history",
        history,
        "--states-gb",
        "0",
        "--keep-states",
        "0",
    ];
    let mut session = open(&flags);
    talk(&mut session, QUESTIONS[0]);
    let whole = session.messages().to_vec();
    session.take_back_answer().unwrap();
    // Stopped before it said anything: the old answer stands.
    let (facts, saved) = session.answer(&mut Listener::stopping(0));
    saved.unwrap();
    assert_eq!(facts.ended, Ended::Cancelled);
    assert!(session.old_answer_stands());
    assert_eq!(session.messages(), whole);
    assert_eq!(k3::text::history::read(Path::new(history)).unwrap(), whole);
    talk(&mut session, QUESTIONS[1]);
    assert!(!session.old_answer_stands());
    session.reset().unwrap();
    assert!(session.messages().is_empty());
    let aside = std::fs::read_to_string(format!("{history}.taken-back")).unwrap();
    let lines: Vec<Message> = aside
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0], whole[1], "by answering anew");
    assert_eq!((&lines[1..3], lines.len()), (&whole[..], 5), "by the reset");
}

#[test]
fn what_a_change_of_the_prompts_start_costs_is_known_before() {
    let mut session = open(&[]);
    talk(&mut session, QUESTIONS[0]);
    let positions = session.positions().0;
    let before = session.unread();
    session.set_effort(Effort::Max);
    assert!(session.unread() >= positions, "all of it");
    session.set_effort(Effort::Low);
    assert_eq!(session.unread(), before, "nothing was done yet");
    session.set_system(Some("be brief".into())).unwrap();
    assert!(session.unread() >= positions);
    assert_eq!(session.messages()[0], Message::system("be brief"));
    session.set_system(None).unwrap();
    assert_eq!(session.unread(), before);
    assert!(session.seconds_to_read().is_some_and(|s| s > 0.0));
}

#[test]
fn a_drive_that_takes_nothing_more_stops_no_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("on");
    std::fs::create_dir(&inside).unwrap();
    let history = inside.join("chat.jsonl");
    let flags = ["--history", history.to_str().unwrap(), "--states-gb", "0"];
    let mut session = open(&flags);
    let mut undisturbed = open(&[]);
    let said = |session: &mut Session, text: &str| {
        let mut listener = Listener::default();
        session.say(text).map(|()| {
            let (facts, saved) = session.answer(&mut listener);
            (
                facts.ended,
                saved.map_err(|e| e.to_string()),
                listener.warned,
            )
        })
    };
    // No journal can be made: that is said once, and the turn is made and saved without.
    let journal = inside.join("chat.jsonl.journal");
    std::fs::create_dir(&journal).unwrap();
    let (ended, saved, warned) = said(&mut session, QUESTIONS[0]).unwrap();
    assert_eq!((ended, saved), (Ended::Finished, Ok(())));
    assert!(
        warned.len() == 1 && warned[0].contains("journal"),
        "{warned:?}"
    );
    talk(&mut undisturbed, QUESTIONS[0]);
    assert_eq!(ids(&session), ids(&undisturbed));
    std::fs::remove_dir(&journal).unwrap();
    let whole = std::fs::read(&history).unwrap();

    // The folder is gone in the middle of a turn: the answer stays in memory, what was saved elsewhere is intact.
    session.say(QUESTIONS[1]).unwrap();
    let away = folder.path().join("away");
    std::fs::rename(&inside, &away).unwrap();
    let mut listener = Listener::default();
    let (facts, saved) = session.answer(&mut listener);
    assert_eq!(facts.ended, Ended::Finished);
    assert!(saved.unwrap_err().to_string().contains("chat.jsonl"));
    assert!(!listener.warned.is_empty());
    assert!(
        std::fs::read(away.join("chat.jsonl"))
            .unwrap()
            .starts_with(&whole)
    );
    // A message that cannot be saved is not sent, and nothing is lost once the folder is back.
    assert!(said(&mut session, QUESTIONS[2]).is_err());
    std::fs::rename(&away, &inside).unwrap();
    talk(&mut session, QUESTIONS[2]);
    talk(&mut undisturbed, QUESTIONS[1]);
    talk(&mut undisturbed, QUESTIONS[2]);
    assert_eq!(ids(&session), ids(&undisturbed));
    let saved = k3::text::history::read(&history).unwrap();
    assert_eq!(saved, session.messages());
}
