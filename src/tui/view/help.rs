//! Commands and keys, from their tables.

use super::super::commands;
use super::super::keys;
use super::super::theme::Role;
use super::super::wrap::Rows;

/// Columns of a name, where what it does stands beside it.
const NAME: usize = 28;

/// A name and what it does: beside each other, or below each other where there is no room. What is too long goes on in the
/// next row.
fn entry(name: &str, help: &str, width: u16) -> Vec<(String, Role)> {
    let beside = width >= 80;
    let indent = if beside { NAME } else { 3 };
    let mut lines = match beside {
        true => Vec::new(),
        false => vec![(format!(" {name}"), Role::Strong)],
    };
    let mut rows = Rows::default();
    let room = usize::from(width).saturating_sub(indent);
    for (index, row) in rows.of(help, room).iter().enumerate() {
        let name = match index {
            0 if beside => format!("  {name}"),
            _ => String::new(),
        };
        let help = help[row.start..row.end].trim_end();
        lines.push((format!("{name:indent$}{help}"), Role::Plain));
    }
    lines
}

/// All of them, for a box of this width.
pub fn lines(width: u16) -> Vec<(String, Role)> {
    let commands = commands::TABLE
        .iter()
        .flat_map(|command| entry(&command.usage(), &command.explained(), width));
    let slashes = entry("//text", "text that starts with a slash", width);
    let keys = keys::TABLE
        .iter()
        .flat_map(|binding| entry(binding.label, binding.help, width));
    let gap = [(String::new(), Role::Plain)];
    commands.chain(slashes).chain(gap).chain(keys).collect()
}
