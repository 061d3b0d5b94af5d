//! The telemetry at the side, where there is room for all of it: the main figures first, so that a lower screen loses
//! details only.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::super::figures::{UNKNOWN, brief, count, decimal, gigabytes};
use super::super::super::glyph::width;
use super::super::super::layout::body;
use super::super::super::state::State;
use super::super::super::theme::Role;
use super::super::put;
use super::super::title::{self, Title};
use super::{Figures, drops, of, strip};
use crate::engine::Rates;
use crate::engine::telemetry::{ExpertFigures, SlotState, Split, Waits};

/// A name at the left, its figure at the right.
struct Line {
    name: String,
    value: String,
    role: Role,
}

fn line(name: &str, value: String) -> Line {
    Line {
        name: name.to_owned(),
        value,
        role: Role::Plain,
    }
}

fn gap() -> Line {
    line("", String::new())
}

/// Draws it.
pub fn view(state: &State, frame: &mut Frame, area: Rect, figures: &Figures) {
    for row in area.rows() {
        put(state, frame, row, "│", Role::Quiet);
    }
    let inner = Rect {
        x: area.x + 1,
        width: area.width - 1,
        ..area
    };
    let title = Title {
        name: "Telemetry",
        ..Title::default()
    };
    title::view(state, frame, inner, title);
    let mut lines = main(state, figures);
    lines.extend(last_token(state.telemetry.last_token));
    lines.extend(waits(state.telemetry.waits));
    lines.extend(slots(&state.telemetry.slots));
    lines.extend(experts(state.telemetry.expert_figures));
    lines.extend(bytes(state));
    let inner = body(inner);
    let used = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    for (row, Line { name, value, role }) in inner.rows().zip(lines) {
        put(state, frame, row, &format!(" {name}"), Role::Quiet);
        let right = u16::try_from(width(&value)).unwrap_or(0);
        let at = Rect {
            x: row.right().saturating_sub(right + 1),
            width: right,
            ..row
        };
        put(state, frame, at, &value, role);
    }
    let used = used.min(inner.height);
    let rest = Rect {
        x: inner.x + 1,
        y: inner.y + used,
        width: inner.width.saturating_sub(2),
        height: inner.height - used,
    };
    strip::view(state, frame, rest);
}

/// What is looked at most.
fn main(state: &State, figures: &Figures) -> Vec<Line> {
    let telemetry = &state.telemetry;
    let (used, planned) = telemetry.positions;
    vec![
        line("layer", figures.layer.clone()),
        line("tokens a minute", decimal(telemetry.tokens_per_minute)),
        gap(),
        line("trunk GB/s", rates(telemetry.trunk)),
        line("expert GB/s", rates(telemetry.experts)),
        line("ring slots in flight", figures.ring.clone()),
        line("experts retained", figures.retained.clone()),
        Line {
            role: drops(state),
            ..line("expert drops", figures.drops.clone())
        },
        gap(),
        line("memory GB", figures.memory.clone()),
        line("positions", of((planned > 0).then_some((used, planned)))),
    ]
}

fn rates(rates: Rates) -> String {
    format!(
        "1 s {:>5}  10 s {:>5}",
        decimal(rates.second),
        decimal(rates.ten)
    )
}

/// Where the time of the last token went, and how much of it.
fn last_token(split: Option<Split>) -> Vec<Line> {
    let wall = split.map(|split| split.wall());
    let part = |name, time: fn(&Split) -> Duration| {
        let value = split.map(|split| {
            let share = time(&split).as_secs_f64() / split.wall().as_secs_f64().max(1e-9);
            format!("{} {:>3.0} %", brief(time(&split)), share * 100.0)
        });
        line(name, value.unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    let name = match split.map(|split| split.positions) {
        Some(2..) => "last token, with its prompt",
        _ => "last token",
    };
    vec![
        gap(),
        line(name, known(wall)),
        part("  waited for the trunk", |s| s.waited.trunk),
        part("  waited for experts", |s| s.waited.experts),
        part("  waited for embedding", |s| s.waited.embedding),
        part("  computed", |s| s.computed),
        part("  rest", |s| s.rest),
    ]
}

fn waits(waits: Option<Waits>) -> Vec<Line> {
    vec![
        line("all waits for the trunk", known(waits.map(|w| w.trunk))),
        line("all waits for experts", known(waits.map(|w| w.experts))),
        line("all waits for embedding", known(waits.map(|w| w.embedding))),
    ]
}

fn known(time: Option<Duration>) -> String {
    time.map_or_else(|| UNKNOWN.to_owned(), brief)
}

/// A bar for every slot of the ring.
fn slots(slots: &[SlotState]) -> Vec<Line> {
    let bar = |filled: usize| "█".repeat(filled) + &"░".repeat(10 - filled);
    let lines = slots.iter().enumerate().map(|(index, slot)| {
        let (state, bar) = match slot {
            SlotState::Empty => ("empty".to_owned(), bar(0)),
            SlotState::Reading { percent } => (
                format!("reading {percent:>3} %"),
                bar(usize::from(*percent).min(100) / 10),
            ),
            SlotState::Ready => ("ready".to_owned(), bar(10)),
            SlotState::Computing => ("computing".to_owned(), bar(10)),
        };
        line(&format!("slot {}  {state}", index + 1), bar)
    });
    std::iter::once(gap()).chain(lines).collect()
}

fn experts(figures: Option<ExpertFigures>) -> Vec<Line> {
    let row = |name, pick: fn(ExpertFigures) -> (u64, u64)| {
        let value = figures.map(pick).map(|(n, bytes)| {
            let n = count(usize::try_from(n).unwrap_or(usize::MAX));
            format!("{n}  {:>9} GB", gigabytes(Some(bytes)))
        });
        line(name, value.unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    vec![
        gap(),
        row("experts asked", |f| f.requested),
        row("  retained", |f| f.retained),
        row("  read", |f| f.read),
    ]
}

fn bytes(state: &State) -> Vec<Line> {
    let telemetry = &state.telemetry;
    let trunk = telemetry.trunk_bytes;
    vec![
        gap(),
        line("trunk read GB", gigabytes(trunk.map(|t| t.read))),
        line("trunk owed GB", gigabytes(trunk.map(|t| t.owed))),
        line("trunk pinned GB", gigabytes(trunk.map(|t| t.pinned))),
        line("memory peak GB", gigabytes(telemetry.peak_rss_bytes)),
        line("memory planned GB", gigabytes(telemetry.planned_bytes)),
    ]
}
