//! What a refusal says of the content of a file: it may quote anything, and is one short line all the same.

/// Characters that are left.
const LONGEST: usize = 600;

/// `text` on one line: what a terminal would obey, or begin a line for, is written as Rust writes it, and the end is cut off where
/// nobody reads on.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == LONGEST {
            line.push('\u{2026}');
            break;
        }
        match c.is_control() {
            true => line.extend(c.escape_debug()),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_quoted_is_one_short_line() {
        assert_eq!(one_line("a\nb\u{1b}[2J\t"), "a\\nb\\u{1b}[2J\\t");
        let long = one_line(&"\u{4f60}".repeat(700));
        assert_eq!(
            (long.chars().count(), long.ends_with('\u{2026}')),
            (601, true)
        );
        assert_eq!(one_line("\u{4f60} is short"), "\u{4f60} is short");
    }
}
