//! The message being written: a text area with the limits and the caret that this screen needs. Not when it is sent.

use crossterm::event::KeyEvent;
use ratatui::style::Style;
use tui_textarea::{TextArea, WrapMode};
use unicode_segmentation::UnicodeSegmentation;

use super::glyph;
use super::wrap::Rows;

/// Bytes of the longest draft. The text area counts its rows in 16 bits, and breaks all of them at every key.
pub const LIMIT_BYTES: usize = 512 * 1024;

/// Lines of the longest draft; with [`LIMIT_BYTES`] at the narrowest screen the rows stay within 16 bits.
pub const LIMIT_LINES: usize = 20_000;

/// What became of a paste.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pasted {
    /// It is in the draft, but for this many control characters.
    Taken(usize),
    /// It is too long; the draft is as it was.
    TooLong,
}

/// The draft.
#[derive(Clone, Debug)]
pub struct Draft {
    area: TextArea<'static>,
}

impl Default for Draft {
    fn default() -> Self {
        Self::with("")
    }
}

impl Draft {
    /// A draft that holds `text`, the caret at its end.
    pub fn with(text: &str) -> Self {
        let mut area = TextArea::default();
        area.set_cursor_line_style(Style::default());
        // The terminal's own cursor stands at the caret: input methods open their window there.
        area.set_cursor_style(Style::default());
        area.set_wrap_mode(WrapMode::WordOrGlyph);
        area.insert_str(text);
        Self { area }
    }

    /// The widget that draws it.
    pub fn widget(&self) -> &TextArea<'static> {
        &self.area
    }

    /// What is written.
    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Empties it; undo brings the text back.
    pub fn clear(&mut self) {
        self.area.clear();
    }

    /// Whether the caret is in the first row, so that Up has nowhere to go.
    pub fn at_top(&self) -> bool {
        self.area.cursor().0 == 0 && self.area.screen_cursor().row == 0
    }

    /// Whether the caret is in the last line.
    pub fn at_bottom(&self) -> bool {
        self.area.cursor().0 + 1 == self.area.lines().len()
    }

    /// A key that is nobody else's.
    pub fn key(&mut self, key: KeyEvent) {
        self.area.input(key);
    }

    /// A new line.
    pub fn newline(&mut self) {
        self.area.insert_newline();
    }

    /// Text from elsewhere, in one step of undo. Line breaks of any kind become one; control characters, which nobody
    /// could see in it, stay out.
    pub fn paste(&mut self, text: &str) -> Pasted {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let unseen = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
        let kept: String = text.chars().filter(|c| !unseen(c)).collect();
        let bytes: usize = self.area.lines().iter().map(|line| line.len() + 1).sum();
        let lines = self.area.lines().len() + kept.matches('\n').count();
        if bytes + kept.len() > LIMIT_BYTES || lines > LIMIT_LINES {
            return Pasted::TooLong;
        }
        self.area.insert_str(&kept);
        Pasted::Taken(text.chars().filter(unseen).count())
    }

    /// Rows that it takes at a width, up to `limit`.
    pub fn height(&self, width: usize, limit: usize) -> usize {
        let mut height = 0;
        for line in self.area.lines() {
            // So long a line needs no counting.
            if line.len() > limit * width.max(1) * 8 {
                return limit;
            }
            // A caret behind a full row needs one more.
            height += Rows::default().of(line, width.saturating_sub(1)).len();
            if height >= limit {
                return limit;
            }
        }
        height
    }

    /// Row and column of the caret in the area where the widget was last drawn.
    pub fn caret(&self) -> (usize, usize) {
        let (top, _) = self.area.scroll_offset();
        let row = self.area.screen_cursor().row;
        // The text area adds the widths of characters up; what is drawn are graphemes, which may be narrower.
        let start = self.area.screen_to_data(row, 0);
        let caret = self.area.cursor();
        let line = self.area.lines().get(caret.0).map_or("", String::as_str);
        let before: String = line.chars().take(caret.1).skip(start.1).collect();
        let column = before.graphemes(true).fold(0, |column, grapheme| {
            column + glyph::glyph(grapheme, column).width
        });
        (row.saturating_sub(usize::from(top)), column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::widgets::Widget;

    fn draw(draft: &Draft, width: u16, height: u16) {
        let area = Rect::new(0, 0, width, height);
        draft.widget().render(area, &mut Buffer::empty(area));
    }

    #[test]
    fn a_paste_is_cleaned_and_undone_at_once() {
        let mut draft = Draft::with("a");
        assert_eq!(draft.paste("b\r\nc\rd\u{1b}[0m\te"), Pasted::Taken(1));
        assert_eq!(draft.text(), "ab\nc\nd[0m\te");
        draft.area.undo();
        assert_eq!(draft.text(), "a");
    }

    #[test]
    fn what_is_too_long_is_refused_whole() {
        let mut draft = Draft::with("a");
        assert_eq!(draft.paste(&"x".repeat(LIMIT_BYTES)), Pasted::TooLong);
        assert_eq!(draft.paste(&"\n".repeat(LIMIT_LINES)), Pasted::TooLong);
        assert_eq!(draft.text(), "a");
        assert_eq!(draft.paste(&"x".repeat(100_000)), Pasted::Taken(0));
    }

    #[test]
    fn the_caret_stands_behind_what_is_drawn() {
        for (text, expected) in [
            ("", (0, 0)),
            ("ab", (0, 2)),
            ("漢字", (0, 4)),
            ("👩‍🚀e\u{301}", (0, 3)),
            ("a\nbc", (1, 2)),
            ("one two three", (1, 5)),
        ] {
            let draft = Draft::with(text);
            draw(&draft, 10, 4);
            assert_eq!(draft.caret(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_cleared_draft_can_be_had_back() {
        let mut draft = Draft::with("long\nthought");
        draft.clear();
        assert!(draft.is_empty());
        draft.area.undo();
        assert_eq!(draft.text(), "long\nthought");
    }

    #[test]
    fn the_height_counts_rows_up_to_a_limit() {
        assert_eq!(Draft::with("").height(10, 5), 1);
        assert_eq!(Draft::with("a\nb").height(10, 5), 2);
        assert_eq!(Draft::with(&"x".repeat(30)).height(11, 5), 3);
        assert_eq!(Draft::with(&"x".repeat(999)).height(11, 5), 5);
    }
}
