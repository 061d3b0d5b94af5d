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
        assert!(matches!(visible("\u{4f60}\u{597d}\n"), Cow::Borrowed(_)));
    }
}
