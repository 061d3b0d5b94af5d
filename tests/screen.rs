//! What the screen looks like, at several sizes, without a terminal: the state is led through a session by messages, and
//! drawn into a buffer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use k3::chat::{Kept, Sampling};
use k3::engine::telemetry::{ExpertFigures, LayerFigures, SlotState, Split, TrunkBytes, Waits};
use k3::engine::{Activity, Ended, Event, ModelFacts, Offer, Rates, Telemetry, TurnFacts};
use k3::stream::{PerToken, Preset};
use k3::text::{Channel, Effort, Message as Said};
use k3::tui::{Message, State, Theme, update, view};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

const SIZES: [(u16, u16); 6] = [(80, 24), (120, 40), (200, 60), (60, 20), (40, 10), (39, 9)];

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
        open: None,
        sampling: Sampling::Greedy,
        history: None,
    }
}

fn delta(channel: Channel, text: &str) -> Event {
    Event::Delta {
        channel: Some(channel),
        text: text.to_owned(),
    }
}

/// In the middle of a token, layer 47 of 93, with every kind of figure.
fn busy_telemetry() -> Telemetry {
    let ms = Duration::from_millis;
    // Layer 0 has no experts; those from 60 on nothing went through yet.
    let layers = (0..93_u64).map(|layer| LayerFigures {
        requested: if layer == 0 { 0 } else { 1600 },
        retained: if layer == 0 { 0 } else { 17 * layer },
        read: if layer == 0 { 0 } else { 1600 - 17 * layer },
        drops: 0,
        last: (1..60).contains(&layer).then_some((16, layer % 17)),
        time: (layer < 60).then_some((ms(100 + 10 * (layer % 23)), ms(50))),
        pinned: Some((layer % 4) as f64 / 3.0),
    });
    Telemetry {
        activity: Activity::Decode,
        positions: (1234, 8192),
        tokens_per_minute: Some(2.4),
        layer: Some((47, 93)),
        elapsed: Some(ms(12_340)),
        trunk: Rates {
            second: Some(3.214),
            ten: Some(3.05),
        },
        experts: Rates {
            second: Some(1.02),
            ten: None,
        },
        slots: vec![
            SlotState::Computing,
            SlotState::Reading { percent: 37 },
            SlotState::Ready,
            SlotState::Empty,
        ],
        waits: Some(Waits {
            trunk: ms(754_000),
            experts: ms(61_000),
            embedding: ms(12),
        }),
        last_token: Some(Split {
            positions: 1,
            waited: Waits {
                trunk: ms(14_000),
                experts: ms(6_000),
                embedding: ms(2),
            },
            computed: ms(4_000),
            kernels: k3::stream::Kernels::default(),
            rest: ms(998),
        }),
        expert_figures: Some(ExpertFigures {
            requested: (147_200, 2_583_000_000_000),
            retained: (63_606, 1_116_100_000_000),
            read: (83_594, 1_466_900_000_000),
        }),
        drops: 0,
        layers: layers.collect(),
        trunk_bytes: Some(TrunkBytes {
            read: 9_654_321_000_000,
            owed: 9_654_254_000_000,
            pinned: 28_000_000_000,
        }),
        rss_bytes: Some(12_345_678_901),
        peak_rss_bytes: Some(12_500_000_000),
        planned_bytes: Some(12_600_000_000),
    }
}

/// First start: the demo model, nothing said yet.
fn first_start(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Auto);
    tell(&mut state, ready(true, Vec::new()));
    state
}

/// In the middle of an answer, the clock at 75 seconds.
fn answering(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Auto);
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
    update(&mut state, Message::Telemetry(Box::new(busy_telemetry())));
    state
}

fn dropped(size: (u16, u16)) -> State {
    let mut state = answering(size);
    let telemetry = Telemetry {
        activity: Activity::Idle,
        drops: 1,
        ..busy_telemetry()
    };
    update(&mut state, Message::Telemetry(Box::new(telemetry)));
    tell(
        &mut state,
        Event::TurnEnded(TurnFacts {
            think_tokens: 15,
            response_tokens: 17,
            seconds_prefill: 30.0,
            seconds_decode: 45.0,
            positions: 1234,
            ..TurnFacts::nothing(Ended::Failed(
                "expert 211 of layer 47 could not be read".to_owned(),
            ))
        }),
    );
    state
}

