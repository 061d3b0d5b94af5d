//! What the screen looks like, at several sizes, without a terminal: the state is led through a session by messages, and
//! drawn into a buffer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use k3::chat::{Kept, Sampling};
use k3::engine::telemetry::{ExpertFigures, LayerFigures, SlotState, Split, TrunkBytes, Waits};
use k3::engine::{Activity, Cache, Ended, Event, ModelFacts, Offers, Rates, Telemetry, TurnFacts};
use k3::stream::{Machine, Memory, Preset, Request, Shape};
use k3::text::{Channel, Effort, Message as Said};
use k3::tui::{Message, State, Theme, update, view};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 60)];

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
            server: None,
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
            kernels: k3::stream::Kernels {
                trunk: ms(2_900),
                experts: ms(800),
                attention: ms(200),
            },
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
        free_bytes: Some(3_200_000_000),
        swapped_bytes: Some(0),
        left: Some(1000),
        unread: None,
        cache: Some(Cache {
            slots: 113,
            layer: 16,
            all: 82_432,
        }),
        remote: None,
    }
}

/// A look a second, up to this one, which is as [`busy_telemetry`] has it. In the middle nothing ran for ten seconds.
fn watch(state: &mut State, until: u64) {
    for second in until.saturating_sub(60)..=until {
        let ago = until - second;
        let mut telemetry = busy_telemetry();
        if (20..30).contains(&ago) {
            telemetry.activity = Activity::Idle;
        }
        // A ramp of the trunk up to 3.2 GB/s, experts about 1 GB/s.
        let read = |most: u64| most * ago - most * ago * ago / 240;
        if let (Some(trunk), Some(experts)) =
            (&mut telemetry.trunk_bytes, &mut telemetry.expert_figures)
        {
            trunk.read -= read(3_200_000_000);
            experts.read.1 -= read(1_000_000_000);
        }
        update(state, Message::Now(Duration::from_secs(second)));
        update(state, Message::Telemetry(Box::new(telemetry)));
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
    // A token in a second, now and then in a little more.
    let mut at = Duration::from_secs(30);
    let mut token = |state: &mut State, channel, word: &str| {
        at += Duration::from_millis(1000 + 37 * (word.len() as u64 % 5));
        update(state, Message::Now(at));
        tell(state, delta(channel, word));
    };
    let reasoning =
        "The person asks about streaming. Every weight of the trunk takes part in every token. ";
    for word in reasoning.split_inclusive(' ') {
        token(&mut state, Channel::Think, word);
    }
    let answer = "Because every token goes through every layer, and memory holds only some of them at a time. ";
    for word in answer.split_inclusive(' ') {
        token(&mut state, Channel::Response, word);
    }
    watch(&mut state, 75);
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

/// What is drawn, and below it how: in the first theme, and in the one without colour as far as that differs.
fn picture(state: &State) -> String {
    let mono = State {
        theme: Theme::Mono,
        ..state.clone()
    };
    let (coloured, plain) = (text(state), text(&mono));
    let others = coloured.lines().zip(plain.lines()).enumerate();
    let others: Vec<String> = others
        .filter(|(_, (coloured, plain))| coloured != plain)
        .map(|(row, (_, plain))| format!("{row}: {plain}"))
        .collect();
    let modifiers = |state: &State| -> Vec<Modifier> {
        let terminal = draw(state);
        let cells = terminal.backend().buffer().content.iter();
        cells.map(|cell| cell.modifier).collect()
    };
    assert_eq!(
        modifiers(state),
        modifiers(&mono),
        "colour says nothing alone"
    );
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("\n\nwithout colour\n{}", others.join("\n")),
    };
    format!("{coloured}\n\n{}{others}", looks(state))
}

fn snapshot(name: &str, size: (u16, u16), make: fn((u16, u16)) -> State) {
    let name = format!("{name}_{}x{}", size.0, size.1);
    insta::assert_snapshot!(name, picture(&make(size)));
}

fn snapshots(name: &str, make: fn((u16, u16)) -> State) {
    for size in SIZES {
        snapshot(name, size, make);
    }
}

#[test]
fn first_start_looks() {
    snapshots("first_start", first_start);
    snapshot("first_start", (60, 20), first_start);
    snapshot("too_small", (39, 9), first_start);
}

#[test]
fn answering_looks() {
    snapshots("answering", answering);
    snapshot("answering", (60, 20), answering);
}

#[test]
fn a_finished_answer_looks() {
    snapshots("done", |size| {
        let mut state = answering(size);
        tell(
            &mut state,
            Event::TurnEnded(TurnFacts {
                think_tokens: 15,
                response_tokens: 17,
                seconds_prefill: 30.0,
                seconds_decode: 34.0,
                positions: 1234,
                ..TurnFacts::nothing(Ended::Finished)
            }),
        );
        let telemetry = Telemetry {
            activity: Activity::Idle,
            layer: None,
            elapsed: None,
            trunk: Rates::default(),
            experts: Rates::default(),
            left: None,
            unread: Some(2),
            ..busy_telemetry()
        };
        update(&mut state, Message::Telemetry(Box::new(telemetry)));
        state
    });
}

#[test]
fn a_dropped_expert_looks() {
    snapshots("dropped", dropped);
}

#[test]
fn wide_and_hidden_characters_look() {
    snapshots("world", world);
}

/// How it is drawn: of each row the columns that do not look plain, with a letter for the look; the letters below.
fn looks(state: &State) -> String {
    let terminal = draw(state);
    let buffer = terminal.backend().buffer();
    let mut legend: Vec<(Color, Modifier)> = Vec::new();
    let mut rows = String::new();
    for (number, row) in buffer.area.rows().enumerate() {
        // Letter, first and last column.
        let mut runs: Vec<(char, u16, u16)> = Vec::new();
        for cell in row.columns() {
            let look = (
                buffer[(cell.x, cell.y)].fg,
                buffer[(cell.x, cell.y)].modifier,
            );
            if look == (Color::Reset, Modifier::empty()) {
                continue;
            }
            let known = legend.iter().position(|known| *known == look);
            let index = known.unwrap_or_else(|| {
                legend.push(look);
                legend.len() - 1
            });
            let letter = char::from(b'a' + index as u8);
            match runs.last_mut() {
                Some((last, _, end)) if *last == letter && *end + 1 == cell.x => *end = cell.x,
                _ => runs.push((letter, cell.x, cell.x)),
            }
        }
        if !runs.is_empty() {
            let runs: Vec<String> = runs
                .iter()
                .map(|(letter, from, to)| match from == to {
                    true => format!("{letter}{from}"),
                    false => format!("{letter}{from}-{to}"),
                })
                .collect();
            rows.push_str(&format!("{number}: {}\n", runs.join(" ")));
        }
    }
    let legend = legend
        .iter()
        .enumerate()
        .map(|(index, (colour, modifier))| {
            format!("{} {colour} {modifier:?}", char::from(b'a' + index as u8))
        });
    format!("{rows}{}", legend.collect::<Vec<_>>().join("\n"))
}

#[test]
fn every_theme_looks() {
    // The other two are in every picture.
    for theme in [Theme::Dark, Theme::Light, Theme::Contrast] {
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
    snapshot("markdown_alone", (80, 24), |size| {
        let mut state = markdown(size);
        press(&mut state, KeyCode::F(3));
        state
    });
    snapshot("markdown_raw", (80, 24), |size| {
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
        watch(&mut state, 90);
        state
    };
    snapshots("thinking", thinking);
    for (name, presses) in [("think_all", 1), ("think_line", 2)] {
        let mut state = thinking((80, 24));
        for _ in 0..presses {
            press(&mut state, KeyCode::F(2));
        }
        insta::assert_snapshot!(name, picture(&state));
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

/// The keys go to the telemetry, and there so many parts down.
fn telemetry_keys(state: &mut State, down: usize) {
    for _ in 0..3 {
        press(state, KeyCode::Tab);
    }
    for _ in 0..down {
        press(state, KeyCode::Down);
    }
}

/// Some of the memory is in swap, and the ring has a single slot.
fn swapping(size: (u16, u16)) -> State {
    let mut state = answering(size);
    let telemetry = Telemetry {
        swapped_bytes: Some(120_000_000),
        slots: vec![SlotState::Reading { percent: 5 }],
        ..busy_telemetry()
    };
    update(&mut state, Message::Telemetry(Box::new(telemetry)));
    state
}

/// What plans of the released sizes are made from, on a machine with 64 GB.
fn offers() -> Offers {
    // Two of five experts are those of the token before.
    let choice = |token: u16, layer: u16, rank: u16| match rank % 5 {
        0 | 1 => (layer, rank),
        _ => (layer, (token * 97 + layer * 31 + rank * 53) % 896),
    };
    let recent = (0..24_u16).map(|token| {
        let choices = (1..93).flat_map(|layer| (0..16).map(move |rank| choice(token, layer, rank)));
        choices.collect::<Vec<_>>().into()
    });
    Offers {
        shape: Shape {
            segments: vec![181_833_333; 600],
            runs: 8,
            vectors: 60_000_000,
            index: 30_000_000,
            expert: 17_547_264,
            experts: 82_432,
            expert_layers: 92,
            top_k: 16,
            state: 464_600_000,
            kv_per_position: 27_648,
            attention_per_position: 1_000_000,
            // None, so that the plans do not depend on how long a chunk of a prompt is.
            activations: Default::default(),
            chunk: 64,
        },
        asked: Request {
            preset: Preset::Desktop,
            trunk: None,
            cache: None,
            ring: None,
            context: 8192,
            threads: 8,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        },
        machine: Machine {
            memory: Some(Memory {
                total: 64_000_000_000,
                available: 60_000_000_000,
                ..Memory::default()
            }),
            group: None,
        },
        recent: recent.collect(),
    }
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
        let offers = Arc::new(offers());
        tell(&mut state, Event::Offers(Arc::clone(&offers)));
        update(&mut state, Message::Retained(offers.retained()));
        // The slider of the experts, two steps up.
        for _ in 0..6 {
            press(&mut state, KeyCode::Down);
        }
        press(&mut state, KeyCode::Right);
        press(&mut state, KeyCode::Right);
        state
    });
    snapshots("search", |size| {
        let mut state = markdown(size);
        enter(&mut state, "/search ring");
        state
    });
    snapshot("stats", (80, 24), |size| {
        let mut state = markdown(size);
        enter(&mut state, "/stats");
        state
    });
    snapshot("telemetry_all", (80, 24), |size| {
        let mut state = answering(size);
        press(&mut state, KeyCode::F(4));
        state
    });
    snapshot("telemetry_held", (120, 40), |size| {
        let mut state = answering(size);
        enter(&mut state, "/telemetry 5min");
        enter(&mut state, "/telemetry reset");
        enter(&mut state, "/telemetry hold");
        watch(&mut state, 95);
        telemetry_keys(&mut state, 0);
        state
    });
    snapshot("telemetry_disk", (120, 40), |size| {
        let mut state = answering(size);
        telemetry_keys(&mut state, 1);
        press(&mut state, KeyCode::Enter);
        state
    });
    snapshot("telemetry_token", (80, 24), |size| {
        let mut state = answering(size);
        press(&mut state, KeyCode::F(4));
        // In place of the conversation: the next pane is the telemetry.
        press(&mut state, KeyCode::Tab);
        for _ in 0..5 {
            press(&mut state, KeyCode::Down);
        }
        press(&mut state, KeyCode::Enter);
        state
    });
    snapshot("telemetry_layers", (120, 40), |size| {
        let mut state = answering(size);
        telemetry_keys(&mut state, 6);
        press(&mut state, KeyCode::Enter);
        press(&mut state, KeyCode::PageDown);
        state
    });
    snapshot("telemetry_swap", (120, 40), swapping);
    snapshot("telemetry_swap", (80, 24), swapping);
    snapshot("ascii", (120, 40), |size| State {
        ascii: true,
        ..answering(size)
    });
    snapshot("cost", (80, 24), |size| {
        let mut state = markdown(size);
        tell(
            &mut state,
            Event::TurnEnded(TurnFacts {
                fed: 10,
                seconds_prefill: 30.0,
                ..TurnFacts::nothing(Ended::Finished)
            }),
        );
        // After a change of the system message, say.
        let telemetry = Telemetry {
            unread: Some(200),
            ..Telemetry::default()
        };
        update(&mut state, Message::Telemetry(Box::new(telemetry)));
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
    for size in [(40, 10), (80, 24)] {
        snapshot("completion", size, completing);
        snapshot("wrong_command", size, wrong);
    }
}

fn completing(size: (u16, u16)) -> State {
    let mut state = first_start(size);
    press(&mut state, KeyCode::Char('/'));
    state
}

fn wrong(size: (u16, u16)) -> State {
    let mut state = first_start(size);
    enter(&mut state, "/etc/hosts is a file");
    state
}

#[test]
fn a_stopped_engine_and_reading_back_look() {
    snapshot("stopped", (80, 24), |size| {
        let mut state = answering(size);
        tell(
            &mut state,
            Event::Stopped(Some("shard 7 is gone".to_owned())),
        );
        state
    });
    snapshot("reading_back", (80, 24), |size| {
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
            .replace(" 60s ", "")
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
        "slot 2  reading  37 %    ███░░░░░░░",
        "a token takes",
        "time left, at most",
        "disk, of most",
        "12.35 of 12.60 planned",
        "still free GB",
        "slot 3  ready",
        "slot 4  empty",
        "waited for the trunk",
        "12 min 34 s",
        "14 s  56 %",
        "9654.32",
        "9654.25",
        "147,200    2583.00 GB",
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

/// On the lowest screen that has a side the figures that matter are there; details give way.
#[test]
fn a_low_screen_loses_details_first() {
    let shown = text(&answering((120, 20)));
    for fact in [
        "layer",
        "tokens a minute",
        "trunk GB/s",
        "expert GB/s",
        "ring slots in flight",
        "experts retained",
        "expert drops",
        "memory GB",
        "a token takes",
    ] {
        assert!(shown.contains(fact), "{fact}:\n{shown}");
    }
    assert!(!shown.contains("trunk owed"), "{shown}");
}

/// A chart has a column for its time and a dot where nobody watched; never a bar of no height.
#[test]
fn a_chart_has_gaps_where_nothing_was_seen() {
    let shown = text(&answering((120, 40)));
    let rows: Vec<&str> = shown.lines().collect();
    let at = rows
        .iter()
        .position(|row| row.contains("expert GB/s"))
        .unwrap();
    for chart in [rows[at - 1], rows[at + 1]] {
        let chart = chart.rsplit('│').next().unwrap().trim();
        let (bars, gaps): (Vec<char>, Vec<char>) = chart.chars().partition(|c| *c != '·');
        assert_eq!(chart.chars().count(), 37, "{chart}");
        assert!((4..=8).contains(&gaps.len()), "{chart}");
        assert!(bars.iter().all(|c| ('▁'..='█').contains(c)), "{chart}");
    }
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
