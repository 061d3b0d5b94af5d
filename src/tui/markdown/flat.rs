//! A text in which pieces look different, and the rows that it is broken into.

use super::super::glyph;
use super::super::wrap::Rows;

/// What stands for the colon of `]:` while markdown is read, of the same length: a separator of units, which is in no text
/// that a person reads.
pub const COLON: &str = "\x1f";

/// What a tab is shown as.
const TAB: &str = "    ";

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Text.
    #[default]
    Text,
    /// Code, in a line or a block of its own.
    Code,
    /// A heading.
    Heading,
    /// What stands for structure: bullets, bars, rules, addresses of links.
    Mark,
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What it is.
    pub part: Part,
    /// Strongly emphasised.
    pub strong: bool,
    /// Emphasised.
    pub emphasis: bool,
}

impl Look {
    /// Of a structure.
    pub const MARK: Self = Self {
        part: Part::Mark,
        strong: false,
        emphasis: false,
    };
}

/// Text of one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text, without line breaks.
    pub text: String,
    /// How it looks.
    pub look: Look,
}

/// A row on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// From left to right.
    pub spans: Vec<Span>,
    /// The byte of the source that it begins with, or a little before.
    pub source: usize,
}

impl Row {
    /// Appends text.
    pub fn push(&mut self, text: &str, look: Look) {
        match self.spans.last_mut() {
            Some(last) if last.look == look => last.text.push_str(text),
            _ if text.is_empty() => {}
            _ => self.spans.push(Span {
                text: text.to_owned(),
                look,
            }),
        }
    }

    /// Its text without looks.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Columns it takes.
    pub fn width(&self) -> usize {
        glyph::width(&self.text())
    }
}

/// A piece of a [`Flat`]: from this byte on it looks like this and stands there in the source.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    look: Look,
    source: usize,
}

/// A text in pieces; line breaks are in it as they shall be.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    text: String,
    pieces: Vec<Piece>,
}

impl Flat {
    /// Appends a piece.
    pub fn push(&mut self, text: &str, look: Look, source: usize) {
        if !text.is_empty() {
            self.pieces.push(Piece {
                at: self.text.len(),
                look,
                source,
            });
            // The stops of a row would move with what stands in front of it.
            let text = text.replace(COLON, ":");
            self.text.push_str(&text.replace('\t', TAB));
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes line breaks at the end off.
    pub fn trim_end(&mut self) {
        let end = self.text.trim_end_matches(['\n', '\r']).len();
        self.text.truncate(end);
    }

    /// Columns of its longest line.
    pub fn width(&self) -> usize {
        self.text.lines().map(glyph::width).max().unwrap_or(0)
    }

    /// Its rows at a width, without blanks at their ends.
    pub fn rows(&self, width: usize) -> Vec<Row> {
        let mut rows = Rows::default();
        let rows = rows.of(&self.text, width).iter();
        rows.map(|row| self.cut(row.start, row.end)).collect()
    }

    fn cut(&self, start: usize, end: usize) -> Row {
        let end = start + self.text[start..end].trim_end_matches([' ', '\t']).len();
        let first = self
            .pieces
            .partition_point(|piece| piece.at <= start)
            .saturating_sub(1);
        let mut row = Row::default();
        if let Some(piece) = self.pieces.get(first) {
            row.source = piece.source + (start - piece.at);
        }
        for (index, piece) in self.pieces.iter().enumerate().skip(first) {
            if piece.at >= end {
                break;
            }
            let next = self.pieces.get(index + 1).map_or(end, |next| next.at);
            row.push(&self.text[piece.at.max(start)..next.min(end)], piece.look);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_looks_and_places() {
        let strong = Look {
            strong: true,
            ..Look::default()
        };
        let mut flat = Flat::default();
        flat.push("one ", Look::default(), 10);
        flat.push("two three", strong, 16);
        let rows = flat.rows(8);
        assert_eq!(rows[0].text(), "one two");
        assert_eq!(rows[0].spans[1].look, strong);
        assert_eq!((rows[0].source, rows[1].source), (10, 20));
        assert_eq!(rows[1].text(), "three");
    }
}