/// A history with much of what is hard to draw.
fn world(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Auto);
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

/// What is drawn, and below it a letter for the look of every cell.
fn looks(state: &State) -> String {
    let terminal = draw(state);
    let buffer = terminal.backend().buffer();
    let mut legend: Vec<(Color, Modifier)> = Vec::new();
    let mut rows = String::new();
    for row in buffer.area.rows() {
        let mut line = String::new();
        for cell in row.columns() {
            let cell = &buffer[(cell.x, cell.y)];
            let look = (cell.fg, cell.modifier);
            let plain = look == (Color::Reset, Modifier::empty());
            let index = legend
                .iter()
                .position(|known| *known == look)
                .unwrap_or_else(|| {
                    if !plain {
                        legend.push(look);
                    }
                    legend.len().saturating_sub(1)
                });
            line.push(if plain {
                ' '
            } else {
                char::from(b'a' + index as u8)
            });
        }
        rows.push_str(line.trim_end());
        rows.push('\n');
    }
    let named = legend.iter().enumerate();
    let legend: Vec<String> = named
        .map(|(index, (colour, modifier))| {
            format!("{} {colour} {modifier:?}", char::from(b'a' + index as u8))
        })
        .collect();
    format!("{rows}\n{}", legend.join("\n"))
}

#[test]
fn every_theme_looks() {
    for theme in Theme::ALL {
        for (name, make) in [
            ("markdown", markdown as fn((u16, u16)) -> State),
            ("dropped", dropped),
        ] {
            let mut state = make((80, 24));
            state.theme = theme;
            insta::assert_snapshot!(format!("theme_{}_{name}", theme.name()), looks(&state));
        }
    }
}

/// An answer with every kind of block, finished.
fn markdown(size: (u16, u16)) -> State {
    let mut state = State::new(size, Theme::Auto);
    tell(&mut state, ready(false, Vec::new()));
    enter(&mut state, "Compare them.");
    tell(
        &mut state,
        Event::TurnStarted {
            user: "Compare them.".to_owned(),
            prompt_tokens: 5,
        },
    );
    let answer = "# Ring and pins\n\nThe **ring** streams, *pins* stay; see `stream::ring`.\n\n| part | bytes | 意味 |\n|---|--:|---|\n| ring | 134 MB | 流れ |\n| pins | 28 GB | 留まる |\n\n1. read\n2. compute\n   - one slot\n   - the others\n\n> A pinned byte saves a byte.\n\n```rust\nlet slots = 4;\n```\n\n---\nMore [here](https://example.org).";
    for word in answer.split_inclusive(' ') {
        tell(&mut state, delta(Channel::Response, word));
    }
    tell(
        &mut state,
        Event::TurnEnded(TurnFacts {
            response_tokens: 40,
            seconds_decode: 3.0,
            ..TurnFacts::nothing(Ended::Finished)
        }),
    );
    state
}

#[test]
fn markdown_looks() {
    snapshots("markdown", markdown);
    snapshots("markdown_alone", |size| {
        let mut state = markdown(size);
        press(&mut state, KeyCode::F(3));
        state
    });
    snapshots("markdown_raw", |size| {
        let mut state = markdown(size);
        press(&mut state, KeyCode::F(5));
        state
    });
}

