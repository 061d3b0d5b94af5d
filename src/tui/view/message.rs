//! The message being written, with the terminal's own cursor at the caret.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::figures::{counted, seconds};
use super::super::layout::{self, body};
use super::super::state::{Focus, Phase, State};
use super::super::theme::Role;
use super::super::totals::about_tokens;
use super::title::{self, Title};

/// What sending the message costs, about: positions to read, and when the first word comes. None for a command, or when
/// there is nothing to send.
fn cost(state: &State) -> Option<String> {
    let text = state.draft.text();
    let command = text.starts_with('/') && !text.starts_with("//");
    if text.trim().is_empty() || command || state.phase != Phase::Idle {
        return None;
    }
    // What a change of the beginning made unread is read before it.
    let positions = about_tokens(&text) + state.telemetry.unread.unwrap_or(0);
    let read = format!("reads about {}", counted(positions, "token"));
    let wait = state.totals.to_read(positions);
    Some(match wait {
        Some(wait) => format!(
            "{read}, first word in about {}",
            seconds(wait.as_secs_f64())
        ),
        None => read,
    })
}

/// Draws the message being written.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    let focus = state.focus == Focus::Message;
    let waiting = match state.queue.len() {
        0 => String::new(),
        n => format!(
            "{} queued: Up takes the last back",
            super::super::figures::count(n)
        ),
    };
    let about = match (state.busy(), cost(state)) {
        (true, _) if !waiting.is_empty() => "Esc stops".to_owned(),
        (true, _) => "Enter queues, Esc stops the answer".to_owned(),
        (false, Some(cost)) => cost,
        (false, None) => "Enter sends, Alt-Enter: new line".to_owned(),
    };
    let title = Title {
        name: "Message",
        focus,
        about: &about,
        badge: &waiting,
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
