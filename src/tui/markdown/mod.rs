//! Markdown as rows of a given width. The rows are kept: of a text that grows at its end only the last two blocks are read
//! anew, so that a token costs the same in a long answer as in a short one. Not how the rows are coloured.

mod calm;
mod flat;
mod table;
mod writer;

pub use flat::{Look, Part, Row};

/// The rows of one text. A text that shows nothing has one empty row.
#[derive(Clone, Debug, Default)]
pub struct Page {
    rows: Vec<Row>,
    /// Where each top-level block begins: its byte in the text, and its first row.
    blocks: Vec<(usize, usize)>,
    /// Columns they were laid out for; 0 before the first time.
    width: usize,
    /// Bytes of the text that are in them.
    bytes: usize,
    /// Whether the text was still growing.
    open: bool,
}

impl Page {
    /// The rows of `text` at `width` columns (at least 1). `text` must be what it was the last time, perhaps longer. While it
    /// is `open` more is to come, and what is not finished yet is shown as it will be when it is.
    pub fn of(&mut self, text: &str, width: usize, open: bool) -> &[Row] {
        let width = width.max(1);
        if self.width != width || self.bytes > text.len() {
            *self = Self {
                width,
                ..Self::default()
            };
        } else if self.bytes == text.len() && self.open == open && !self.rows.is_empty() {
            return &self.rows;
        }
        // What comes may still grow the last block, or join it with the one before (items of one list).
        let kept = self.blocks.len().saturating_sub(2);
        let (from, row) = self.blocks.get(kept).copied().unwrap_or_default();
        self.blocks.truncate(kept);
        self.rows.truncate(row);
        writer::write(text, from, width, open, &mut self.rows, &mut self.blocks);
        if self.rows.is_empty() {
            self.rows.push(Row::default());
        }
        (self.bytes, self.open) = (text.len(), open);
        &self.rows
    }

    /// The rows of the last [`Page::of`].
    pub fn kept(&self) -> &[Row] {
        &self.rows
    }

    /// The row that shows byte `at`, or the last one before it.
    pub fn holding(&self, at: usize) -> usize {
        self.rows
            .partition_point(|row| row.source <= at)
            .saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