#[test]
fn thinking_and_a_stopped_answer_look() {
    let thinking = |size| {
        let mut state = State::new(size, Theme::Auto);
        tell(&mut state, ready(false, Vec::new()));
        enter(&mut state, "Why?");
        tell(
            &mut state,
            Event::TurnStarted {
                user: "Why?".to_owned(),
                prompt_tokens: 24,
            },
        );
        update(&mut state, Message::Now(Duration::from_secs(30)));
        for word in "They ask why. There may be a reason. "
            .repeat(8)
            .split_inclusive(' ')
        {
            tell(&mut state, delta(Channel::Think, word));
        }
        update(&mut state, Message::Now(Duration::from_secs(90)));
        update(&mut state, Message::Telemetry(Box::new(busy_telemetry())));
        state
    };
    snapshots("thinking", thinking);
    for (name, presses) in [("think_all", 1), ("think_line", 2)] {
        let mut state = thinking((80, 24));
        for _ in 0..presses {
            press(&mut state, KeyCode::F(2));
        }
        insta::assert_snapshot!(name, text(&state));
    }
    snapshots("cancelled", |size| {
        let mut state = answering(size);
        enter(&mut state, "And then?");
        press(&mut state, KeyCode::Esc);
        tell(
            &mut state,
            Event::TurnEnded(TurnFacts {
                think_tokens: 15,
                response_tokens: 17,
                seconds_prefill: 30.0,
                seconds_decode: 45.0,
                ..TurnFacts::nothing(Ended::Cancelled)
            }),
        );
        state
    });
}

#[test]
fn sessions_search_figures_and_telemetry_look() {
    snapshots("sessions", |size| {
        let mut state = first_start(size);
        let kept = |title: &str, day| Kept {
            path: title.into(),
            title: title.to_owned(),
            when: format!("2026-11-{day}T20:15:00Z"),
            messages: 12,
        };
        update(
            &mut state,
            Message::Sessions(vec![kept("Rings and pins", 29), kept("你好，世界", 28)]),
        );
        press(&mut state, KeyCode::Down);
        state
    });
    snapshots("tune", |size| {
        let mut state = State::new(size, Theme::Auto);
        tell(&mut state, ready(false, Vec::new()));
        tell(
            &mut state,
            Event::TurnStarted {
                user: "Why?".to_owned(),
                prompt_tokens: 24,
            },
        );
        update(&mut state, Message::Telemetry(Box::new(busy_telemetry())));
        let token = |trunk_read| PerToken {
            trunk_read,
            experts_read: 25_800_000_000,
            weights: 134_000_000_000,
            attention: 0,
        };
        let offer = |preset, total, trunk_read| Offer {
            preset,
            plan: Ok((total, token(trunk_read))),
        };
        let offers = vec![
            offer(Preset::Laptop, 8_000_000_000, 105_000_000_000),
            offer(Preset::Desktop, 33_000_000_000, 81_000_000_000),
            Offer {
                preset: Preset::Max,
                plan: Err("it takes 224 GB, and 64 GB are there".to_owned()),
            },
        ];
        let mut second = 76;
        let mut tokens = |state: &mut State, each| {
            for _ in 0..8 {
                second += each;
                update(state, Message::Now(Duration::from_secs(second)));
                tell(state, delta(Channel::Response, "word "));
            }
        };
        tokens(&mut state, 25);
        tell(
            &mut state,
            Event::Planned {
                preset: Preset::Desktop,
                total_bytes: 33_000_000_000,
                trunk_read: 81_000_000_000,
            },
        );
        tokens(&mut state, 19);
        tell(&mut state, Event::Offers(offers));
        press(&mut state, KeyCode::Down);
        state
    });
    snapshots("search", |size| {
        let mut state = markdown(size);
        enter(&mut state, "/search ring");
        state
    });
    snapshots("stats", |size| {
        let mut state = markdown(size);
        enter(&mut state, "/stats");
        state
    });
    snapshots("telemetry_alone", |size| {
        let mut state = answering(size);
        press(&mut state, KeyCode::F(4));
        state
    });
    snapshots("cost", |size| {
        let mut state = markdown(size);
        tell(
            &mut state,
            Event::TurnEnded(TurnFacts {
                fed: 10,
                seconds_prefill: 30.0,
                ..TurnFacts::nothing(Ended::Finished)
            }),
        );
        for c in "Tell me more about the ring.".chars() {
            press(&mut state, KeyCode::Char(c));
        }
        state
    });
}

