//! What the screen looks like, at several sizes, without a terminal: the state is led through a session by messages, and
//! drawn into a buffer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use k3::engine::{Activity, Ended, Event, ModelFacts, Telemetry, TurnFacts};
use k3::text::{Channel, Effort, Message as Said};
use k3::tui::{Message, State, Theme, update, view};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

const SIZES: [(u16, u16); 5] = [(80, 24), (200, 60), (60, 20), (40, 10), (39, 9)];

fn draw(state: &State) -> Terminal<TestBackend> {
    let (width, height) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view(state, frame)).unwrap();
    terminal
}

/// The rows as text, without the blanks at their ends.
fn text(state: &State) -> String {
    let terminal = draw(state);
    let buffer = terminal.backend().buffer();
    let rows = buffer.area.rows().map(|row| {
        let cells = row.columns().map(|cell| buffer[(cell.x, cell.y)].symbol());
        // A wide character stands in two cells, the second of which is a blank that is not sent.
        let mut skip = 0;
        let shown: String = cells
            .filter(|symbol| {
                let hidden = skip > 0;
                skip = match hidden {
                    true => skip - 1,
                    false => unicode_width(symbol).saturating_sub(1),
                };
                !hidden
            })
            .collect();
        shown.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn unicode_width(symbol: &str) -> usize {
    use ratatui::buffer::CellWidth;
    usize::from(symbol.cell_width())
}

fn tell(state: &mut State, event: Event) {
    update(state, Message::Engine(event));
}

fn press(state: &mut State, code: KeyCode) {
    update(state, Message::Key(KeyEvent::new(code, KeyModifiers::NONE)));
}

fn enter(state: &mut State, text: &str) {
    for c in text.chars() {
        press(state, KeyCode::Char(c));
    }
    press(state, KeyCode::Enter);
}

fn ready(demo: bool, messages: Vec<Said>) -> Event {
    Event::Ready {
        model: ModelFacts {
            name: if demo { "demo model" } else { "Kimi-K3" }.to_owned(),
            demo,
            layers: 93,
            context: 8192,
        },
        messages,
        effort: Some(Effort::Max),
    }
}

fn delta(channel: Channel, text: &str) -> Event {
    Event::Delta {
        channel: Some(channel),
        text: text.to_owned(),
    }
}

fn busy_telemetry() -> Telemetry {
    Telemetry {
        activity: Activity::Decode,
        layer: Some((47, 93)),
        trunk_gb_per_s: Some(3.214),
        ring: Some((3, 4)),
        experts_retained: Some(0.4321),
        drops: 0,
        positions: (1234, 8192),
        tokens_per_s: Some(0.04),
        rss_bytes: Some(12_345_678_901),
    }
}

/// First start: the demo model, nothing said yet.
fn first_start(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Ansi);
    tell(&mut state, ready(true, Vec::new()));
    state
}

/// In the middle of an answer, the clock at 75 seconds.
fn answering(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Ansi);
    tell(&mut state, ready(false, Vec::new()));
    let question = "Why is the trunk read once for every token?";
    enter(&mut state, question);
    tell(
        &mut state,
        Event::TurnStarted {
            user: question.to_owned(),
            prompt_tokens: 24,
        },
    );
    update(&mut state, Message::Now(Duration::from_secs(30)));
    for word in
        "The person asks about streaming. Every weight of the trunk takes part in every token. "
            .split_inclusive(' ')
    {
        tell(&mut state, delta(Channel::Think, word));
    }
    update(&mut state, Message::Now(Duration::from_secs(55)));
    for word in "Because every token goes through every layer, and memory holds only some of them at a time. "
        .split_inclusive(' ')
    {
        tell(&mut state, delta(Channel::Response, word));
    }
    update(&mut state, Message::Now(Duration::from_secs(75)));
    update(&mut state, Message::Telemetry(busy_telemetry()));
    state
}

fn dropped(size: (u16, u16)) -> State {
    let mut state = answering(size);
    let telemetry = Telemetry {
        activity: Activity::Idle,
        drops: 1,
        ..busy_telemetry()
    };
    update(&mut state, Message::Telemetry(telemetry));
    tell(
        &mut state,
        Event::TurnEnded(TurnFacts {
            ended: Ended::Failed("expert 211 of layer 47 could not be read".to_owned()),
            think_tokens: 15,
            response_tokens: 17,
            seconds_prefill: 30.0,
            seconds_decode: 45.0,
            positions: 1234,
        }),
    );
    state
}

/// A history with much of what is hard to draw.
fn world(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Ansi);
    let history = vec![
        Said::user("你好，世界！ and 👩‍🚀 and café"),
        Said::assistant(
            Some("思考思考思考思考思考思考思考思考思考思考思考思考思考思考思考".to_owned()),
            "漢字かな交じり文。\u{1b}[31mred\u{1b}[0m\ttab\r\nשלום \u{202e}abc\u{7}",
        ),
    ];
    tell(&mut state, ready(false, history));
    state
}

