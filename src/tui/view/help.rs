//! Commands and keys, from their tables.

use super::super::commands;
use super::super::keys;
use super::super::theme::Role;

/// A name and what it does: beside each other, or below each other where that would cut it.
fn entry(name: &str, help: &str, width: u16) -> Vec<(String, Role)> {
    match width >= 80 {
        true => vec![(format!("  {name:24} {help}"), Role::Plain)],
        false => vec![
            (format!(" {name}"), Role::Strong),
            (format!("   {help}"), Role::Plain),
        ],
    }
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
