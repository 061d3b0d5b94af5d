//! Sessions as lists of messages: what a person types, what the engine tells, what comes of it.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

use super::send::BACK;
use super::*;
use crate::chat::Sampling;
use crate::engine::{Activity, Ended, Event, ModelFacts, Telemetry, TurnFacts};
use crate::text::{Channel, Effort, Message as Said};
use crate::tui::log::Kind;
use crate::tui::theme::Theme;

const CTRL: KeyModifiers = KeyModifiers::CONTROL;

fn loading() -> State {
    State::new((80, 24), Theme::Auto)
}

fn ready_event(messages: Vec<Said>) -> Event {
    Event::Ready {
        model: ModelFacts {
            name: "model".to_owned(),
            demo: false,
            layers: 93,
            context: 8192,
            server: None,
        },
        messages,
        effort: Some(Effort::Max),
        open: None,
        sampling: Sampling::Greedy,
        history: None,
    }
}

fn idle() -> State {
    let mut state = loading();
    tell(&mut state, ready_event(Vec::new()));
    state
}

fn tell(state: &mut State, event: Event) -> Vec<Effect> {
    update(state, Message::Engine(event))
}

fn press(state: &mut State, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    update(state, Message::Key(KeyEvent::new(code, modifiers)))
}

fn typed(state: &mut State, text: &str) {
    for c in text.chars() {
        assert_eq!(press(state, KeyCode::Char(c), KeyModifiers::NONE), []);
    }
}

fn enter(state: &mut State, text: &str) -> Vec<Effect> {
    typed(state, text);
    press(state, KeyCode::Enter, KeyModifiers::NONE)
}

fn started(user: &str) -> Event {
    Event::TurnStarted {
        user: user.to_owned(),
        prompt_tokens: 12,
    }
}

fn thinking_is(effort: Option<Effort>) -> Event {
    Event::ThinkingIs { effort, cost: None }
}

fn delta(channel: Channel, text: &str) -> Event {
    Event::Delta {
        channel: Some(channel),
        text: text.to_owned(),
    }
}

fn ended(ended: Ended) -> Event {
    Event::TurnEnded(TurnFacts {
        think_tokens: 1,
        response_tokens: 2,
        seconds_prefill: 1.0,
        seconds_decode: 2.0,
        positions: 15,
        ..TurnFacts::nothing(ended)
    })
}

/// A screen in the middle of an answer.
fn answering() -> State {
    let mut state = idle();
    enter(&mut state, "hello");
    tell(&mut state, started("hello"));
    tell(&mut state, delta(Channel::Think, "hm"));
    tell(&mut state, delta(Channel::Response, "Hi"));
    state
}

fn texts(log: &crate::tui::log::Log) -> Vec<(Kind, &str)> {
    log.blocks()
        .iter()
        .map(|block| (block.kind, block.text.as_str()))
        .collect()
}

fn sent(command: Command) -> Vec<Effect> {
    vec![Effect::Send(command)]
}

#[test]
fn a_message_is_sent_shown_and_answered_in_both_panes() {
    let mut state = idle();
    assert_eq!(
        enter(&mut state, "hello"),
        sent(Command::Send("hello".to_owned()))
    );
    assert!(state.draft.is_empty());
    assert_eq!(state.doing(), "sending");
    tell(&mut state, started("hello"));
    assert_eq!(state.doing(), "reading the prompt – of 12, 0 s");
    update(
        &mut state,
        Message::Telemetry(Box::new(Telemetry {
            activity: Activity::Prefill { done: 3, of: 12 },
            ..Telemetry::default()
        })),
    );
    update(&mut state, Message::Now(Duration::from_secs(5)));
    assert_eq!(state.doing(), "reading the prompt 3 of 12, 5 s");
    tell(&mut state, delta(Channel::Think, "hm"));
    assert_eq!(state.doing(), "thinking, 5 s");
    for text in ["H", "i", ""] {
        tell(&mut state, delta(Channel::Response, text));
    }
    assert_eq!(state.doing(), "answering, 5 s");
    tell(&mut state, ended(Ended::Finished));
    assert_eq!(state.doing(), "idle");
    assert_eq!(
        texts(&state.think),
        [(Kind::Heading, "on: hello"), (Kind::Think, "hm")]
    );
    let response = texts(&state.response);
    assert_eq!(response[..2], [(Kind::User, "hello"), (Kind::Answer, "Hi")]);
    assert_eq!(response[2].0, Kind::Notice);
    assert_eq!(state.telemetry.positions.0, 15);
}

