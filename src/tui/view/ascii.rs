//! The program's own marks for a terminal that knows only ASCII. What the model writes stays what it is.

use ratatui::buffer::Buffer;

/// What stands for a mark.
fn plain(mark: &str) -> Option<&'static str> {
    Some(match mark {
        "─" | "–" => "-",
        "│" => "|",
        "┼" => "+",
        "▸" | "→" => ">",
        "←" => "<",
        "↓" => "v",
        "█" => "#",
        "░" | "·" => ".",
        "•" => "*",
        "…" => "~",
        _ => return None,
    })
}

/// Puts plain characters in the place of marks.
pub fn keep_to(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if let Some(plain) = plain(cell.symbol()) {
            cell.set_symbol(plain);
        }
    }
}

/// Whether the environment says that the terminal knows no Unicode. One that says nothing is believed to know it.
pub fn asked_for(variable: impl Fn(&str) -> Option<String>) -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty());
    said.is_some_and(|locale| {
        let locale = locale.to_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_says_something_counts() {
        let asked = |all: &str, lang: &str| {
            asked_for(|name| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            })
        };
        assert!(!asked("", ""));
        assert!(asked("C", "de_DE.UTF-8"));
        assert!(!asked("", "de_DE.utf8"));
        assert!(asked("", "de_DE.ISO-8859-1"));
    }
}
