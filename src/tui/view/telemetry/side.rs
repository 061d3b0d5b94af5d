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

/// Draws it.
pub fn view(state: &State, frame: &mut Frame, area: Rect, shown: &Telemetry, figures: &Figures) {
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
    let title = Title {
        name: "Telemetry",
        focus,
        about: if instruments.is_held() { "held" } else { "" },
        badge: if focus { "f + - r Enter" } else { "" },
    };
    title::view(state, frame, inner, title);
    let inner = body(inner);
    let dials = Dials {
        state,
        shown,
        figures,
        columns: usize::from(inner.width.saturating_sub(2)),
    };
    let height = usize::from(inner.height);
    let (rows, marked) = match instruments.alone {
        Some(top) => {
            let rows = dials.alone(instruments.chosen, height);
            let top = top.min(rows.len().saturating_sub(height));
            (rows.into_iter().skip(top).collect(), Some(0))
        }
        None => all(&dials, height, instruments.chosen),
    };
    for (area, row) in inner.rows().zip(&rows) {
        row.draw(state, frame, area);
    }
    if let (true, Some(at)) = (focus, marked.and_then(|at| inner.rows().nth(at))) {
        put(state, frame, at, "▸", Role::Focus);
    }
}

/// All parts, and the row where the chosen one begins.
fn all(dials: &Dials<'_>, height: usize, chosen: Widget) -> (Vec<Row>, Option<usize>) {
    let parts = Widget::ALL.map(|widget| (widget, dials.head(widget), dials.more(widget)));
    let place = |widget: Widget| Widget::ALL.iter().position(|part| *part == widget);
    let mut open = [false; 8];
    for widget in FIRST {
        let Some(at) = place(widget) else {
            continue;
        };
        open[at] = true;
        let rows = laid_out(&parts, &open).0.len();
        open[at] = rows <= height && !parts[at].2.is_empty();
    }
    let (rows, begins) = laid_out(&parts, &open);
    (rows, place(chosen).and_then(|at| begins[at]))
}

/// The parts one below the other, those that are open with their details and set apart; and where each begins.
fn laid_out(
    parts: &[(Widget, Vec<Row>, Vec<Row>); 8],
    open: &[bool; 8],
) -> (Vec<Row>, [Option<usize>; 8]) {
    let mut rows: Vec<Row> = Vec::new();
    let mut begins = [None; 8];
    let mut apart = false;
    for (at, (_, head, more)) in parts.iter().enumerate() {
        if head.is_empty() && !open[at] {
            continue;
        }
        if !rows.is_empty() && (apart || open[at]) {
            rows.push(Row::gap());
        }
        begins[at] = Some(rows.len());
        rows.extend_from_slice(head);
        if open[at] {
            rows.extend_from_slice(more);
        }
        apart = open[at];
    }
    (rows, begins)
}
