//! The end of a text that is still growing, as it will look when it is finished: so that nothing is drawn in one form now
//! and in another one a token later.

use std::borrow::Cow;

/// `tail`, the last blocks of a text, with what is unfinished at its end finished or held back.
pub fn calm(tail: &str) -> Cow<'_, str> {
    let kept = hold_back(tail);
    if in_fence(kept) {
        return Cow::Borrowed(kept);
    }
    let start = last_run(kept);
    let run = &kept[start..];
    if run.trim_start().starts_with('|') && !run.trim_end().contains('\n') {
        // The first row of a table, before the line that says so.
        let columns = run.trim().trim_matches('|').split('|').count();
        let end = if run.trim_end().ends_with('|') && run.trim().len() > 1 {
            ""
        } else {
            "|"
        };
        let row = kept.trim_end();
        return Cow::Owned(format!("{row}{end}\n|{}", "-|".repeat(columns)));
    }
    let closing = closers(run);
    match closing.is_empty() {
        true => Cow::Borrowed(kept),
        // A closing mark must not follow a blank.
        false => Cow::Owned(format!("{}{closing}", kept.trim_end_matches(' '))),
    }
}

/// Without a last line that is nothing but marks: what it will be is not decided yet.
fn hold_back(text: &str) -> &str {
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let marks = |c: char| {
        matches!(
            c,
            '-' | '=' | '*' | '_' | '#' | '`' | '~' | '>' | '+' | '|' | ':' | ' '
        )
    };
    match text[line..].chars().all(marks) {
        true => &text[..line],
        // A mark that opens something, before what it is for.
        false => match text[line..].trim_end_matches(['*', '_', '`']) {
            rest if text.ends_with(['*', '_', '`']) && rest.ends_with(' ') => {
                &text[..line + rest.len()]
            }
            _ => text,
        },
    }
}

/// Whether the text ends inside a fenced block of code.
fn in_fence(text: &str) -> bool {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start_matches([' ', '>']);
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else {
            continue;
        };
        let run = line.chars().take_while(|&c| c == mark).count();
        let rest = line[run..].trim();
        open = match open {
            Some((with, length)) if with == mark && run >= length && rest.is_empty() => None,
            None if run >= 3 && !rest.contains('`') => Some((mark, run)),
            open => open,
        };
    }
    open.is_some()
}

/// Where the last run of lines begins that inline marks can span: after an empty line, or at an item's marker.
fn last_run(text: &str) -> usize {
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let words = line.trim_start();
        let digits = words.trim_start_matches(|c: char| c.is_ascii_digit());
        let item = words.starts_with(['-', '*', '+', '#', '>'])
            && words[1..].starts_with([' ', '#'])
            || digits.len() < words.len() && digits.starts_with([')', '.']);
        if words.is_empty() {
            start = at + line.len();
        } else if item {
            start = at;
        }
        at += line.len();
    }
    start
}

/// The marks that close what is open at the end of a run.
fn closers(run: &str) -> String {
    let mut open: Vec<&str> = Vec::new();
    let bytes = run.as_bytes();
    let mut code: Option<usize> = None;
    let mut at = 0;
    while at < bytes.len() {
        let mark = bytes[at];
        if mark == b'\\' && code.is_none() {
            at += 2;
            continue;
        }
        let length = bytes[at..].iter().take_while(|&&b| b == mark).count();
        match mark {
            b'`' => {
                code = match code {
                    None => Some(length),
                    Some(opened) if opened == length => None,
                    open => open,
                };
                at += length;
            }
            b'*' | b'_' if code.is_none() => {
                let before = run[..at].chars().next_back();
                let after = run[at + length..].chars().next();
                let blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
                let mark = match (mark, length) {
                    (b'*', 1) => "*",
                    (b'*', 2) => "**",
                    (b'*', 3) => "***",
                    (b'_', 1) => "_",
                    (b'_', 2) => "__",
                    _ => "",
                };
                if open.last() == Some(&mark) && !blank(before) {
                    open.pop();
                } else if !mark.is_empty()
                    && !blank(after)
                    && before.is_none_or(|c| !c.is_alphanumeric())
                {
                    open.push(mark);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    let mut closing = "`".repeat(code.unwrap_or(0));
    for mark in open.iter().rev() {
        closing.push_str(mark);
    }
    closing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_closed() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a **bold wo", "a **bold wo**"),
            ("a **bold ", "a **bold**"),
            ("a **bold** and *it", "a **bold** and *it*"),
            ("use `co", "use `co`"),
            ("`a * b` and", "`a * b` and"),
            ("2 * 3 and 2*3", "2 * 3 and 2*3"),
            ("snake_case_na", "snake_case_na"),
            ("**done**\n\nnext", "**done**\n\nnext"),
            ("**open\n\nnext", "**open\n\nnext"),
            ("- **a\n- b", "- **a\n- b"),
            ("\\*no", "\\*no"),
        ] {
            assert_eq!(calm(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_decided_is_held_back() {
        for (text, expected) in [
            ("text\n--", "text\n"),
            ("text\n#", "text\n"),
            ("text\n``", "text\n"),
            ("text\n- ", "text\n"),
            ("so **", "so "),
            ("```rust\nlet a = *", "```rust\nlet a = "),
            ("```\nx\n``", "```\nx\n"),
        ] {
            assert_eq!(calm(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_table_is_one_from_its_first_row_on() {
        assert_eq!(calm("| a | b"), "| a | b|\n|-|-|");
        assert_eq!(calm("x\n\n| a | b |\n"), "x\n\n| a | b |\n|-|-|");
        assert_eq!(calm("| a |\n|---|\n| 1"), "| a |\n|---|\n| 1");
    }

    #[test]
    fn code_is_left_as_it_is() {
        assert_eq!(calm("```\na **b"), "```\na **b");
        assert_eq!(calm("```\na\n```\nso **b"), "```\na\n```\nso **b**");
    }
}
