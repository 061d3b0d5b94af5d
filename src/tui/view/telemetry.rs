//! What the engine is doing, in figures. Four of them are always named: trunk GB/s, ring slots in flight, experts retained,
//! expert drops. What is not known is a dash. Here the short forms; the long one stands in [`side`]. A model on a server has
//! others: [`remote`].

mod chart;
mod remote;
mod row;
mod side;
mod strip;
mod widgets;

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::figures::{UNKNOWN, brief, count, decimal, gigabytes, share};
use super::super::glyph::width;
use super::super::layout::Areas;
use super::super::state::{Phase, State};
use super::super::theme::Role;
use crate::engine::Telemetry;

/// The main figures, as texts.
struct Figures {
    trunk: String,
    ring: String,
    retained: String,
    drops: String,
    layer: String,
    memory: String,
}

impl Figures {
    fn of(state: &State, telemetry: &Telemetry) -> Self {
        let layer = of(telemetry.layer);
        Self {
            trunk: decimal(telemetry.trunk.second),
            ring: of(telemetry.in_flight()),
            retained: share(telemetry.retained()),
            // Nothing can have been dropped, or not, before there is an engine to say so.
            drops: match (&state.phase, state.telemetry.drops) {
                (Phase::Loading, 0) => UNKNOWN.to_owned(),
                (_, 0) => "0".to_owned(),
                (_, drops) => format!("{drops} !!"),
            },
            layer: match telemetry.elapsed {
                Some(elapsed) => format!("{layer}, {}", brief(elapsed)),
                None => layer,
            },
            memory: match telemetry.swapped_bytes {
                Some(1..) => format!("{} swap !!", gigabytes(telemetry.rss_bytes)),
                _ => gigabytes(telemetry.rss_bytes),
            },
        }
    }
}

/// So many of so many.
fn of(pair: Option<(usize, usize)>) -> String {
    pair.map_or(UNKNOWN.to_owned(), |(n, of)| {
        format!("{} of {}", count(n), count(of))
    })
}

/// Draws the telemetry in the form that fits.
pub fn view(state: &State, frame: &mut Frame, areas: &Areas) {
    let shown = state.instruments.shown(&state.telemetry);
    if let Some(figures) = &shown.remote {
        return remote::view(state, frame, areas, &shown, figures);
    }
    let figures = Figures::of(state, &shown);
    let area = areas.telemetry;
    match (areas.side, area.height) {
        (true, _) => side::view(state, frame, area, &shown, &figures),
        (_, 2..) => two_rows(state, frame, area, cells(state, &figures)),
        _ => one_row(state, frame, area, &figures),
    }
}

/// The style of the drops: an alarm from the first on.
fn drops(state: &State) -> Role {
    match state.telemetry.drops {
        0 => Role::Plain,
        _ => Role::Alarm,
    }
}

/// The style of the memory: an alarm once some of it is in swap.
fn swap(state: &State) -> Role {
    match state.telemetry.swapped_bytes {
        Some(1..) => Role::Alarm,
        _ => Role::Plain,
    }
}

/// What stands in the two rows.
fn cells(state: &State, figures: &Figures) -> [[(String, Role); 3]; 2] {
    let plain = Role::Plain;
    let window = match figures.trunk.as_str() {
        UNKNOWN => "",
        _ => ", 1 s",
    };
    [
        [
            (format!("trunk GB/s {}{window}", figures.trunk), plain),
            (format!("ring slots in flight {}", figures.ring), plain),
            (format!("layer {}", figures.layer), plain),
        ],
        [
            (format!("experts retained {}", figures.retained), plain),
            (format!("expert drops {}", figures.drops), drops(state)),
            (format!("memory GB {}", figures.memory), swap(state)),
        ],
    ]
}

/// Three columns in each of two rows.
fn two_rows(state: &State, frame: &mut Frame, area: Rect, rows: [[(String, Role); 3]; 2]) {
    // Where the columns start, in eightieths: the second has the longest text.
    const STARTS: [u16; 4] = [0, 26, 56, 80];
    for (row, cells) in area.rows().zip(rows) {
        for (column, (text, role)) in STARTS.windows(2).zip(cells) {
            let [left, right] = [column[0], column[1]].map(|start| row.width * start / 80);
            let cell = Rect {
                x: row.x + left + 1,
                width: right - left - 1,
                ..row
            };
            super::put(state, frame, cell, &text, role);
        }
    }
}

/// The four facts, as short as they go.
fn one_row(state: &State, frame: &mut Frame, area: Rect, figures: &Figures) {
    let ring = figures.ring.replace(" of ", "/");
    let (trunk, retained) = (&figures.trunk, &figures.retained);
    let long = area.width >= 60;
    let text = match long {
        true => format!(" trunk GB/s {trunk} ring {ring} experts kept {retained} drops "),
        false => format!(" GB/s {trunk} ring {ring} kept {retained} drops "),
    };
    super::put(state, frame, area, &text, Role::Plain);
    let used = u16::try_from(width(&text))
        .unwrap_or(u16::MAX)
        .min(area.width);
    let rest = Rect {
        x: area.x + used,
        width: area.width - used,
        ..area
    };
    super::put(state, frame, rest, &figures.drops, drops(state));
}
