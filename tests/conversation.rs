//! Whole conversations with the demo model over the engine's channels: what is asked, what is told, what is on disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;

use std::time::Duration;

use k3::chat::Change;
use k3::engine::{self, Activity, Command, Ended, Event, Handle, TurnFacts};
use k3::stream::Preset;
use k3::text::{Channel, Effort, Message, Role, history};

fn start(arguments: &[&str]) -> Handle {
    // Nothing is left in the data folder of whoever runs the tests.
    let plan = demo::chat(&[&["--states-gb", "0"], arguments].concat());
    engine::start(move || plan.open()).unwrap()
}

/// The thinking in force, and the tokens that are to be read again for it.
fn thinking(event: Event) -> (Option<Effort>, Option<usize>) {
    match event {
        Event::ThinkingIs { effort, cost } => (effort, cost.map(|cost| cost.tokens)),
        other => panic!("{other:?}"),
    }
}

fn next(engine: &Handle) -> Event {
    // Far more than anything takes: only a failure waits so long.
    engine
        .events
        .recv_timeout(Duration::from_secs(120))
        .expect("an event")
}

fn ready(engine: &Handle) -> Vec<Message> {
    match next(engine) {
        Event::Ready { messages, .. } => messages,
        other => panic!("{other:?}"),
    }
}

fn ask(engine: &Handle, command: Command) -> Event {
    engine.commands.send(command).unwrap();
    next(engine)
}