#[test]
fn nothing_is_lost_when_a_message_cannot_be_sent() {
    let mut state = idle();
    enter(&mut state, "//etc");
    typed(&mut state, "more");
    tell(&mut state, Event::Refused("not now".to_owned()));
    assert_eq!(state.draft.text(), "//etc\nmore");
    assert_eq!(state.hint.as_deref(), Some("not now"));
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn a_message_refused_and_taken_after_all_is_not_sent_twice() {
    let mut state = idle();
    enter(&mut state, "hello");
    tell(&mut state, Event::Refused("no turn runs".to_owned()));
    assert_eq!(state.draft.text(), "hello");
    tell(&mut state, started("hello"));
    assert!(state.draft.is_empty());
}

#[test]
fn an_empty_message_is_not_sent() {
    let mut state = idle();
    assert_eq!(enter(&mut state, " \t "), []);
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn new_lines_and_pastes_do_not_send() {
    let mut state = idle();
    typed(&mut state, "a");
    assert_eq!(press(&mut state, KeyCode::Enter, KeyModifiers::ALT), []);
    assert_eq!(press(&mut state, KeyCode::Char('j'), CTRL), []);
    assert_eq!(
        update(&mut state, Message::Paste("b\r\nc\r".to_owned())),
        []
    );
    assert_eq!(state.draft.text(), "a\n\nb\nc\n");
    let effects = press(&mut state, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects, sent(Command::Send("a\n\nb\nc\n".to_owned())));
}

#[test]
fn a_command_typed_in_full_runs_at_the_first_enter() {
    let mut state = idle();
    assert_eq!(enter(&mut state, "/reset"), sent(Command::Reset));
    assert_eq!(
        enter(&mut state, "/effort low"),
        sent(Command::Effort(Effort::Low))
    );
    assert_eq!(enter(&mut state, "/think off"), sent(Command::Think(false)));
    assert_eq!(enter(&mut state, "/help"), []);
    assert!(state.overlay.is_some());
    press(&mut state, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(state.overlay, None);
    assert_eq!(enter(&mut state, "/quit"), sent(Command::Quit));
}

#[test]
fn a_part_of_a_command_is_completed_and_no_command_is_explained() {
    let mut state = idle();
    assert_eq!(enter(&mut state, "/ef"), []);
    assert_eq!(state.draft.text(), "/effort ");
    press(&mut state, KeyCode::Down, KeyModifiers::NONE);
    press(&mut state, KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(state.draft.text(), "/effort high");
    state.draft.clear();
    assert_eq!(enter(&mut state, "/etc/hosts"), []);
    assert_eq!(state.draft.text(), "/etc/hosts");
    assert!(
        state
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("//etc/hosts"))
    );
    state.draft.clear();
    assert_eq!(
        enter(&mut state, "//etc"),
        sent(Command::Send("/etc".to_owned()))
    );
}

#[test]
fn quit_works_while_the_model_is_busy_and_at_once_when_asked_twice() {
    let mut state = answering();
    assert_eq!(
        enter(&mut state, "/quit"),
        [Effect::Send(Command::Cancel), Effect::Send(Command::Quit)]
    );
    assert_eq!(state.doing(), "closing");
    let mut patient = state.clone();
    tell(&mut patient, ended(Ended::Cancelled));
    assert_eq!(
        tell(&mut patient, Event::Stopped(None)),
        [Effect::Exit(Outcome::Done)]
    );
    assert_eq!(
        press(&mut state, KeyCode::Char('c'), CTRL),
        [Effect::Exit(Outcome::Done)]
    );
}

#[test]
fn reset_while_busy_leaves_nothing_but_the_system_message() {
    let mut state = answering();
    assert_eq!(enter(&mut state, "/reset"), sent(Command::Reset));
    assert!(state.doing().starts_with("cancelling"));
    tell(&mut state, ended(Ended::Cancelled));
    tell(
        &mut state,
        Event::Reset {
            messages: vec![Said::system("be brief")],
        },
    );
    assert_eq!(
        texts(&state.response),
        [(Kind::Notice, "system message: be brief")]
    );
    assert_eq!(texts(&state.think), []);
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn escape_and_interrupt_stop_one_thing_at_a_time() {
    let mut state = answering();
    assert_eq!(
        press(&mut state, KeyCode::Esc, KeyModifiers::NONE),
        sent(Command::Cancel)
    );
    assert_eq!(press(&mut state, KeyCode::Esc, KeyModifiers::NONE), []);
    tell(&mut state, ended(Ended::Cancelled));
    typed(&mut state, "draft");
    assert_eq!(press(&mut state, KeyCode::Char('c'), CTRL), []);
    assert!(state.draft.is_empty());
    press(&mut state, KeyCode::Char('u'), CTRL);
    assert_eq!(state.draft.text(), "draft", "undo brings it back");
    press(&mut state, KeyCode::Char('c'), CTRL);
    assert_eq!(
        press(&mut state, KeyCode::Char('c'), CTRL),
        sent(Command::Quit)
    );
}

#[test]
fn interrupt_cancels_a_running_turn_before_it_leaves() {
    let mut state = answering();
    let mut interrupt = || press(&mut state, KeyCode::Char('c'), CTRL);
    assert_eq!(interrupt(), sent(Command::Cancel));
    assert_eq!(interrupt(), []);
    assert_eq!(
        interrupt(),
        [Effect::Send(Command::Cancel), Effect::Send(Command::Quit)]
    );
}

#[test]
fn end_of_input_leaves_only_when_nothing_is_written() {
    let mut state = idle();
    typed(&mut state, "ab");
    press(&mut state, KeyCode::Home, KeyModifiers::NONE);
    assert_eq!(press(&mut state, KeyCode::Char('d'), CTRL), []);
    assert_eq!(state.draft.text(), "b");
    press(&mut state, KeyCode::Char('d'), CTRL);
    assert_eq!(
        press(&mut state, KeyCode::Char('d'), CTRL),
        sent(Command::Quit)
    );
}

#[test]
fn one_key_cycles_the_effort_from_what_was_asked_last() {
    let mut state = idle();
    let mut cycle = || press(&mut state, KeyCode::Char('t'), CTRL);
    assert_eq!(cycle(), sent(Command::Think(false)));
    assert_eq!(
        cycle(),
        [
            Effect::Send(Command::Think(true)),
            Effect::Send(Command::Effort(Effort::Low))
        ]
    );
    assert_eq!(cycle(), sent(Command::Effort(Effort::High)));
    assert_eq!(
        state.thinking,
        Some(Some(Effort::Max)),
        "not before it is told"
    );
    for thinking in [
        None,
        Some(Effort::Max),
        Some(Effort::Low),
        Some(Effort::High),
    ] {
        tell(&mut state, thinking_is(thinking));
    }
    assert_eq!(
        (state.thinking, state.asked),
        (Some(Some(Effort::High)), None)
    );
}

#[test]
fn reading_back_is_not_disturbed_and_end_follows_again() {
    let mut state = answering();
    tell(&mut state, delta(Channel::Response, &"line\n".repeat(50)));
    press(&mut state, KeyCode::PageUp, KeyModifiers::NONE);
    let top = state.response.visible()[0];
    tell(&mut state, delta(Channel::Response, "more\nand more\n"));
    assert_eq!(state.response.visible()[0], top);
    assert!(state.response.unseen());
    update(&mut state, Message::Resize(100, 30));
    assert_eq!(state.response.visible()[0], top);
    press(&mut state, KeyCode::End, KeyModifiers::NONE);
    assert!(state.response.follows() && !state.response.unseen());
}

#[test]
fn tab_moves_the_keys_and_typing_brings_them_back() {
    let mut state = answering();
    tell(&mut state, delta(Channel::Think, &"thought\n".repeat(50)));
    for focus in [
        Focus::Response,
        Focus::Think,
        Focus::Message,
        Focus::Response,
        Focus::Think,
    ] {
        press(&mut state, KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!(state.focus, focus);
    }
    press(&mut state, KeyCode::Up, KeyModifiers::NONE);
    assert!(!state.think.follows() && state.response.follows());
    typed(&mut state, "x");
    assert_eq!(
        (state.focus, state.draft.text().as_str()),
        (Focus::Message, "x")
    );
}

#[test]
fn an_engine_that_ends_leaves_the_conversation_on_the_screen() {
    let lost = Message::EngineGone;
    let said = Message::Engine(Event::Stopped(Some("disk gone".to_owned())));
    for message in [lost, said] {
        let mut state = answering();
        assert_eq!(update(&mut state, message), []);
        assert_eq!(state.doing(), "engine stopped");
        let texts = texts(&state.response);
        assert_eq!(texts[..2], [(Kind::User, "hello"), (Kind::Answer, "Hi")]);
        assert!(texts[2].0 == Kind::Alarm && texts[2].1.starts_with("The engine has stopped: "));
        // The channel that closes after the last word says nothing new.
        assert_eq!(update(&mut state, Message::EngineGone), []);
        assert_eq!(enter(&mut state, "more"), []);
        assert_eq!(state.draft.text(), "more");
        state.draft.clear();
        let effects = enter(&mut state, "/quit");
        assert!(matches!(
            &effects[..],
            [Effect::Exit(Outcome::EngineFailed(_))]
        ));
    }
}

#[test]
fn a_message_on_its_way_when_the_engine_ends_comes_back() {
    let mut state = idle();
    enter(&mut state, "hello");
    update(&mut state, Message::EngineGone);
    assert_eq!(state.draft.text(), "hello");
}

#[test]
fn every_end_of_a_turn_says_what_it_was() {
    for (end, kind, word) in [
        (Ended::Cancelled, Kind::Notice, "stopped by you"),
        (Ended::Length, Kind::Alarm, "context is full"),
        (Ended::Malformed("no end".to_owned()), Kind::Alarm, "no end"),
        (
            Ended::Failed("expert 7".to_owned()),
            Kind::Alarm,
            "expert 7",
        ),
    ] {
        let mut state = answering();
        tell(&mut state, ended(end));
        let last = *texts(&state.response).last().unwrap();
        assert!(last.0 == kind && last.1.contains(word), "{last:?}");
        assert_eq!(state.phase, Phase::Idle);
    }
}

#[test]
fn a_history_is_shown_with_its_reasoning() {
    let mut state = loading();
    let history = vec![
        Said::user("one\ntwo"),
        Said::assistant(Some("hm".to_owned()), "1"),
        Said::user("three"),
        Said::assistant(None, "3"),
    ];
    tell(&mut state, ready_event(history));
    let expected = [
        (Kind::User, "one\ntwo"),
        (Kind::Answer, "1"),
        (Kind::User, "three"),
        (Kind::Answer, "3"),
    ];
    assert_eq!(texts(&state.response), expected);
    assert_eq!(
        texts(&state.think),
        [(Kind::Heading, "on: one"), (Kind::Think, "hm")]
    );
}

#[test]
fn signals_save_then_leave() {
    assert_eq!(
        update(&mut answering(), Message::Terminate),
        [
            Effect::Send(Command::Cancel),
            Effect::Send(Command::Quit),
            Effect::Exit(Outcome::Interrupted)
        ]
    );
}

#[test]
fn nothing_is_drawn_when_nothing_changed() {
    let mut state = idle();
    let quiet = |state: &mut State, message| {
        state.dirty = false;
        update(state, message);
        !state.dirty
    };
    let telemetry = state.telemetry.clone();
    assert!(quiet(&mut state, Message::Telemetry(Box::new(telemetry))));
    assert!(quiet(&mut state, Message::Now(Duration::from_secs(9))));
    let mut state = answering();
    assert!(quiet(&mut state, Message::Now(Duration::from_millis(400))));
    assert!(!quiet(
        &mut state,
        Message::Now(Duration::from_millis(1100))
    ));
}

/// Anything that can happen, with more of what matters.
fn anything() -> impl Strategy<Value = Message> {
    let key = prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::Backspace,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::F(1),
            KeyCode::F(2),
            KeyCode::F(3),
            KeyCode::F(4),
            KeyCode::F(5),
            KeyCode::F(8),
            KeyCode::Char('g'),
            KeyCode::Char('c'),
            KeyCode::Char('/'),
            KeyCode::Char('e'),
        ]),
    ];
    let modifiers = prop::sample::select(vec![KeyModifiers::NONE, CTRL, KeyModifiers::ALT]);
    let event = prop_oneof![
        Just(ready_event(vec![Said::user("q")])),
        any::<String>().prop_map(|user| started(&user)),
        any::<String>().prop_map(|text| delta(Channel::Think, &text)),
        any::<String>().prop_map(|text| delta(Channel::Response, &text)),
        any::<String>().prop_map(|text| delta(Channel::Tools, &text)),
        Just(Event::Delta {
            channel: None,
            text: String::new()
        }),
        Just(ended(Ended::Finished)),
        Just(ended(Ended::Cancelled)),
        Just(Event::Reset {
            messages: Vec::new()
        }),
        Just(thinking_is(None)),
        Just(Event::Loaded {
            history: "f".into(),
            messages: Vec::new(),
            open: None
        }),
        Just(Event::Refused("no".to_owned())),
        Just(Event::Warning("careful".to_owned())),
        Just(Event::Stopped(None)),
    ];
    prop_oneof![
        8 => (key, modifiers).prop_map(|(code, modifiers)| Message::Key(KeyEvent::new(code, modifiers))),
        6 => event.prop_map(Message::Engine),
        2 => (0_u16..250, 0_u16..80).prop_map(|(width, height)| Message::Resize(width, height)),
        1 => any::<String>().prop_map(Message::Paste),
        1 => Just(Message::EngineGone),
    ]
}

proptest! {
    /// In any order nothing panics, no text that came is lost, and what is visible fits.
    #[test]
    fn any_messages_in_any_order(messages in prop::collection::vec(anything(), 0..60)) {
        let mut state = loading();
        let mut heard = String::new();
        for message in messages {
            match &message {
                Message::Engine(Event::Delta { channel: Some(Channel::Response), text }) => heard.push_str(text),
                Message::Engine(Event::Reset { .. } | Event::Loaded { .. }) => heard.clear(),
                _ => {}
            }
            update(&mut state, message);
            if let Some(areas) = state.areas() {
                let rows = usize::from(crate::tui::layout::body(areas.response).height);
                prop_assert!(state.response.visible().len() <= rows);
            }
        }
        let shown: String = texts(&state.response)
            .into_iter()
            .filter(|(kind, _)| *kind == Kind::Answer)
            .map(|(_, text)| text)
            .collect();
        prop_assert_eq!(shown, heard);
    }
}

/// Told and sent: the engine takes what it is asked.
fn take(state: &mut State, effects: &[Effect]) {
    for effect in effects {
        if let Effect::Send(Command::Send(text)) = effect {
            tell(state, started(text));
        }
    }
}

#[test]
fn messages_wait_while_the_model_is_busy_and_are_sent_in_order() {
    for mut state in [loading(), answering()] {
        assert_eq!(enter(&mut state, "one"), []);
        assert_eq!(enter(&mut state, "//two"), []);
        assert_eq!(state.queue, ["one", "/two"]);
        assert!(state.draft.is_empty() && state.hint.is_some());
        let effects = match state.phase {
            Phase::Loading => tell(&mut state, ready_event(Vec::new())),
            _ => tell(&mut state, ended(Ended::Finished)),
        };
        assert_eq!(effects, sent(Command::Send("one".to_owned())));
        take(&mut state, &effects);
        let effects = tell(&mut state, ended(Ended::Finished));
        assert_eq!(effects, sent(Command::Send("/two".to_owned())));
        take(&mut state, &effects);
        assert_eq!(tell(&mut state, ended(Ended::Finished)), []);
        assert!(state.queue.is_empty());
        let waits = state.hint.is_some_and(|hint| hint.ends_with(BACK));
        assert!(!waits, "nothing waits any more");
    }
}

#[test]
fn what_waits_can_be_taken_back_and_is_held_after_a_stop() {
    let mut state = answering();
    enter(&mut state, "one");
    enter(&mut state, "//two");
    press(&mut state, KeyCode::Up, KeyModifiers::NONE);
    assert_eq!(state.draft.text(), "//two");
    assert_eq!(state.queue, ["one"]);
    enter(&mut state, "");
    assert_eq!(state.queue, ["one", "/two"]);
    press(&mut state, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(tell(&mut state, ended(Ended::Cancelled)), [], "held back");
    assert_eq!(state.queue.len(), 2);
    let effects = press(&mut state, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects, sent(Command::Send("one".to_owned())));
}

#[test]
fn messages_of_before_come_back_and_the_draft_with_them() {
    let mut state = idle();
    for text in ["one", "two\nlines"] {
        update(&mut state, Message::Paste(text.to_owned()));
        let effects = press(&mut state, KeyCode::Enter, KeyModifiers::NONE);
        take(&mut state, &effects);
        tell(&mut state, ended(Ended::Finished));
    }
    typed(&mut state, "draft");
    let up = |state: &mut State| press(state, KeyCode::Up, KeyModifiers::NONE);
    up(&mut state);
    assert_eq!(state.draft.text(), "two\nlines");
    up(&mut state);
    assert_eq!(
        state.draft.text(),
        "two\nlines",
        "the caret first goes to the first line"
    );
    up(&mut state);
    assert_eq!(state.draft.text(), "one");
    press(&mut state, KeyCode::Down, KeyModifiers::NONE);
    press(&mut state, KeyCode::Down, KeyModifiers::NONE);
    assert_eq!(state.draft.text(), "draft");
}

#[test]
fn commands_that_wait_say_so_and_the_others_run() {
    let mut state = answering();
    assert_eq!(enter(&mut state, "/regen"), []);
    assert!(
        state
            .hint
            .as_deref()
            .is_some_and(|hint| hint.starts_with("Not while an answer runs"))
    );
    assert_eq!(enter(&mut state, "/pause"), sent(Command::Pause));
    let mut state = idle();
    assert_eq!(
        enter(&mut state, "/system Be kind."),
        sent(Command::System(Some("Be kind.".to_owned())))
    );
    assert_eq!(
        enter(&mut state, "/temp 0"),
        sent(Command::Sampling(Sampling::Greedy))
    );
    let draw = |state: &mut State, text| match enter(state, text).as_slice() {
        [Effect::Send(Command::Sampling(sampling))] => {
            tell(state, Event::SamplingIs(*sampling));
            *sampling
        }
        effects => panic!("{effects:?}"),
    };
    draw(&mut state, "/temp 0.5");
    draw(&mut state, "/top-p 0.9");
    let expected = Sampling::Draw(crate::chat::Draw {
        temperature: 0.5,
        top_p: 0.9,
        top_k: None,
        seed: 7,
    });
    assert_eq!(draw(&mut state, "/seed 7"), expected);
    assert_eq!(enter(&mut state, "/top-p 2"), []);
    assert!(
        state
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("at most 1"))
    );
}

#[test]
fn a_message_taken_back_to_be_edited_opens_the_editor() {
    let mut state = idle();
    assert_eq!(enter(&mut state, "/edit"), sent(Command::Undo));
    let effects = tell(
        &mut state,
        Event::Conversation {
            messages: Vec::new(),
            taken_back: Some("old".to_owned()),
            cost: None,
        },
    );
    assert_eq!(effects, [Effect::Edit("old".to_owned())]);
    update(&mut state, Message::Edited(Ok("new\ntext".to_owned())));
    assert_eq!(state.draft.text(), "new\ntext");
    update(&mut state, Message::Edited(Err("no editor".to_owned())));
    assert_eq!(
        (state.draft.text().as_str(), state.hint.as_deref()),
        ("new\ntext", Some("no editor"))
    );
    assert_eq!(
        press(&mut state, KeyCode::Char('g'), CTRL),
        [Effect::Edit("new\ntext".to_owned())]
    );
}

#[test]
fn what_is_copied_and_written_is_what_was_said() {
    let mut state = answering();
    tell(&mut state, delta(Channel::Response, ":\n```sh\nls\n```\n"));
    tell(&mut state, ended(Ended::Finished));
    assert_eq!(
        enter(&mut state, "/copy 1"),
        [Effect::Copy("The code", "ls\n".to_owned())]
    );
    assert_eq!(
        enter(&mut state, "/copy think"),
        [Effect::Copy("The reasoning", "hm".to_owned())]
    );
    assert_eq!(
        enter(&mut state, "/copy"),
        [Effect::Copy(
            "The answer",
            "Hi:\n```sh\nls\n```\n".to_owned()
        )]
    );
    assert_eq!(enter(&mut state, "/copy 2"), []);
    assert_eq!(
        state.hint.as_deref(),
        Some("The last answer has 1 block of code.")
    );
    let saved = "{\"role\":\"user\",\"content\":\"hello\"}\n{\"role\":\"assistant\",\"content\":\"Hi:\\n```sh\\nls\\n```\\n\",\"reasoning_content\":\"hm\"}\n";
    assert_eq!(
        enter(&mut state, "/save a b.jsonl"),
        [Effect::Write("a b.jsonl".to_owned(), saved.to_owned())]
    );
}

#[test]
fn a_text_is_found_from_the_end_on_and_round() {
    let mut state = idle();
    let history = (0..40)
        .map(|n| Said::user(format!("number {n} of many")))
        .collect();
    tell(
        &mut state,
        Event::Conversation {
            messages: history,
            taken_back: None,
            cost: None,
        },
    );
    enter(&mut state, "/search NUMBER 3");
    assert!(
        state
            .hint
            .as_deref()
            .is_some_and(|hint| hint.starts_with("11 of 11")),
        "{:?}",
        state.hint
    );
    for _ in 0..10 {
        press(&mut state, KeyCode::F(7), KeyModifiers::NONE);
    }
    assert!(!state.response.follows());
    let starts = |state: &State, with: &str| {
        state
            .hint
            .as_deref()
            .is_some_and(|hint| hint.starts_with(with))
    };
    assert!(starts(&state, "1 of 11"), "{:?}", state.hint);
    press(&mut state, KeyCode::F(8), KeyModifiers::NONE);
    assert!(starts(&state, "2 of 11"));
    for _ in 0..2 {
        press(&mut state, KeyCode::F(7), KeyModifiers::NONE);
    }
    assert!(starts(&state, "11 of 11"), "round to the end");
    press(&mut state, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(state.search, None);
    enter(&mut state, "/search nothing");
    assert_eq!(state.hint.as_deref(), Some("Not found in this pane."));
}

#[test]
fn conversations_are_listed_and_one_is_gone_over_to() {
    let mut state = idle();
    assert_eq!(enter(&mut state, "/sessions"), [Effect::ListSessions]);
    let kept = |name: &str| crate::chat::Kept {
        path: name.into(),
        title: name.to_owned(),
        when: "2026-01-02T03:04:05Z".to_owned(),
        messages: 2,
    };
    update(&mut state, Message::Sessions(vec![kept("a"), kept("b")]));
    press(&mut state, KeyCode::Down, KeyModifiers::NONE);
    press(&mut state, KeyCode::Down, KeyModifiers::NONE);
    let effects = press(&mut state, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects, sent(Command::Load("b".into())));
    assert_eq!(state.overlay, None);
    tell(
        &mut state,
        Event::Loaded {
            history: "b".into(),
            messages: vec![Said::user("q"), Said::assistant(None, "a")],
            open: None,
        },
    );
    assert_eq!(
        texts(&state.response),
        [(Kind::User, "q"), (Kind::Answer, "a")]
    );
    assert_eq!(
        enter(&mut state, "/rename Rings"),
        [Effect::Rename("b".into(), "Rings".to_owned())]
    );
    assert_eq!(enter(&mut state, "/fork"), [Effect::Fork("b".into())]);
    assert_eq!(
        update(&mut state, Message::Forked("c".into())),
        sent(Command::Load("c".into()))
    );
    let mut state = idle();
    assert_eq!(enter(&mut state, "/fork"), []);
    update(&mut state, Message::Sessions(Vec::new()));
    assert_eq!(state.overlay, None);
}

#[test]
fn a_long_answer_rings_and_a_stopped_one_does_not() {
    for (how, seconds, rings) in [
        (Ended::Finished, 60.0, true),
        (Ended::Finished, 1.0, false),
        (Ended::Cancelled, 60.0, false),
    ] {
        let mut state = answering();
        let facts = TurnFacts {
            seconds_decode: seconds,
            ..TurnFacts::nothing(how)
        };
        let effects = tell(&mut state, Event::TurnEnded(facts));
        assert_eq!(effects.contains(&Effect::Bell), rings);
    }
}

#[test]
fn somebody_who_looks_away_sees_what_goes_on() {
    use crate::tui::outward::{Progress, progress, summary, title};
    let mut state = idle();
    assert_eq!(
        (title(&state).as_str(), progress(&state), summary(&state)),
        ("k3-tui: idle", Progress::None, None)
    );
    enter(&mut state, "hello");
    tell(&mut state, started("hello"));
    let telemetry = Telemetry {
        activity: Activity::Prefill { done: 3, of: 12 },
        ..Telemetry::default()
    };
    update(&mut state, Message::Telemetry(Box::new(telemetry)));
    assert_eq!(
        (title(&state).as_str(), progress(&state)),
        ("k3-tui: reading", Progress::Part(25))
    );
    tell(&mut state, delta(Channel::Response, "Hi"));
    assert_eq!(title(&state), "k3-tui: answering, 1 token");
    tell(&mut state, ended(Ended::Finished));
    state.history = Some("talk.jsonl".into());
    let said = summary(&state).unwrap();
    assert!(
        said.contains("1 answer, 1 token of thinking and 2 tokens of answer in 3 s"),
        "{said}"
    );
    assert!(said.ends_with("k3-tui --history talk.jsonl"), "{said}");
}

#[test]
fn the_release_of_a_key_does_nothing() {
    use crossterm::event::KeyEventKind;
    let mut state = idle();
    for kind in [KeyEventKind::Press, KeyEventKind::Release] {
        let key = KeyEvent {
            kind,
            ..KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE)
        };
        update(&mut state, Message::Key(key));
    }
    assert_eq!(state.draft.text(), "a");
}

#[test]
fn with_reduced_motion_the_clock_draws_nothing() {
    let mut state = answering();
    state.still = true;
    state.dirty = false;
    update(&mut state, Message::Now(Duration::from_secs(9)));
    assert!(!state.dirty);
    tell(&mut state, delta(Channel::Response, "more"));
    assert!(state.dirty);
}

#[test]
fn memory_plans_are_offered_and_one_is_taken_or_made() {
    use crate::chat::Change;
    use crate::stream::Preset;
    use crate::tui::tune::offers;
    let mut state = answering();
    assert_eq!(enter(&mut state, "/tune"), sent(Command::Offers));
    let simulate = vec![Effect::Simulate(offers())];
    assert_eq!(tell(&mut state, Event::Offers(offers())), simulate);
    let (none, down) = (KeyModifiers::NONE, KeyCode::Down);
    press(&mut state, down, none);
    press(&mut state, KeyCode::Up, none);
    let effects = press(&mut state, KeyCode::Enter, none);
    assert_eq!(effects, sent(Command::Preset(Preset::Laptop)));
    assert_eq!(
        state.hint.as_deref(),
        Some("Changing the memory plan when this token is through.")
    );
    // The slider below the presets, one step up.
    tell(&mut state, Event::Offers(offers()));
    for _ in 0..Preset::ALL.len() - 1 {
        press(&mut state, down, none);
    }
    press(&mut state, KeyCode::Right, none);
    let effects = press(&mut state, KeyCode::Enter, none);
    let made = |effect: &Effect| {
        matches!(
            effect,
            Effect::Send(Command::Budget(Change::Parts { ring: 4, .. }))
        )
    };
    assert!(effects.len() == 1 && made(&effects[0]), "{effects:?}");
    // What comes after the list was closed is no news.
    update(&mut state, Message::Retained(vec![(4, 0.5)]));
    assert_eq!(state.overlay, None);
    assert_eq!(
        enter(&mut state, "/trunk 12.5"),
        sent(Command::Budget(Change::Trunk(12_500_000_000)))
    );
    assert_eq!(
        enter(&mut state, "/ring 6"),
        sent(Command::Budget(Change::Ring(6)))
    );
    assert_eq!(enter(&mut state, "/ring 0"), []);
}

#[test]
fn tokens_are_measured_plan_by_plan_without_those_that_a_change_or_a_rest_fell_into() {
    let mut state = answering();
    let token = |state: &mut State, second| {
        update(state, Message::Now(Duration::from_secs(second)));
        tell(state, delta(Channel::Response, "x"));
    };
    for second in [1, 2, 3] {
        token(&mut state, second);
    }
    tell(&mut state, Event::Paused);
    tell(&mut state, Event::Unpaused);
    token(&mut state, 500);
    tell(
        &mut state,
        Event::Planned {
            preset: crate::stream::Preset::Max,
            total_bytes: 1_500_000_000,
            trunk_read: 0,
        },
    );
    for second in [900, 901] {
        token(&mut state, second);
    }
    let counts: Vec<_> = state
        .measured
        .iter()
        .map(|m| (m.plan.as_str(), m.tokens()))
        .collect();
    // The two of the answer's beginning came at once.
    assert_eq!(counts, [("the plan of the start", 4), ("max, 1.50 GB", 1)]);
}

/// A screen with the telemetry at its side, in the middle of an answer.
fn wide() -> State {
    let mut state = answering();
    update(&mut state, Message::Resize(120, 40));
    let telemetry = Telemetry {
        activity: Activity::Decode,
        trunk_bytes: Some(Default::default()),
        slots: vec![crate::engine::telemetry::SlotState::Empty],
        ..Telemetry::default()
    };
    update(&mut state, Message::Telemetry(Box::new(telemetry)));
    state
}

#[test]
fn the_telemetry_is_held_zoomed_shown_alone_and_set_back_by_keys() {
    use crate::tui::instruments::Widget;
    use crate::tui::samples::Span;
    let mut state = wide();
    let none = KeyModifiers::NONE;
    for _ in 0..3 {
        press(&mut state, KeyCode::Tab, none);
    }
    assert_eq!(state.focus, Focus::Telemetry);
    press(&mut state, KeyCode::Char('f'), none);
    assert!(state.instruments.is_held());
    press(&mut state, KeyCode::Char('-'), none);
    assert_eq!(state.instruments.span, Span::Five);
    press(&mut state, KeyCode::Char('+'), none);
    assert_eq!(state.instruments.span, Span::Minute);
    press(&mut state, KeyCode::Char('r'), none);
    assert!(state.instruments.since().is_some());
    press(&mut state, KeyCode::Down, none);
    assert_eq!(state.instruments.chosen, Widget::Disk);
    press(&mut state, KeyCode::Enter, none);
    assert_eq!(state.instruments.alone, Some(0));
    // One thing at a time: the part, then the answer.
    assert_eq!(press(&mut state, KeyCode::Esc, none), []);
    assert_eq!(state.instruments.alone, None);
    assert_eq!(press(&mut state, KeyCode::Esc, none), sent(Command::Cancel));
    // Any other letter is for the message.
    press(&mut state, KeyCode::Char('x'), none);
    assert_eq!(
        (state.focus, state.draft.text().as_str()),
        (Focus::Message, "x")
    );
    // A pane that is gone has no keys.
    state.draft.clear();
    for _ in 0..3 {
        press(&mut state, KeyCode::Tab, none);
    }
    update(&mut state, Message::Resize(80, 24));
    assert_eq!(state.focus, Focus::Message);
}

#[test]
fn the_telemetry_is_commanded_and_written_to_a_file() {
    use crate::tui::samples::Span;
    let mut state = wide();
    enter(&mut state, "/telemetry 10s");
    assert_eq!(state.instruments.span, Span::Ten);
    enter(&mut state, "/telemetry hold");
    assert!(state.instruments.is_held());
    enter(&mut state, "/telemetry hold");
    assert!(!state.instruments.is_held());
    let effects = enter(&mut state, "/record out.csv");
    let [Effect::Write(file, text)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(file, "out.csv");
    assert!(text.starts_with("seconds,activity,"), "{text}");
    let effects = enter(&mut state, "/record out.jsonl");
    let [Effect::Write(_, text)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert!(text.starts_with('{'), "{text}");
    let mut state = idle();
    assert_eq!(enter(&mut state, "/record out.csv"), [], "nothing yet");
}

#[test]
fn what_was_not_sent_comes_back_and_waits() {
    use crate::tui::unsent::Unsent;
    let mut state = loading();
    typed(&mut state, "since");
    let event = match ready_event(Vec::new()) {
        Event::Ready {
            model,
            messages,
            effort,
            open,
            sampling,
            ..
        } => Event::Ready {
            model,
            messages,
            effort,
            open,
            sampling,
            history: Some("talk.jsonl".into()),
        },
        other => other,
    };
    let effects = tell(&mut state, event);
    assert_eq!(effects, [Effect::Recover("talk.jsonl".into())]);
    let unsent = Unsent {
        draft: "before".to_owned(),
        queue: vec!["one".to_owned(), "two".to_owned()],
    };
    assert_eq!(update(&mut state, Message::Recovered(unsent)), []);
    assert_eq!(state.draft.text(), "before\nsince");
    assert_eq!(state.queue, ["one", "two"]);
    assert!(
        state
            .hint
            .as_ref()
            .is_some_and(|hint| hint.contains("2 messages"))
    );
    assert_eq!(state.phase, Phase::Idle, "nothing is sent by itself");
    state.hint = None;
    update(&mut state, Message::Recovered(Unsent::default()));
    assert_eq!(state.hint, None, "nothing is no news");
}