#[test]
fn what_is_looked_for_stands_out() {
    let mut state = markdown((80, 40));
    enter(&mut state, "/search RING");
    let terminal = draw(&state);
    let buffer = terminal.backend().buffer();
    let marked: String = buffer
        .content()
        .iter()
        .filter(|cell| cell.modifier.contains(Modifier::REVERSED))
        .map(|cell| cell.symbol())
        .collect();
    assert_eq!(marked.to_lowercase().matches("ring").count(), 4, "{marked}");
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
            State::new(size, Theme::Auto),
            first_start(size),
            answering(size),
            dropped(size),
        ] {
            let text = text(&state);
            for fact in facts {
                assert!(text.contains(fact), "{fact} at {size:?}:\n{text}");
            }
        }
        let unknown = text(&State::new(size, Theme::Auto));
        let dashes = unknown.matches('–').count();
        assert!(dashes >= 4, "what is not known is a dash:\n{unknown}");
    }
}

/// With nothing known no figure is shown, not even a zero.
#[test]
fn what_is_not_known_is_no_zero() {
    let mut state = first_start((200, 60));
    state.model = None;
    state.telemetry = Telemetry::default();
    let shown = text(&state);
    // The last row is the status line's.
    let rows = shown.lines().take(59);
    let side = rows.filter_map(|row| row.split_once('│'));
    let side: Vec<&str> = side.map(|(_, side)| side).collect();
    let digits = |row: &&&str| {
        row.replace("1 s", "")
            .replace("10 s", "")
            .contains(|c: char| c.is_ascii_digit())
    };
    let told: Vec<_> = side.iter().filter(digits).collect();
    // An idle engine has dropped nothing: that is known.
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("expert drops"), "{told:?}");
}

/// At 200x60 everything is shown: each slot, both windows, the split, read against owed, and all the layers.
#[test]
fn a_wide_screen_shows_every_figure() {
    let shown = text(&answering((200, 60)));
    for figure in [
        "47 of 93, 12 s",
        "1 s  3.21  10 s  3.05",
        "1 s  1.02  10 s     –",
        "slot 1  computing",
        "slot 2  reading  37 %      ███░░░░░░░",
        "slot 3  ready",
        "slot 4  empty",
        "waited for the trunk",
        "12 min 34 s",
        "14 s  56 %",
        "9654.32",
        "9654.25",
        "147,200    2583.00 GB",
        "12.60",
    ] {
        assert!(shown.contains(figure), "{figure}:\n{shown}");
    }
    let rows: Vec<&str> = shown
        .lines()
        .filter_map(|row| row.split('│').nth(1))
        .collect();
    let at = rows
        .iter()
        .position(|row| row.contains("layers: time"))
        .unwrap();
    let strip = |first: usize| -> String {
        let rows = rows[at + 1 + first..at + 7].iter().step_by(2);
        rows.map(|row| row.trim()).collect()
    };
    let (times, experts) = (strip(0), strip(1));
    assert_eq!((times.chars().count(), experts.chars().count()), (93, 93));
    assert_eq!(times.matches('·').count(), 33, "{times}");
    assert_eq!(experts.matches('·').count(), 34, "{experts}");
    assert!(experts.starts_with("·0112"), "{experts}");
}

#[test]
fn drops_stand_out_with_and_without_colour() {
    for theme in [Theme::Auto, Theme::Mono] {
        let mut state = dropped((80, 24));
        state.theme = theme;
        let terminal = draw(&state);
        let buffer = terminal.backend().buffer();
        let bar = &buffer[(0, 0)];
        assert!(bar.modifier.contains(Modifier::REVERSED | Modifier::BOLD));
        assert_eq!(bar.fg == Color::Red, theme == Theme::Auto);
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
        let mut state = State::new((width, height), Theme::Auto);
        tell(&mut state, ready(true, vec![Said::user(said.clone())]));
        tell(&mut state, delta(Channel::Think, &think));
        tell(&mut state, delta(Channel::Response, &said));
        update(&mut state, Message::Paste(draft));
        update(&mut state, Message::Telemetry(Box::new(Telemetry { drops, ..busy_telemetry() })));
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
        let row = format!("| `{usage}` | {} |", command.explained());
        assert!(text.contains(&row), "{row}");
    }
    for binding in k3::tui::keys::TABLE {
        let row = format!("| {} | {} |", binding.label, binding.help);
        assert!(text.contains(&row), "{row}");
    }
}
