//! Commands and keys, over everything, from their tables.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::commands;
use super::super::keys;
use super::super::state::State;
use super::super::theme::Role;
use super::title::{self, Title};

/// Draws the help, if it is open.
pub fn view(state: &State, frame: &mut Frame) {
    let Some(top) = state.help else {
        return;
    };
    let screen = frame.area();
    let width = screen.width.min(80);
    let lines = lines(width);
    let height = u16::try_from(lines.len() + 1)
        .unwrap_or(u16::MAX)
        .min(screen.height);
    let area = Rect {
        x: (screen.width - width) / 2,
        y: (screen.height - height) / 2,
        width,
        height,
    };
    super::wipe(frame, area);
    let rows = usize::from(height.saturating_sub(1));
    let top = top.min(lines.len().saturating_sub(rows));
    let title = Title {
        name: "Help",
        focus: true,
        about: "Esc closes",
        badge: if top + rows < lines.len() {
            "↓ more: Down"
        } else {
            ""
        },
    };
    title::view(state, frame, area, title);
    let visible = lines.iter().skip(top);
    for (row, (text, role)) in super::super::layout::body(area).rows().zip(visible) {
        super::put(state, frame, row, text, *role);
    }
}

/// A name and what it does: beside each other, or below each other where that would cut it.
fn entry(name: &str, help: &str, width: u16) -> Vec<(String, Role)> {
    match width >= 80 {
        true => vec![(format!("  {name:22} {help}"), Role::Plain)],
        false => vec![
            (format!(" {name}"), Role::Strong),
            (format!("   {help}"), Role::Plain),
        ],
    }
}

fn lines(width: u16) -> Vec<(String, Role)> {
    let commands = commands::TABLE
        .iter()
        .flat_map(|command| entry(&command.usage(), command.help, width));
    let slashes = entry("//text", "text that starts with a slash", width);
    let keys = keys::TABLE
        .iter()
        .flat_map(|binding| entry(binding.label, binding.help, width));
    let gap = [(String::new(), Role::Plain)];
    commands.chain(slashes).chain(gap).chain(keys).collect()
}
