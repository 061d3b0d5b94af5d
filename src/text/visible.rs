//! Text that is safe to send to a terminal: what would move the cursor or change colours is shown as a symbol instead.

use std::borrow::Cow;

/// `text` with every control character but line breaks and tabs replaced by its picture: a model or a file can write
/// anything, and a terminal obeys.
pub fn visible(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| if harmless(c) { c } else { picture(c) })
            .collect(),
    )
}

/// Characters of a text that [`one_line`] leaves.
const SHORT: usize = 300;

/// What a message says of the content of a file: on one line, also what a terminal would obey or begin a line for, and no longer than
/// a person reads.
pub fn one_line(text: &str) -> String {
    let picture = |c: char| if c.is_control() { picture(c) } else { c };
    let mut line: String = text.chars().take(SHORT).map(picture).collect();
    if text.chars().nth(SHORT).is_some() {
        line.push('\u{2026}');
    }
    line
}

/// The picture of a control character: those of ASCII have one each, the others share one.
pub fn picture(control: char) -> char {
    match u32::from(control) {
        c @ 0..0x20 => char::from_u32(0x2400 + c).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_and_never_sent() {
        assert_eq!(
            visible("a\u{1b}[31mb\r\u{7f}\u{9b}\tc\n"),
            "a\u{241b}[31mb\u{240d}\u{2421}\u{fffd}\tc\n"
        );
        assert_eq!(one_line("a\nb\u{1b}\t"), "a\u{240a}b\u{241b}\u{2409}");
        let long = one_line(&"\u{4f60}".repeat(400));
        assert_eq!(
            (long.chars().count(), long.ends_with('\u{2026}')),
            (301, true)
        );
        assert!(matches!(visible("\u{4f60}\u{597d}\n"), Cow::Borrowed(_)));
    }
}
