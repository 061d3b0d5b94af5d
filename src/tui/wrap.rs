//! Where the rows of a text begin and end at a given width. The rows are kept: a text that grows at its end is broken again
//! from its last two rows on, so that a token costs the same in a long answer as in a short one.

use unicode_segmentation::UnicodeSegmentation;

use super::glyph::glyph;

/// One row: the bytes `start..end` of its text, without the line break. Blanks at its end may reach past the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// The rows of one text. An empty text has one empty row.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    /// Columns they were broken for; 0 before the first time.
    width: usize,
    /// Bytes of the text that are in them.
    bytes: usize,
}

impl Rows {
    /// The rows of `text` at `width` columns (at least 1). `text` must be what it was the last time, perhaps longer.
    pub fn of(&mut self, text: &str, width: usize) -> &[Row] {
        let width = width.max(1);
        if self.width != width || self.bytes > text.len() {
            self.rows.clear();
            self.width = width;
        } else if self.bytes < text.len() {
            // What comes may still grow the last grapheme of the text. The row before the last was broken because of a
            // grapheme that may be that one; rows before it were broken because of earlier ones.
            self.rows.truncate(self.rows.len().saturating_sub(2));
        }
        if self.rows.is_empty() || self.bytes != text.len() {
            // A row's start depends on nothing before it, so breaking may go on at any of them.
            let start = self.restart(text);
            break_rows(text, start, width, &mut self.rows);
            self.bytes = text.len();
        }
        &self.rows
    }

    /// The rows of the last [`Rows::of`].
    pub fn kept(&self) -> &[Row] {
        &self.rows
    }

    /// The row that holds byte `at`; the last one for a byte past the end.
    pub fn holding(&self, at: usize) -> usize {
        self.rows
            .partition_point(|row| row.start <= at)
            .saturating_sub(1)
    }

    /// Where the row after those that are kept starts: after the last one's end, and after a line break there.
    fn restart(&self, text: &str) -> usize {
        self.rows.last().map_or(0, |row| {
            let rest = &text[row.end..];
            row.end + line_break(rest).unwrap_or(0)
        })
    }
}

/// Bytes of the line break that `text` starts with.
fn line_break(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

/// Appends the rows of `text[from..]`.
fn break_rows(text: &str, from: usize, width: usize, rows: &mut Vec<Row>) {
    let mut start = from;
    loop {
        let rest = &text[start..];
        let newline = rest.find('\n');
        let end = newline.map_or(rest.len(), |at| {
            at - usize::from(rest[..at].ends_with('\r'))
        });
        break_line(text, start, start + end, width, rows);
        match newline {
            Some(at) => start += at + 1,
            None => return,
        }
    }
}

/// Appends the rows of one line: after blanks and around wide characters, inside a word only where it fills a row.
fn break_line(text: &str, start: usize, end: usize, width: usize, rows: &mut Vec<Row>) {
    let mut row = start;
    let mut column = 0;
    // The last place where this row may end.
    let mut gap = None;
    let mut after_wide = false;
    for (offset, grapheme) in text[start..end].grapheme_indices(true) {
        let at = start + offset;
        let blank = matches!(grapheme, " " | "\t");
        let mut columns = glyph(grapheme, column).width;
        if columns > 1 && !blank || after_wide {
            gap = Some(at);
        }
        while column + columns > width && !blank && at > row {
            let cut = gap.take().filter(|&gap| gap > row).unwrap_or(at);
            rows.push(Row {
                start: row,
                end: cut,
            });
            row = cut;
            column = super::glyph::width(&text[row..at]);
            columns = glyph(grapheme, column).width;
        }
        column += columns;
        after_wide = columns > 1 && !blank;
        if blank {
            gap = Some(at + grapheme.len());
        }
    }
    rows.push(Row { start: row, end });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        let mut rows = Rows::default();
        let rows = rows.of(text, width).iter();
        rows.map(|row| text[row.start..row.end].to_owned())
            .collect()
    }

    #[test]
    fn words_stay_whole_and_blanks_hang() {
        assert_eq!(
            wrapped("one two  three", 8),
            ["one two  ", "three"],
            "the second blank reaches past the width"
        );
        assert_eq!(wrapped("abcdefghij kl", 4), ["abcd", "efgh", "ij ", "kl"]);
        assert_eq!(wrapped("a abcdefghij", 4), ["a ", "abcd", "efgh", "ij"]);
    }

    #[test]
    fn line_breaks_of_both_kinds_end_rows() {
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("a\r\nb\n\nc\n", 5), ["a", "b", "", "c", ""]);
    }

    #[test]
    fn wide_characters_break_anywhere_and_never_straddle() {
        assert_eq!(wrapped("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrapped("ab漢字", 5), ["ab漢", "字"]);
        assert_eq!(wrapped("漢字", 1), ["漢", "字"]);
    }

    #[test]
    fn a_byte_is_found_in_its_row() {
        let mut rows = Rows::default();
        rows.of("one two three", 8);
        assert_eq!(rows.kept().len(), 2);
        assert_eq!([0, 7, 8, 99].map(|at| rows.holding(at)), [0, 0, 1, 1]);
    }

    /// Text with much of what is hard: breaks, blanks, wide, joined, combining, flags, control characters.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "a",
            "word ",
            "  ",
            "\n",
            "\r\n",
            "\r",
            "\t",
            "漢",
            "e\u{301}",
            "\u{301}",
            "👩",
            "\u{200d}",
            "🚀",
            "🇩",
            "🇪",
            "\u{fe0f}",
            "❤",
            "\u{1b}[0m",
            "longerword",
            "한",
        ]);
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn growing_text_breaks_as_if_it_had_come_at_once(text in text(), width in 1_usize..12) {
            let mut grown = Rows::default();
            for (at, character) in text.char_indices() {
                grown.of(&text[..at + character.len_utf8()], width);
            }
            let grown = grown.of(&text, width).to_vec();
            prop_assert_eq!(grown, Rows::default().of(&text, width).to_vec());
        }

        #[test]
        fn rows_hold_all_of_the_text_and_fit(text in text(), width in 2_usize..12) {
            let mut rows = Rows::default();
            let rows = rows.of(&text, width);
            let mut at = 0;
            for row in rows {
                prop_assert!(matches!(&text[at..row.start], "" | "\n" | "\r\n"));
                let line = text[row.start..row.end].trim_end_matches([' ', '\t']);
                // Joined emoji may be wider than any row; they stand alone then.
                let alone = line.graphemes(true).count() == 1;
                prop_assert!(alone || crate::tui::glyph::width(line) <= width, "{line:?}");
                at = row.end;
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
