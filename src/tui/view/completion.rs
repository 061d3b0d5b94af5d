//! The list of completions, over the last rows of the conversation.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::glyph::width;
use super::super::state::State;
use super::super::theme::Role;
use super::super::update::completions;

/// Draws the list, if there is one. `area` is what it may cover, from below.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    let completions = completions(state);
    let rows = u16::try_from(completions.len())
        .unwrap_or(u16::MAX)
        .min(area.height);
    if rows == 0 {
        return;
    }
    let list = Rect {
        y: area.bottom() - rows,
        height: rows,
        ..area
    };
    super::wipe(frame, list);
    let labels = completions
        .iter()
        .map(|c| width(&c.label))
        .max()
        .unwrap_or(0);
    let chosen = state.choice.unwrap_or(0);
    // Where not all fit, the chosen one does.
    let skipped = (chosen + 1).saturating_sub(usize::from(rows));
    let visible = completions.iter().enumerate().skip(skipped);
    for (row, (index, completion)) in list.rows().zip(visible) {
        let (sign, role) = match index == chosen {
            true => ("▸", Role::Chosen),
            false => (" ", Role::Plain),
        };
        let text = format!("{sign} {:labels$}  {}", completion.label, completion.help);
        super::put(state, frame, row, &text, role);
    }
}
