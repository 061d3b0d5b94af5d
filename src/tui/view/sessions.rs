//! The conversations that are kept, over everything.

use super::super::figures::counted;
use super::super::theme::Role;
use crate::chat::Kept;

/// A row each; the chosen one stands out.
pub fn lines(kept: &[Kept], chosen: usize) -> Vec<(String, Role)> {
    let line = |(index, kept): (usize, &Kept)| {
        let (sign, role) = match index == chosen {
            true => ("▸", Role::Chosen),
            false => (" ", Role::Plain),
        };
        let when: String = kept.when.replace('T', " ").chars().take(16).collect();
        let messages = counted(kept.messages, "message");
        (
            format!("{sign} {when}  {messages:>13}  {}", kept.title),
            role,
        )
    };
    kept.iter().enumerate().map(line).collect()
}