/// The rest of a turn: think text, response text, figures.
fn turn(engine: &Handle) -> (String, String, TurnFacts) {
    let (mut think, mut response) = (String::new(), String::new());
    loop {
        match next(engine) {
            Event::Delta {
                channel: Some(Channel::Think),
                text,
            } => think += &text,
            Event::Delta {
                channel: Some(Channel::Response),
                text,
            } => response += &text,
            Event::Delta { .. } => {}
            Event::TurnEnded(facts) => return (think, response, facts),
            Event::ThinkingIs { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn say(engine: &Handle, text: &str) -> usize {
    match ask(engine, Command::Send(text.into())) {
        Event::TurnStarted {
            user,
            prompt_tokens,
        } => {
            assert_eq!(user, text);
            prompt_tokens
        }
        other => panic!("{other:?}"),
    }
}

fn quit(engine: &Handle) {
    assert_eq!(ask(engine, Command::Quit), Event::Stopped(None));
}

#[test]
fn a_question_is_thought_about_and_answered() {
    let engine = start(&[]);
    assert!(ready(&engine).is_empty());
    say(&engine, "hello");
    let (think, response, facts) = turn(&engine);
    assert_eq!(facts.ended, Ended::Finished);
    assert!(!think.is_empty() && !response.is_empty());
    assert!(facts.think_tokens > 0 && facts.response_tokens > 0);
    let told = engine.telemetry.read();
    assert_eq!(told.positions.0, facts.positions);
    assert!(told.unread.is_some() && told.left.is_none(), "no turn runs");
    assert!(told.retained().is_some() && told.last_token.is_some());
    assert!(told.tokens_per_minute.is_some_and(|rate| rate > 0.0));
    assert!(told.layers.iter().all(|layer| layer.time.is_some()));
    assert!(told.planned_bytes > told.trunk_bytes.map(|trunk| trunk.pinned));
    assert!(told.peak_rss_bytes >= told.rss_bytes);
    // No turn runs.
    assert_eq!((told.layer, told.elapsed), (None, None));
    quit(&engine);
}

#[test]
fn positions_grow_with_the_answer_and_what_a_change_made_unread_is_told() {
    let engine = start(&["--gen", "30"]);
    ready(&engine);
    let prompt = say(&engine, "hello");
    let (mut tokens, mut most) = (0, 0);
    loop {
        match next(&engine) {
            Event::Delta { .. } => {
                tokens += 1;
                let told = engine.telemetry.read();
                // The engine may be ahead of its events, or have left one figure out because it was being read.
                if let Some(left) = told.left {
                    assert!(told.positions.0 + 1 >= prompt + tokens, "{told:?}");
                    assert!(told.positions.0 >= most, "it never goes back");
                    assert!(left + tokens <= 31, "{left} {tokens}");
                    most = told.positions.0;
                }
            }
            Event::TurnEnded(facts) => {
                assert_eq!(facts.ended, Ended::Limit);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let before = engine.telemetry.read();
    assert!(before.positions.0 >= prompt + 29, "{before:?}");
    ask(&engine, Command::System(Some("Be kind.".into())));
    let after = engine.telemetry.read().unread;
    assert!(after > before.unread && after > Some(prompt), "{after:?}");
    quit(&engine);
}

/// The threads that compute give way to the one that answers keys.
#[cfg(target_os = "linux")]
#[test]
fn computing_has_a_lower_priority_than_the_screen() {
    // Of each thread its name and how much it gives way.
    let threads = || -> Vec<(String, i32)> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stats =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        stats
            .filter_map(|stat| {
                let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
                let nice = rest.split(' ').nth(16)?.parse().ok()?;
                Some((name.to_owned(), nice))
            })
            .collect()
    };
    let engine = start(&[]);
    ready(&engine);
    let threads = threads();
    let engines = threads.iter().filter(|(name, _)| name == "k3-engine");
    let own = engines.map(|(_, nice)| *nice).max().unwrap();
    let computing = threads
        .iter()
        .filter(|(name, _)| name.starts_with("k3-compute"));
    let lowered = computing
        .filter(|(_, nice)| *nice == (own + 5).min(19))
        .count();
    assert!(lowered > 0, "{threads:?}");
    quit(&engine);
}

#[test]
fn a_turn_reads_only_what_is_new() {
    let engine = start(&[]);
    ready(&engine);
    let first = say(&engine, "hello");
    let (.., facts) = turn(&engine);
    let second = say(&engine, "what is the ring?");
    // The end of the answer, the new message and the start of the next answer; not the effort message again.
    assert!(
        second < first && second < facts.positions,
        "{second} after {first} and {}",
        facts.positions
    );
    assert_eq!(turn(&engine).2.ended, Ended::Finished);
    quit(&engine);
}

#[test]
fn what_was_read_before_changes_no_answer() {
    let answers = |context: &[&str]| {
        let engine = start(&[]);
        ready(&engine);
        let mut last = String::new();
        for text in context {
            say(&engine, text);
            last = turn(&engine).1;
        }
        quit(&engine);
        last
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chat.jsonl");
    let kept = answers(&["hello", "what is the ring?", "thanks"]);
    // The same conversation, read anew from its history before the last message.
    let engine = start(&["--history", file.to_str().unwrap()]);
    ready(&engine);
    for text in ["hello", "what is the ring?"] {
        say(&engine, text);
        turn(&engine);
    }
    quit(&engine);
    let engine = start(&["--history", file.to_str().unwrap()]);
    assert_eq!(ready(&engine).len(), 4);
    say(&engine, "thanks");
    assert_eq!(turn(&engine).1, kept);
    quit(&engine);
}

#[test]
fn less_effort_thinks_less_and_no_thinking_answers_at_once() {
    let engine = start(&["--thinking-effort", "low"]);
    ready(&engine);
    say(&engine, "what is the ring?");
    let low = turn(&engine).2.think_tokens;
    // The effort stands at the start of the prompt: all of it would be read again, which is said before it is done.
    let (effort, cost) = thinking(ask(&engine, Command::Effort(Effort::Max)));
    assert_eq!(effort, Some(Effort::Max));
    assert!(cost.is_some_and(|tokens| tokens > 40), "{cost:?}");
    let (_, cost) = thinking(ask(&engine, Command::Effort(Effort::Low)));
    assert_eq!(cost, None, "as it was: nothing to read again");
    ask(&engine, Command::Effort(Effort::Max));
    assert_eq!(
        ask(&engine, Command::Reset),
        Event::Reset { messages: vec![] }
    );
    say(&engine, "what is the ring?");
    let max = turn(&engine).2.think_tokens;
    assert!(low < max, "{low} and {max}");
    assert_eq!(thinking(ask(&engine, Command::Think(false))).0, None);
    say(&engine, "hello");
    let (think, response, facts) = turn(&engine);
    assert_eq!((think.as_str(), facts.think_tokens), ("", 0));
    assert!(!response.is_empty());
    let effort = thinking(ask(&engine, Command::Think(true))).0;
    assert_eq!(effort, Some(Effort::Max));
    quit(&engine);
}

#[test]
fn a_cancelled_answer_keeps_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let engine = start(&["--history", file.to_str().unwrap()]);
    ready(&engine);
    say(&engine, "what is the ring?");
    assert!(matches!(next(&engine), Event::Delta { .. }));
    engine.commands.send(Command::Cancel).unwrap();
    let (.., facts) = turn(&engine);
    assert_eq!(facts.ended, Ended::Cancelled);
    let saved = history::read(&file).unwrap();
    assert_eq!(saved.len(), 2);
    assert_eq!(saved[1].role, Role::Assistant);
    assert!(!saved[1].reasoning_content.as_deref().unwrap().is_empty());
    // With nothing running there is nothing to stop, and it goes on.
    assert!(matches!(ask(&engine, Command::Cancel), Event::Refused(_)));
    say(&engine, "hello");
    assert_eq!(turn(&engine).2.ended, Ended::Finished);
    quit(&engine);
}

#[test]
fn while_it_answers_settings_are_taken_and_messages_refused() {
    let engine = start(&[]);
    ready(&engine);
    say(&engine, "what is the ring?");
    for command in [
        Command::Send("too early".into()),
        Command::Effort(Effort::Low),
        Command::Think(false),
    ] {
        engine.commands.send(command).unwrap();
    }
    let mut told = Vec::new();
    loop {
        match next(&engine) {
            Event::Delta { .. } => {}
            Event::TurnEnded(facts) => {
                assert_eq!(facts.ended, Ended::Finished);
                break;
            }
            other => told.push(other),
        }
    }
    assert!(
        matches!(&told[0], Event::Refused(why) if why.contains("not sent")),
        "{told:?}"
    );
    let told: Vec<_> = told.into_iter().skip(1).map(thinking).collect();
    assert_eq!(told[..2], [(Some(Effort::Low), None), (None, None)]);
    // Once the turn is over it is known what that costs.
    assert!(matches!(told[2], (None, Some(1..))) && told.len() == 3);
    // They hold from the next turn on.
    say(&engine, "hello");
    assert_eq!(turn(&engine).2.think_tokens, 0);
    quit(&engine);
}

#[test]
fn a_reset_while_it_answers_cancels_first_and_keeps_the_system_message() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let engine = start(&["--history", file.to_str().unwrap(), "--system", "be brief"]);
    assert_eq!(ready(&engine).len(), 1);
    say(&engine, "what is the ring?");
    assert!(matches!(next(&engine), Event::Delta { .. }));
    engine.commands.send(Command::Reset).unwrap();
    assert_eq!(turn(&engine).2.ended, Ended::Cancelled);
    let system = vec![Message::system("be brief")];
    assert_eq!(
        next(&engine),
        Event::Reset {
            messages: system.clone()
        }
    );
    assert_eq!(engine.telemetry.read().positions.0, 0);
    assert_eq!(history::read(&file).unwrap(), system);
    quit(&engine);
}

#[test]
fn quitting_while_it_answers_saves_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let engine = start(&["--history", file.to_str().unwrap()]);
    ready(&engine);
    say(&engine, "what is the ring?");
    assert!(matches!(next(&engine), Event::Delta { .. }));
    engine.commands.send(Command::Quit).unwrap();
    assert_eq!(turn(&engine).2.ended, Ended::Cancelled);
    assert_eq!(next(&engine), Event::Stopped(None));
    assert_eq!(history::read(&file).unwrap().len(), 2);
}

#[test]
fn an_unanswered_message_of_the_history_is_answered_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    std::fs::write(&file, "{\"role\":\"user\",\"content\":\"hello\"}\n").unwrap();
    let engine = start(&["--history", file.to_str().unwrap()]);
    assert!(ready(&engine).is_empty());
    assert!(
        matches!(next(&engine), Event::TurnStarted { user, prompt_tokens } if user == "hello" && prompt_tokens > 0)
    );
    assert_eq!(turn(&engine).2.ended, Ended::Finished);
    assert_eq!(history::read(&file).unwrap().len(), 2);
    quit(&engine);
}

#[test]
fn a_message_that_leaves_no_room_is_refused_and_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let engine = start(&["--context", "120", "--history", file.to_str().unwrap()]);
    ready(&engine);
    match ask(&engine, Command::Send("long ".repeat(200))) {
        Event::Refused(why) => assert!(why.contains("120") && why.contains("--context"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(history::read(&file).unwrap().is_empty());
    // A full context ends an answer; nothing is lost.
    say(&engine, "what is the ring?");
    let (think, _, facts) = turn(&engine);
    assert_eq!(facts.ended, Ended::Length);
    assert!(!think.is_empty());
    assert_eq!(facts.positions, 120);
    quit(&engine);
}

#[test]
fn a_model_that_cannot_be_opened_is_told_with_its_reason() {
    let engine = engine::start(|| anyhow::bail!("no such model")).unwrap();
    assert_eq!(next(&engine), Event::Stopped(Some("no such model".into())));
}

#[test]
fn a_panic_on_the_thread_is_told_as_well() {
    let engine = engine::start(|| panic!("planted")).unwrap();
    match next(&engine) {
        Event::Stopped(Some(reason)) => assert!(reason.contains("planted"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stop_between_two_layers_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let history = ["--history", file.to_str().unwrap()];
    let engine = start(&history);
    ready(&engine);
    say(&engine, "what is the ring?");
    for _ in 0..3 {
        assert!(matches!(next(&engine), Event::Delta { .. }));
    }
    engine.commands.send(Command::Cancel).unwrap();
    assert_eq!(turn(&engine).2.ended, Ended::Cancelled);
    let saved = std::fs::read_to_string(&file).unwrap();
    let unread = say(&engine, "hello");
    let (_, went_on, facts) = turn(&engine);
    assert_eq!(facts.ended, Ended::Finished);
    quit(&engine);
    // What was cut was read already, and the parked token is finished: only what is new is read.
    let other = folder.path().join("other.jsonl");
    std::fs::write(&other, saved).unwrap();
    let engine = start(&["--history", other.to_str().unwrap()]);
    ready(&engine);
    assert!(say(&engine, "hello") > unread);
    assert_eq!(
        turn(&engine).1,
        went_on,
        "the same as a conversation that is read from the start"
    );
    quit(&engine);
}

#[test]
fn a_plan_change_between_two_tokens_keeps_the_conversation() {
    let answers = |change: bool| {
        let engine = start(&[]);
        ready(&engine);
        say(&engine, "what is the ring?");
        if change {
            let preset = k3::stream::Preset::Ultra;
            engine.commands.send(Command::Preset(preset)).unwrap();
        }
        let (mut said, mut deltas, mut planned_at) = (String::new(), 0, None);
        loop {
            match next(&engine) {
                Event::Delta { text, .. } => {
                    said += &text;
                    deltas += 1;
                }
                Event::Planned {
                    preset,
                    total_bytes,
                    ..
                } => {
                    assert_eq!(preset, k3::stream::Preset::Ultra);
                    assert!(total_bytes > 0);
                    planned_at = Some(deltas);
                }
                Event::TurnEnded(_) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(planned_at.is_some(), change);
        assert!(planned_at.is_none_or(|at| at < deltas), "in the middle");
        let unread = say(&engine, "thanks");
        let second = turn(&engine);
        quit(&engine);
        (said, unread, second.0, second.1)
    };
    assert_eq!(answers(true), answers(false));
}

#[test]
fn a_halted_turn_waits_and_goes_on() {
    let said = |halt: bool| {
        let engine = start(&[]);
        ready(&engine);
        say(&engine, "what is the ring?");
        if halt {
            engine.commands.send(Command::Pause).unwrap();
            while !matches!(next(&engine), Event::Paused) {}
            assert_eq!(engine.telemetry.read().activity, Activity::Paused);
            assert!(matches!(ask(&engine, Command::Pause), Event::Refused(_)));
            let halted = ask(&engine, Command::Send("too early".into()));
            assert!(matches!(halted, Event::Refused(_)));
            assert_eq!(ask(&engine, Command::Continue), Event::Unpaused);
        }
        let (_, said, facts) = turn(&engine);
        assert_eq!(facts.ended, Ended::Finished);
        quit(&engine);
        // What had come before the halt is not in there.
        said
    };
    assert!(said(false).ends_with(&said(true)));
}

#[test]
fn a_halted_turn_can_be_stopped_and_nothing_else_be_halted() {
    let engine = start(&[]);
    ready(&engine);
    for command in [
        Command::Pause,
        Command::Continue,
        Command::Regenerate,
        Command::Undo,
    ] {
        assert!(matches!(ask(&engine, command), Event::Refused(_)));
    }
    say(&engine, "what is the ring?");
    engine.commands.send(Command::Pause).unwrap();
    while !matches!(next(&engine), Event::Paused) {}
    engine.commands.send(Command::Cancel).unwrap();
    assert_eq!(turn(&engine).2.ended, Ended::Cancelled);
    quit(&engine);
}

#[test]
fn a_stopped_answer_is_gone_on_with() {
    let engine = start(&[]);
    ready(&engine);
    say(&engine, "what is the ring?");
    let whole = turn(&engine);
    assert!(matches!(ask(&engine, Command::Continue), Event::Refused(_)));
    ask(&engine, Command::Reset);
    say(&engine, "what is the ring?");
    engine.commands.send(Command::Cancel).unwrap();
    let begun = turn(&engine);
    assert_eq!(begun.2.ended, Ended::Cancelled);
    assert!(matches!(
        ask(&engine, Command::Continue),
        Event::TurnResumed { .. }
    ));
    let rest = turn(&engine);
    assert_eq!(rest.2.ended, Ended::Finished);
    assert_eq!(begun.0 + &rest.0, whole.0);
    assert_eq!(begun.1 + &rest.1, whole.1);
    quit(&engine);
}

#[test]
fn an_answer_is_made_anew_and_a_message_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.jsonl");
    let engine = start(&["--history", file.to_str().unwrap()]);
    ready(&engine);
    say(&engine, "hello");
    turn(&engine);
    say(&engine, "what is the ring?");
    let first = turn(&engine);
    match ask(&engine, Command::Regenerate) {
        Event::Conversation { messages, .. } => assert_eq!(messages.len(), 2),
        other => panic!("{other:?}"),
    }
    assert!(
        matches!(next(&engine), Event::TurnStarted { user, .. } if user == "what is the ring?")
    );
    let second = turn(&engine);
    assert_eq!((first.0, first.1), (second.0, second.1), "greedy: the same");
    assert_eq!(history::read(&file).unwrap().len(), 4);
    match ask(&engine, Command::Undo) {
        Event::Conversation {
            messages,
            taken_back,
            ..
        } => {
            assert_eq!(messages.len(), 2);
            assert_eq!(taken_back.as_deref(), Some("what is the ring?"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(history::read(&file).unwrap().len(), 2);
    quit(&engine);
}

#[test]
fn the_parts_of_a_plan_are_changed_and_presets_are_offered() {
    let engine = start(&["--preset", "ultra"]);
    ready(&engine);
    let planned = |event| match event {
        Event::Planned { total_bytes, .. } => total_bytes,
        other => panic!("{other:?}"),
    };
    let small = planned(ask(&engine, Command::Preset(Preset::Ultra)));
    let large = planned(ask(&engine, Command::Budget(Change::Cache(1 << 30))));
    assert!(large > small, "{large} {small}");
    // What was asked before stays.
    let both = planned(ask(&engine, Command::Budget(Change::Trunk(1 << 30))));
    assert!(both > large, "{both} {large}");
    let Event::Offers(offers) = ask(&engine, Command::Offers) else {
        panic!("no offers");
    };
    let presets = offers.presets();
    assert_eq!(presets.len(), Preset::ALL.len());
    let ultra = presets.iter().find(|offer| offer.0 == Preset::Ultra);
    assert_eq!(ultra.unwrap().1.as_ref().unwrap().total(), small);
    assert_eq!(offers.in_force().unwrap().total(), both);
    assert!(offers.recent.is_empty() && offers.retained().is_empty());
    let parts = Change::Parts {
        trunk: 0,
        cache: 0,
        ring: 4,
    };
    // The preset has room for a few of the demo's experts.
    assert!(planned(ask(&engine, Command::Budget(parts))) < small);
    // The same while an answer is made.
    say(&engine, "hello");
    engine.commands.send(Command::Offers).unwrap();
    engine
        .commands
        .send(Command::Budget(Change::Ring(2)))
        .unwrap();
    let (mut offered, mut changed) = (false, false);
    loop {
        match next(&engine) {
            Event::Offers(_) => offered = true,
            Event::Planned { .. } => changed = true,
            Event::TurnEnded(_) => break,
            _ => {}
        }
    }
    assert!(offered && changed);
    // What was chosen for the tokens of the answer tells what other caches would have retained.
    let Event::Offers(offers) = ask(&engine, Command::Offers) else {
        panic!("no offers");
    };
    let told = engine.telemetry.read();
    let layers = told.layers.iter().filter(|layer| layer.requested > 0);
    let layer = offers.shape.top_k as usize;
    assert_eq!(offers.recent[0].len(), layers.count() * layer);
    let retained = offers.retained();
    let shares = retained.windows(2);
    assert!(shares.clone().count() > 2 && shares.clone().all(|w| w[0].0 < w[1].0));
    let (smallest, all) = (retained[0].1, retained[retained.len() - 1].1);
    assert!(all > smallest && all <= 1.0, "{retained:?}");
    assert_eq!(told.cache.map(|cache| cache.slots), Some(4));
    quit(&engine);
}

#[test]
fn with_little_memory_it_streams_and_the_telemetry_shows_it() {
    // Without a cache there are as many expert slots as one layer takes for a token, so that none is there when its layer
    // comes again; the preset's megabyte holds some of the demo's small experts.
    let retained = [
        &["--preset", "ultra", "--cache-gb", "0"][..],
        &["--preset", "ultra"],
    ]
    .map(|flags| {
        let engine = start(flags);
        ready(&engine);
        say(&engine, "what is the ring?");
        // What had been read whenever text came.
        let (mut trunk, mut experts) = (Vec::new(), Vec::new());
        let facts = loop {
            match next(&engine) {
                Event::Delta { .. } => {
                    let told = engine.telemetry.read();
                    trunk.extend(told.trunk_bytes.map(|trunk| trunk.read));
                    experts.extend(told.expert_figures.map(|experts| experts.read.0));
                    assert_eq!(told.slots.len(), 4, "the ring");
                }
                Event::TurnEnded(facts) => break facts,
                other => panic!("{other:?}"),
            }
        };
        let moves = |figures: &[u64]| figures.windows(2).any(|pair| pair[0] < pair[1]);
        assert!(moves(&trunk) && moves(&experts), "{trunk:?} {experts:?}");
        let told = engine.telemetry.read();
        let (trunk, experts) = (told.trunk_bytes.unwrap(), told.expert_figures.unwrap());
        // All of the trunk for every token, which is more than 1 MB, and none of it kept.
        let tokens = (facts.think_tokens + facts.response_tokens) as u64;
        assert_eq!(trunk.pinned, 0);
        assert!(trunk.owed > tokens << 20, "{trunk:?}, {tokens} tokens");
        assert!(trunk.read >= trunk.owed, "{trunk:?}");
        assert!(experts.read.0 > 0);
        assert_eq!(experts.requested.0, experts.retained.0 + experts.read.0);
        assert_eq!(told.drops, 0);
        quit(&engine);
        experts.retained.0
    });
    assert!(retained[0] == 0 && retained[1] > 0, "{retained:?}");
}

#[test]
fn another_conversation_is_gone_over_to_and_the_first_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
    let said = [Message::user("one"), Message::assistant(None, "two")];
    let lines = said
        .iter()
        .map(|m| serde_json::to_string(m).unwrap() + "\n");
    std::fs::write(&second, lines.collect::<String>()).unwrap();
    let engine = start(&["--history", first.to_str().unwrap()]);
    ready(&engine);
    say(&engine, "hello");
    turn(&engine);
    let loaded = ask(&engine, Command::Load(second.clone()));
    let expected = Event::Loaded {
        history: second.clone(),
        messages: said.to_vec(),
        open: None,
    };
    assert_eq!(loaded, expected);
    assert_eq!(history::read(&first).unwrap().len(), 2);
    say(&engine, "three");
    turn(&engine);
    assert_eq!(history::read(&second).unwrap().len(), 4);
    // One that cannot be read leaves what is open.
    std::fs::write(folder.path().join("c.jsonl"), "{\"no\":1}\n").unwrap();
    let refused = ask(&engine, Command::Load(folder.path().join("c.jsonl")));
    assert!(matches!(refused, Event::Refused(_)), "{refused:?}");
    say(&engine, "five");
    turn(&engine);
    assert_eq!(history::read(&second).unwrap().len(), 6);
    quit(&engine);
}
