//! How one grapheme is shown: control characters as symbols, tabs as blanks, all else as it is. Nothing that comes from a
//! model or a file may steer the terminal. Not where rows break.

use std::borrow::Cow;

use ratatui::buffer::CellWidth;
use unicode_segmentation::UnicodeSegmentation;

/// Columns from one tab stop to the next.
const TAB: usize = 4;

/// A grapheme as it appears on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glyph<'a> {
    /// What is drawn.
    pub text: Cow<'a, str>,
    /// Columns it takes.
    pub width: usize,
}

/// The glyph of `grapheme` when it starts at `column`, counted from the start of its row.
pub fn glyph(grapheme: &str, column: usize) -> Glyph<'_> {
    let Some(first) = grapheme.chars().next() else {
        return Glyph {
            text: Cow::Borrowed(""),
            width: 0,
        };
    };
    let symbol = match first {
        '\t' => {
            let width = TAB - column % TAB;
            return Glyph {
                text: Cow::Owned(" ".repeat(width)),
                width,
            };
        }
        // The control pictures stand in the order of the characters that they show.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(first)),
        '\u{7f}' => Some('\u{2421}'),
        '\u{80}'..='\u{9f}' => Some(char::REPLACEMENT_CHARACTER),
        // These turn the direction of what follows or break a line, in terminals that obey them.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(char::REPLACEMENT_CHARACTER)
        }
        _ => None,
    };
    match symbol {
        Some(symbol) => Glyph {
            text: Cow::Owned(symbol.to_string()),
            width: 1,
        },
        None => Glyph {
            text: Cow::Borrowed(grapheme),
            // The width that ratatui draws it with; a second opinion would move the columns apart.
            width: usize::from(grapheme.cell_width()),
        },
    }
}

/// `text` as it appears, cut to `width` columns.
pub fn shown(text: &str, width: usize) -> String {
    shown_from(text, 0, width).0
}

/// `text` as it appears when it starts at `column` of a row of `width` columns, and the column behind it.
pub fn shown_from(text: &str, mut column: usize, width: usize) -> (String, usize) {
    let mut shown = String::new();
    for grapheme in text.graphemes(true) {
        let glyph = glyph(grapheme, column);
        if column + glyph.width > width {
            break;
        }
        column += glyph.width;
        shown.push_str(&glyph.text);
    }
    (shown, column)
}

/// Columns that `text` takes when it starts a row.
pub fn width(text: &str) -> usize {
    text.graphemes(true)
        .fold(0, |column, grapheme| column + glyph(grapheme, column).width)
}

/// `text` in `width` columns; if that cuts it, the last column says so.
pub fn fitted(text: &str, columns: usize) -> String {
    match width(text) <= columns {
        true => shown(text, columns),
        false if columns == 0 => String::new(),
        false => shown(text, columns - 1) + "…",
    }
}

/// As [`fitted`], but it is the end of `text` that stays: of a path, that is what tells it from others.
pub fn fitted_end(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return shown(text, columns);
    }
    let ends = text.grapheme_indices(true).map(|(at, _)| &text[at..]);
    match ends.skip(1).find(|end| width(end) < columns) {
        Some(end) => format!("…{}", shown(end, columns - 1)),
        None => fitted(text, columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_become_symbols() {
        assert_eq!(shown("\u{1b}[31mred\u{7}", 80), "␛[31mred␇");
        assert_eq!(shown("a\rb\u{7f}\u{9b}2J", 80), "a␍b␡\u{fffd}2J");
        assert_eq!(shown("\u{202e}cba", 80), "\u{fffd}cba");
    }

    #[test]
    fn tabs_go_to_the_next_stop() {
        assert_eq!(shown("a\tb\t\tc", 80), "a   b       c");
        assert_eq!(width("a\tb"), 5);
    }

    #[test]
    fn wide_characters_are_cut_whole() {
        assert_eq!(shown("漢字", 3), "漢");
        assert_eq!(width("e\u{301}漢👩‍🚀"), 5);
        assert_eq!(fitted("漢字漢字", 5), "漢字…");
        assert_eq!(fitted("漢字", 4), "漢字");
        assert_eq!(fitted("ab", 0), "");
    }

    #[test]
    fn the_end_of_a_long_path_stays() {
        assert_eq!(fitted_end("/home/me/chat.jsonl", 12), "…/chat.jsonl");
        assert_eq!(fitted_end("/a/b", 4), "/a/b");
        assert_eq!(fitted_end("/漢字漢字", 5), "…漢字");
        assert_eq!(fitted_end("漢字", 2), "…");
        assert_eq!(fitted_end("ab", 0), "");
    }

    proptest! {
        #[test]
        fn nothing_shown_is_a_control_character_or_too_wide(text in any::<String>(), columns in 0_usize..20) {
            let shown = shown(&text, columns);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(width(&shown) <= columns);
        }
    }
}
