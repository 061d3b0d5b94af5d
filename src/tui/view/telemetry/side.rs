//! The telemetry where there is room for all of it: the main figures always, details as far as they fit; or one part alone.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::super::instruments::Widget;
use super::super::super::layout::body;
use super::super::super::state::{Focus, State};
use super::super::super::theme::Role;
use super::super::put;
use super::super::title::{self, Title};
use super::Figures;
use super::row::Row;
use super::widgets::Dials;
use crate::engine::Telemetry;

/// Which details come first where not all of them fit.
const FIRST: [Widget; 8] = [
    Widget::Clock,
    Widget::Disk,
    Widget::Ring,
    Widget::Token,
    Widget::Layers,
    Widget::Memory,
    Widget::Experts,
    Widget::Sums,
];

/// Draws the border and the title, which names `keys` where the pane has the keyboard. Gives the room that is left.
pub fn pane(state: &State, frame: &mut Frame, area: Rect, keys: &str) -> Rect {
    for row in area.rows() {
        put(state, frame, row, "│", Role::Quiet);
    }
    let inner = Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(1),
        ..area
    };
    let focus = state.focus == Focus::Telemetry;
    let instruments = &state.instruments;
    let held = if instruments.is_held() { ", held" } else { "" };
    let about = format!("{}{held}", instruments.span.name());
    let title = Title {
        name: "Telemetry",
        focus,
        about: &about,
        badge: if focus { keys } else { "" },
    };
    title::view(state, frame, inner, title);
    body(inner)
}

/// Draws it.
pub fn view(state: &State, frame: &mut Frame, area: Rect, shown: &Telemetry, figures: &Figures) {
    let inner = pane(state, frame, area, "f + - r Enter");
    let instruments = &state.instruments;
    let two = inner.width >= TWO && instruments.alone.is_none();
    let columns = match two {
        true => inner.width / 2,
        false => inner.width,
    };
    let dials = Dials {
        state,
        shown,
        figures,
        columns: usize::from(columns.saturating_sub(2)),
    };
    let height = usize::from(inner.height);
    let left = Rect {
        width: columns,
        ..inner
    };
    let right = Rect {
        x: inner.x + columns,
        width: inner.width - columns,
        ..inner
    };
    let chosen = instruments.chosen;
    let parts = match instruments.alone {
        Some(top) => {
            let rows = dials.alone(chosen, height);
            let top = top.min(rows.len().saturating_sub(height));
            vec![(inner, (rows.into_iter().skip(top).collect(), Some(0)))]
        }
        None if two => vec![
            (left, fitted(&dials, height, chosen, &Widget::ALL[..HALF])),
            (right, fitted(&dials, height, chosen, &Widget::ALL[HALF..])),
        ],
        None => vec![(inner, fitted(&dials, height, chosen, &Widget::ALL))],
    };
    for (area, (rows, marked)) in parts {
        for (area, row) in area.rows().zip(&rows) {
            row.draw(state, frame, area);
        }
        if let (true, Some(at)) = (
            state.focus == Focus::Telemetry,
            marked.and_then(|at| area.rows().nth(at)),
        ) {
            put(state, frame, at, "▸", Role::Focus);
        }
    }
}

/// From this width on parts stand in two columns.
const TWO: u16 = 76;

/// Parts in the left one.
const HALF: usize = 4;

/// These parts as far as there is room, and the row where the chosen one begins.
fn fitted(
    dials: &Dials<'_>,
    height: usize,
    chosen: Widget,
    widgets: &[Widget],
) -> (Vec<Row>, Option<usize>) {
    let mut parts: Vec<Part> = widgets
        .iter()
        .map(|&widget| Part {
            widget,
            head: dials.head(widget),
            whole: dials.whole(widget),
            open: false,
        })
        .collect();
    for widget in FIRST {
        let Some(at) = parts.iter().position(|part| part.widget == widget) else {
            continue;
        };
        parts[at].open = parts[at].whole.len() > parts[at].head.len();
        if laid_out(&parts, chosen).0.len() > height {
            parts[at].open = false;
        }
    }
    laid_out(&parts, chosen)
}

/// A part, and whether there is room for all of it.
struct Part {
    widget: Widget,
    head: Vec<Row>,
    whole: Vec<Row>,
    open: bool,
}

/// The parts one below the other, by their heads, or wholly and set apart where they are open; and where the chosen one
/// begins.
fn laid_out(parts: &[Part], chosen: Widget) -> (Vec<Row>, Option<usize>) {
    let mut rows: Vec<Row> = Vec::new();
    let (mut begins, mut apart) = (None, false);
    for part in parts {
        let shown = if part.open { &part.whole } else { &part.head };
        if shown.is_empty() {
            continue;
        }
        if !rows.is_empty() && (apart || part.open) {
            rows.push(Row::gap());
        }
        if part.widget == chosen {
            begins = Some(rows.len());
        }
        rows.extend_from_slice(shown);
        apart = part.open;
    }
    (rows, begins)
}
