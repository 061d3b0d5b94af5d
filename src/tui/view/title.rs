//! The first row of a pane: a rule with its name, what it has to say, and on the right what may be done.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::glyph::{fitted, width};
use super::super::state::State;
use super::super::theme::Role;

/// What stands in a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Title<'a> {
    /// The pane's name.
    pub name: &'a str,
    /// Whether it has the keys.
    pub focus: bool,
    /// Figures, beside the name.
    pub about: &'a str,
    /// On the right, standing out; wins over the figures where both do not fit.
    pub badge: &'a str,
}

/// Draws the first row of `area`.
pub fn view(state: &State, frame: &mut Frame, area: Rect, title: Title<'_>) {
    let row = Rect {
        height: area.height.min(1),
        ..area
    };
    if row.is_empty() {
        return;
    }
    let columns = usize::from(row.width);
    let (sign, role) = match title.focus {
        true => ("▸ ", Role::Focus),
        false => ("", Role::Title),
    };
    let name = format!(" {sign}{} ", title.name);
    let badge = match title.badge {
        "" => String::new(),
        badge => fitted(
            &format!(" {badge} "),
            columns.saturating_sub(width(&name) + 2),
        ),
    };
    let room = columns.saturating_sub(2 + width(&name) + width(&badge) + 2);
    let about = match title.about {
        "" => String::new(),
        about => fitted(&format!("{about} "), room),
    };
    let used = 2 + width(&name) + width(&about) + width(&badge) + 1;
    let rule = "─".repeat(columns.saturating_sub(used));
    let style = |role| state.theme.style(role);
    let line = Line::from(vec![
        Span::styled("──", style(Role::Quiet)),
        Span::styled(name, style(role)),
        Span::styled(about, style(Role::Quiet)),
        Span::styled(rule, style(Role::Quiet)),
        Span::styled(badge, style(Role::Strong)),
        Span::styled("─", style(Role::Quiet)),
    ]);
    frame.buffer_mut().set_line(row.x, row.y, &line, row.width);
}
