//! The state as it appears. Only reads: what is visible was found by update.

mod alarm;
mod ascii;
mod completion;
mod help;
mod hint;
mod message;
mod overlay;
mod pane;
mod sessions;
mod stats;
mod status;
mod telemetry;
mod title;
mod tune;

pub use ascii::asked_for as ascii_asked_for;

use ratatui::Frame;
use ratatui::layout::Rect;

use super::glyph::fitted;
use super::layout;
use super::state::State;
use super::theme::Role;

/// Draws everything.
pub fn view(state: &State, frame: &mut Frame) {
    let screen = frame.area();
    // Between a change of the size and the message about it, the areas are those of another screen.
    let fits = |size: (u16, u16)| size.0 <= screen.width && size.1 <= screen.height;
    let Some(areas) = state.areas().filter(|_| fits(state.size)) else {
        return too_small(state, frame);
    };
    alarm::view(state, frame, areas.alarm);
    pane::think(state, frame, areas.think);
    pane::response(state, frame, areas.response);
    hint::view(state, frame, areas.hint);
    message::view(state, frame, areas.message);
    telemetry::view(state, frame, &areas);
    status::view(state, frame, areas.status);
    // Over whatever stands above the message: on a small screen the list needs all of it.
    let top = areas.alarm.bottom();
    let over = Rect {
        y: top,
        height: areas.hint.y.saturating_sub(top),
        ..areas.message
    };
    completion::view(state, frame, over);
    overlay::view(state, frame);
    if state.ascii {
        ascii::keep_to(frame.buffer_mut());
    }
}

fn too_small(state: &State, frame: &mut Frame) {
    let (width, height) = layout::SMALLEST;
    let screen = frame.area();
    let lines = [
        "too small".to_owned(),
        format!(
            "at least {width}x{height}, is {}x{}",
            screen.width, screen.height
        ),
        state.doing(),
    ];
    for (row, text) in screen.rows().zip(lines) {
        put(state, frame, row, &text, Role::Plain);
    }
}

/// One row of text, cut to its area.
fn put(state: &State, frame: &mut Frame, area: Rect, text: &str, role: Role) {
    let area = area.intersection(frame.area());
    if area.is_empty() {
        return;
    }
    let text = fitted(text, usize::from(area.width));
    frame
        .buffer_mut()
        .set_string(area.x, area.y, text, state.theme.style(role));
}

/// An area without what was drawn there before.
fn wipe(frame: &mut Frame, area: Rect) {
    frame.render_widget(ratatui::widgets::Clear, area.intersection(frame.area()));
}
