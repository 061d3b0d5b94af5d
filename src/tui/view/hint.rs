//! What the program has to say about the last key, above the message being written.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::state::State;
use super::super::theme::Role;
use super::super::wrap::Rows;

/// Draws the hint, if there is one.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    let Some(hint) = &state.hint else {
        return;
    };
    let mut rows = Rows::default();
    let rows = rows.of(hint, usize::from(area.width));
    for (area, row) in area.rows().zip(rows) {
        super::put(
            state,
            frame,
            area,
            hint[row.start..row.end].trim_end(),
            Role::Strong,
        );
    }
}