fn snapshots(name: &str, make: fn((u16, u16)) -> State) {
    for size in SIZES {
        let name = format!("{name}_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, text(&make(size)));
    }
}

#[test]
fn first_start_looks() {
    snapshots("first_start", first_start);
}

#[test]
fn answering_looks() {
    snapshots("answering", answering);
}

#[test]
fn a_dropped_expert_looks() {
    snapshots("dropped", dropped);
}

#[test]
fn wide_and_hidden_characters_look() {
    snapshots("world", world);
}

#[test]
fn help_looks() {
    snapshots("help", |size| {
        let mut state = answering(size);
        press(&mut state, KeyCode::F(1));
        state
    });
}

#[test]
fn completion_and_a_wrong_command_look() {
    snapshots("completion", |size| {
        let mut state = first_start(size);
        press(&mut state, KeyCode::Char('/'));
        state
    });
    snapshots("wrong_command", |size| {
        let mut state = first_start(size);
        enter(&mut state, "/etc/hosts is a file");
        state
    });
}

#[test]
fn a_stopped_engine_and_reading_back_look() {
    snapshots("stopped", |size| {
        let mut state = answering(size);
        tell(
            &mut state,
            Event::Stopped(Some("shard 7 is gone".to_owned())),
        );
        state
    });
    snapshots("reading_back", |size| {
        let mut state = answering(size);
        tell(
            &mut state,
            delta(Channel::Response, &"One more line.\n".repeat(80)),
        );
        press(&mut state, KeyCode::PageUp);
        tell(&mut state, delta(Channel::Response, "The newest.\n"));
        state
    });
}

#[test]
fn the_four_facts_are_always_named() {
    let facts = [
        "trunk GB/s",
        "ring slots in flight",
        "experts retained",
        "expert drops",
    ];
    for size in [(80, 24), (100, 30), (120, 40), (200, 60), (250, 80)] {
        for state in [
            State::new(size, Theme::Ansi),
            first_start(size),
            answering(size),
            dropped(size),
        ] {
            let text = text(&state);
            for fact in facts {
                assert!(text.contains(fact), "{fact} at {size:?}:\n{text}");
            }
        }
        let unknown = text(&State::new(size, Theme::Ansi));
        let dashes = unknown.matches('–').count();
        assert!(dashes >= 4, "what is not known is a dash:\n{unknown}");
    }
}

#[test]
fn drops_stand_out_with_and_without_colour() {
    for theme in [Theme::Ansi, Theme::Mono] {
        let mut state = dropped((80, 24));
        state.theme = theme;
        let terminal = draw(&state);
        let buffer = terminal.backend().buffer();
        let bar = &buffer[(0, 0)];
        assert!(bar.modifier.contains(Modifier::REVERSED | Modifier::BOLD));
        assert_eq!(bar.fg == Color::Red, theme == Theme::Ansi);
        assert!(text(&state).starts_with(" !! 1 expert could not be read"));
    }
}

#[test]
fn without_colour_there_is_none() {
    for mut state in [
        first_start((80, 24)),
        answering((200, 60)),
        dropped((60, 20)),
    ] {
        state.theme = Theme::Mono;
        let terminal = draw(&state);
        for cell in terminal.backend().buffer().content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
}

#[test]
fn the_cursor_stands_at_the_caret() {
    let mut state = first_start((80, 24));
    for c in "a漢".chars() {
        press(&mut state, KeyCode::Char(c));
    }
    let mut terminal = draw(&state);
    let row = 24 - 1 - 2 - 1;
    terminal.backend_mut().assert_cursor_position((2 + 3, row));
}

proptest! {
    /// Whatever the size, whatever the text: drawing never panics, and no control character is drawn.
    #[test]
    fn any_text_at_any_size(
        width in 1_u16..=250, height in 1_u16..=80, think: String, said: String, draft: String, drops in 0_u64..3,
        help: bool,
    ) {
        let mut state = State::new((width, height), Theme::Ansi);
        tell(&mut state, ready(true, vec![Said::user(said.clone())]));
        tell(&mut state, delta(Channel::Think, &think));
        tell(&mut state, delta(Channel::Response, &said));
        update(&mut state, Message::Paste(draft));
        update(&mut state, Message::Telemetry(Telemetry { drops, ..busy_telemetry() }));
        if help {
            press(&mut state, KeyCode::F(1));
        }
        let terminal = draw(&state);
        for cell in terminal.backend().buffer().content() {
            prop_assert!(!cell.symbol().contains(char::is_control));
        }
        // A terminal that changed its size before the state heard of it.
        let mut other = Terminal::new(TestBackend::new(height, width)).unwrap();
        other.draw(|frame| view(&state, frame)).unwrap();
    }
}

/// The tables are the authority; the documentation says the same.
#[test]
fn the_documentation_lists_every_command_and_key() {
    let text = include_str!("../docs/screen.md");
    for command in k3::tui::commands::TABLE {
        let usage = command.usage().replace('|', "\\|");
        let row = format!("| `{usage}` | {} |", command.help);
        assert!(text.contains(&row), "{row}");
    }
    for binding in k3::tui::keys::TABLE {
        let row = format!("| {} | {} |", binding.label, binding.help);
        assert!(text.contains(&row), "{row}");
    }
}
