//! What the screen looks like for a model on a server, at two sizes, without a terminal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use k3::chat::Sampling;
use k3::engine::telemetry::{Counted, Metrics, RemoteFigures, ServerFigures};
use k3::engine::{Activity, Command, Event, ModelFacts, Telemetry};
use k3::text::{Channel, Effort};
use k3::tui::{Effect, Listed, Message, State, Theme, update, view};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn text(state: &State) -> String {
    let (width, height) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.area.rows().map(|row| {
        let cells = row.columns().map(|cell| buffer[(cell.x, cell.y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn enter(state: &mut State, text: &str) -> Vec<Effect> {
    let mut press = |code| update(state, Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    for c in text.chars() {
        press(KeyCode::Char(c));
    }
    press(KeyCode::Enter)
}

fn ready() -> Event {
    Event::Ready {
        model: ModelFacts {
            name: "Kimi-K3".to_owned(),
            demo: false,
            layers: 0,
            context: 262_144,
            server: Some("box:8000".to_owned()),
        },
        messages: Vec::new(),
        effort: Some(Effort::Max),
        open: None,
        sampling: Sampling::Greedy,
        history: None,
    }
}

fn figures() -> RemoteFigures {
    let last = Counted {
        prompt: 1234,
        cached: Some(1024),
        made: 345,
        reasoning: None,
    };
    RemoteFigures {
        first_token: Some(Duration::from_millis(1340)),
        longest_gap: Some(Duration::from_millis(420)),
        pace: Some(23.44),
        tokens: 0,
        last: Some(last),
        all: last.and(last),
        again: 1,
        metrics: Metrics::Known(ServerFigures {
            engine: "vLLM",
            running: Some(3),
            waiting: Some(12),
            cache: Some(0.421),
            pace: Some(1234.5),
        }),
    }
}

fn telemetry(activity: Activity, remote: RemoteFigures) -> Message {
    Message::Telemetry(Box::new(Telemetry {
        activity,
        positions: (1579, 262_144),
        rss_bytes: Some(21_000_000),
        remote: Some(remote),
        ..Telemetry::default()
    }))
}

/// A conversation with a server, in the middle of an answer that has come for half a minute.
fn answering(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Auto);
    update(&mut state, Message::Engine(ready()));
    enter(&mut state, "What is the ring?");
    let started = Event::TurnStarted {
        user: "What is the ring?".to_owned(),
        prompt_tokens: 0,
    };
    update(&mut state, Message::Engine(started));
    for second in 0..30_u64 {
        update(&mut state, Message::Now(Duration::from_secs(second)));
        let remote = RemoteFigures {
            tokens: 20 * second + second * second / 10,
            ..figures()
        };
        update(&mut state, telemetry(Activity::Decode, remote));
    }
    for (channel, word) in [
        (Channel::Think, "They ask. "),
        (Channel::Response, "A few slots."),
    ] {
        let delta = Event::Delta {
            channel: Some(channel),
            text: word.to_owned(),
        };
        update(&mut state, Message::Engine(delta));
    }
    state
}

#[test]
fn a_model_on_a_server_looks() {
    for (width, height) in [(80, 24), (120, 40), (40, 10)] {
        let state = answering((width, height));
        insta::assert_snapshot!(format!("answering_{width}x{height}"), text(&state));
    }
}

#[test]
fn before_anything_came_it_waits_and_nothing_is_a_zero() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = State::new((width, height), Theme::Auto);
        update(&mut state, Message::Engine(ready()));
        enter(&mut state, "hello");
        let started = Event::TurnStarted {
            user: "hello".to_owned(),
            prompt_tokens: 0,
        };
        update(&mut state, Message::Engine(started));
        let remote = RemoteFigures {
            metrics: Metrics::NotOffered,
            ..RemoteFigures::default()
        };
        update(&mut state, telemetry(Activity::Waiting, remote));
        insta::assert_snapshot!(format!("waiting_{width}x{height}"), text(&state));
    }
}

#[test]
fn no_figure_of_a_disk_is_left_over() {
    for size in [(40, 10), (60, 20), (80, 24), (120, 40), (200, 60)] {
        let shown = text(&answering(size));
        for word in ["trunk", "ring slots", "experts", "drops"] {
            assert!(!shown.contains(word), "{size:?}: {word}\n{shown}");
        }
    }
}

#[test]
fn going_over_ends_the_engine_and_takes_the_conversation_along() {
    let mut state = answering((80, 24));
    state.backends = Listed {
        names: vec![
            ("local".to_owned(), "the demo model".to_owned()),
            ("cluster".to_owned(), "http://box:8000".to_owned()),
        ],
        current: "cluster".to_owned(),
    };
    state.history = Some("talk.jsonl".into());
    enter(&mut state, "/backend local");
    assert!(
        state
            .hint
            .as_ref()
            .unwrap()
            .contains("Not while an answer runs")
    );
    let ended = k3::engine::TurnFacts::nothing(k3::engine::Ended::Finished);
    update(&mut state, Message::Engine(Event::TurnEnded(ended)));
    enter(&mut state, "/backend");
    let hint = state.hint.clone().unwrap();
    assert!(hint.contains("cluster (http://box:8000, in use)"), "{hint}");
    enter(&mut state, "/backend elsewhere");
    assert!(state.hint.as_ref().unwrap().contains("no model elsewhere"));
    assert_eq!(
        enter(&mut state, "/backend local"),
        [Effect::Send(Command::Quit)]
    );
    let effects = update(&mut state, Message::Engine(Event::Stopped(None)));
    let [Effect::Open(name, carried)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(name, "local");
    assert_eq!(carried.history, state.history);
    assert_eq!(carried.thinking, Some(Some(Effort::Max)));
    // It cannot be opened: what was said stays, and another one can be taken.
    let failed = Message::Opened("local".to_owned(), Err("no such folder".to_owned()));
    update(&mut state, failed);
    let shown = text(&state);
    assert!(
        shown.contains("local cannot be used: no such folder"),
        "{shown}"
    );
    let effects = enter(&mut state, "/backend cluster");
    assert!(matches!(effects.as_slice(), [Effect::Open(name, _)] if name == "cluster"));
    update(&mut state, Message::Opened("cluster".to_owned(), Ok(())));
    assert_eq!(state.backends.current, "cluster");
    let mut again = ready();
    if let Event::Ready { history, .. } = &mut again {
        history.clone_from(&state.history);
    }
    // What is being written is not found a second time.
    assert_eq!(update(&mut state, Message::Engine(again)), []);
    assert!(text(&state).contains("Kimi-K3 on box:8000"));
}

#[test]
fn a_conversation_without_a_file_stays_where_it_is() {
    let mut state = answering((80, 24));
    let ended = k3::engine::TurnFacts::nothing(k3::engine::Ended::Cancelled);
    update(&mut state, Message::Engine(Event::TurnEnded(ended)));
    state.backends.names = vec![("local".to_owned(), String::new())];
    assert_eq!(enter(&mut state, "/backend local"), []);
    assert!(state.hint.as_ref().unwrap().contains("/save FILE"));
    let shown = text(&state);
    assert!(!shown.contains("/continue"), "a server cannot\n{shown}");
}
