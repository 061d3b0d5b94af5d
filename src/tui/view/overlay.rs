//! What is open over everything else, in a box in the middle.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::layout::body;
use super::super::overlay::Overlay;
use super::super::state::State;
use super::super::theme::Role;
use super::title::{self, Title};
use super::{help, sessions, stats, tune};

/// Draws it, if something is open.
pub fn view(state: &State, frame: &mut Frame) {
    let Some(overlay) = &state.overlay else {
        return;
    };
    let screen = frame.area();
    let width = screen.width.min(100);
    let (name, about, lines) = match overlay {
        Overlay::Help(_) => ("Help", "Esc closes", help::lines(width)),
        Overlay::Stats(_) => ("Figures", "Esc closes", stats::lines(state, width)),
        Overlay::Tune(made) => (
            "Memory plans",
            "← → move, Enter takes, Esc closes",
            tune::lines(state, made, width),
        ),
        Overlay::Sessions(kept, chosen) => (
            "Conversations",
            "Enter goes over to one, Esc closes",
            sessions::lines(kept, *chosen),
        ),
    };
    // A title above, a rule below.
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(screen.height);
    let area = Rect {
        x: (screen.width - width) / 2,
        y: (screen.height - height) / 2,
        width,
        height,
    };
    super::wipe(frame, area);
    let rows = usize::from(height.saturating_sub(2));
    let top = match overlay {
        Overlay::Help(top) | Overlay::Stats(top) => *top,
        // The chosen one is in view.
        Overlay::Sessions(_, chosen) => (chosen + 1).saturating_sub(rows),
        Overlay::Tune(made) => (tune::row(made) + 1).saturating_sub(rows),
    };
    let top = top.min(lines.len().saturating_sub(rows));
    let title = Title {
        name,
        focus: true,
        about,
        badge: if top + rows < lines.len() {
            "↓ more: Down"
        } else {
            ""
        },
    };
    title::view(state, frame, area, title);
    let visible = lines.iter().skip(top).take(rows);
    let mut below = body(area);
    for (row, (text, role)) in body(area).rows().zip(visible) {
        super::put(state, frame, row, text, *role);
        below.y = row.bottom();
    }
    let rule = "─".repeat(usize::from(width));
    super::put(state, frame, below, &rule, Role::Quiet);
}
