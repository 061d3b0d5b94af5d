//! The row that cannot be missed: experts that could not be read.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::state::State;
use super::super::theme::Role;

/// Draws the alarm, if there is one.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    if area.is_empty() {
        return;
    }
    let drops = state.telemetry.drops;
    let experts = if drops == 1 { "expert" } else { "experts" };
    let text = format!(
        " !! {drops} {experts} could not be read: the answer was cut there. Check the disk. !!"
    );
    let columns = usize::from(area.width);
    // To the end of the row, so that the bar is as wide as the screen.
    let bar = format!("{text:columns$}");
    super::put(state, frame, area, &bar, Role::Alarm);
}
