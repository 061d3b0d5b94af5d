//! The message being written, with the terminal's own cursor at the caret.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::layout::{self, body};
use super::super::state::{Focus, State};
use super::super::theme::Role;
use super::title::{self, Title};

/// Draws the message being written.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    let focus = state.focus == Focus::Message;
    let title = Title {
        name: "Message",
        focus,
        about: match state.busy() {
            true => "Esc stops the answer",
            false => "Enter sends, Alt-Enter: new line",
        },
        badge: "",
    };
    title::view(state, frame, area, title);
    let body = body(area);
    super::put(state, frame, body, ">", Role::User);
    let prompt = u16::try_from(layout::PROMPT).unwrap_or(0).min(body.width);
    let text = Rect {
        x: body.x + prompt,
        width: body.width - prompt,
        ..body
    };
    frame.render_widget(state.draft.widget(), text);
    if focus && !text.is_empty() {
        let (row, column) = state.draft.caret();
        let right = |n: usize, most: u16| u16::try_from(n).unwrap_or(most).min(most);
        frame.set_cursor_position((
            text.x + right(column, text.width - 1),
            text.y + right(row, text.height - 1),
        ));
    }
}
