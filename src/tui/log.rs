//! A list of texts that grows at its end and is scrolled: what a pane shows. Only what is visible is ever broken into rows.
//! Not what the texts mean, and not how they are drawn.

use super::markdown::{Look, Page};
use super::wrap::Rows;

/// Columns in front of every row, for the sign of its block.
pub const GUTTER: usize = 2;

/// What a block is; the view gives each kind its sign and style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The person's message.
    User,
    /// The model's answer.
    Answer,
    /// The model's reasoning.
    Think,
    /// A call of a tool, as the model wrote it.
    Tools,
    /// What the reasoning below it is about.
    Heading,
    /// Something the program says.
    Notice,
    /// Something the program says that must not be missed.
    Alarm,
}

/// One text of a log.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it is.
    pub kind: Kind,
    /// The text as it came.
    pub text: String,
    /// Whether more of it is to come.
    open: bool,
    /// Whether it is shown as it came, not as markdown.
    raw: bool,
    rows: Rows,
    page: Page,
}

impl Block {
    fn new(kind: Kind, text: String) -> Self {
        Self {
            kind,
            text,
            open: false,
            raw: kind != Kind::Answer,
            rows: Rows::default(),
            page: Page::default(),
        }
    }

    /// The spans of one row, which must have been visible in the last [`Log::settle`].
    pub fn row(&self, row: usize) -> Vec<(&str, Look)> {
        if !self.raw {
            let spans = self.page.kept().get(row).map(|row| row.spans.iter());
            return spans
                .into_iter()
                .flatten()
                .map(|span| (span.text.as_str(), span.look))
                .collect();
        }
        let row = self.rows.kept().get(row);
        let text = row.and_then(|row| self.text.get(row.start..row.end));
        text.map(|text| (text, Look::default()))
            .into_iter()
            .collect()
    }

    /// How many rows it takes.
    fn rows(&mut self, width: usize) -> usize {
        let width = width.saturating_sub(GUTTER);
        match self.raw {
            true => self.rows.of(&self.text, width).len(),
            false => self.page.of(&self.text, width, self.open).len(),
        }
    }

    /// The byte of the text that a row begins with; none past the last.
    fn place(&self, row: usize) -> Option<usize> {
        match self.raw {
            true => self.rows.kept().get(row).map(|row| row.start),
            false => self.page.kept().get(row).map(|row| row.source),
        }
    }

    /// The row that shows a byte.
    fn holding(&self, at: usize) -> usize {
        match self.raw {
            true => self.rows.holding(at),
            false => self.page.holding(at),
        }
    }
}

/// A row on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which block.
    pub block: usize,
    /// Which of its rows; one past the last is the empty row between two blocks.
    pub row: usize,
}

/// The place in the text that stays at the top while somebody reads. It survives a change of the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    block: usize,
    byte: usize,
    /// Whether it is the empty row after the block.
    gap: bool,
}

/// The texts and the part of them that is visible.
#[derive(Clone, Debug, Default)]
pub struct Log {
    blocks: Vec<Block>,
    /// None: the end is followed.
    top: Option<Anchor>,
    /// Whether something came while the end was not followed.
    unseen: bool,
    width: usize,
    height: usize,
    visible: Vec<Line>,
    /// Whether answers are shown as they came.
    raw: bool,
}

impl Log {
    /// Appends a text.
    pub fn push(&mut self, kind: Kind, text: impl Into<String>) {
        self.close();
        let mut block = Block::new(kind, text.into());
        block.raw |= self.raw;
        self.blocks.push(block);
        self.unseen |= self.top.is_some();
    }

    /// Appends to the last text if it is of this kind, else appends a text.
    pub fn extend(&mut self, kind: Kind, text: &str) {
        match self.blocks.last_mut() {
            Some(block) if block.kind == kind => {
                block.text.push_str(text);
                self.unseen |= self.top.is_some();
            }
            _ => self.push(kind, text),
        }
        if let Some(block) = self.blocks.last_mut() {
            block.open = true;
        }
    }

    /// Nothing more comes to the last text.
    pub fn close(&mut self) {
        if let Some(block) = self.blocks.last_mut() {
            block.open = false;
        }
    }

    /// Shows answers as they came, or as markdown.
    pub fn set_raw(&mut self, raw: bool) {
        self.raw = raw;
        for block in &mut self.blocks {
            block.raw = raw || block.kind != Kind::Answer;
        }
    }

    /// Whether answers are shown as they came.
    pub fn raw(&self) -> bool {
        self.raw
    }

    /// Forgets what the program said since the last text of the conversation: that text is gone on with.
    pub fn drop_notices(&mut self) {
        while let Some(Kind::Notice | Kind::Alarm) = self.blocks.last().map(|block| block.kind) {
            self.blocks.pop();
        }
        if self.top.is_some_and(|top| top.block >= self.blocks.len()) {
            self.follow();
        }
    }

    /// Forgets all texts.
    pub fn clear(&mut self) {
        *self = Self {
            width: self.width,
            height: self.height,
            raw: self.raw,
            ..Self::default()
        };
    }

    /// All texts.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The visible rows, from the top, as the last [`Log::settle`] found them.
    pub fn visible(&self) -> &[Line] {
        &self.visible
    }

    /// Whether the end is in view and stays so.
    pub fn follows(&self) -> bool {
        self.top.is_none()
    }

    /// Whether something came below while somebody read above.
    pub fn unseen(&self) -> bool {
        self.unseen
    }

    /// Goes to the end and stays there.
    pub fn follow(&mut self) {
        self.top = None;
        self.unseen = false;
    }

    /// Goes to the start.
    pub fn go_to_start(&mut self) {
        if !self.blocks.is_empty() {
            self.anchor(Line { block: 0, row: 0 });
        }
        self.settle(self.width, self.height);
    }

    /// Brings byte `byte` of a block into view, in the upper third.
    pub fn go_to(&mut self, block: usize, byte: usize) {
        if block >= self.blocks.len() {
            return;
        }
        let row = self.anchored(Anchor {
            block,
            byte,
            gap: false,
        });
        let mut line = row;
        for _ in 0..self.height / 3 {
            match self.before(line) {
                Some(before) => line = before,
                None => break,
            }
        }
        self.anchor(line);
        self.settle(self.width, self.height);
    }

    /// Moves by rows: up if negative. At the end it follows again.
    pub fn scroll(&mut self, rows: isize) {
        let Some(&first) = self.visible.first() else {
            return;
        };
        let mut line = first;
        for _ in 0..rows.unsigned_abs() {
            let next = if rows < 0 {
                self.before(line)
            } else {
                self.after(line)
            };
            match next {
                Some(next) => line = next,
                None => break,
            }
        }
        if line != first {
            self.anchor(line);
        }
        self.settle(self.width, self.height);
    }

    /// Rows of a page: one less than is visible, so that a row of the old page stays.
    pub fn page(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(isize::MAX)
    }

    /// Finds the visible rows for a pane of this size. After every change, before it is drawn.
    pub fn settle(&mut self, width: usize, height: usize) {
        (self.width, self.height) = (width, height);
        self.visible.clear();
        if let Some(top) = self.top {
            let mut line = Some(self.anchored(top));
            while let Some(at) = line.filter(|_| self.visible.len() < height) {
                self.visible.push(at);
                line = self.after(at);
            }
            // With the last row in view there is nothing to hold on to.
            if line.is_none() {
                self.follow();
            }
        }
        if self.top.is_none() {
            self.visible.clear();
            let mut line = self.last();
            while let Some(at) = line.filter(|_| self.visible.len() < height) {
                self.visible.push(at);
                line = self.before(at);
            }
            self.visible.reverse();
        }
    }

    fn rows(&mut self, block: usize) -> usize {
        let width = self.width;
        self.blocks[block].rows(width)
    }

    /// The last row: the last block has no empty row after it.
    fn last(&mut self) -> Option<Line> {
        let block = self.blocks.len().checked_sub(1)?;
        let row = self.rows(block).saturating_sub(1);
        Some(Line { block, row })
    }

    fn before(&mut self, line: Line) -> Option<Line> {
        match line.row.checked_sub(1) {
            Some(row) => Some(Line { row, ..line }),
            None => {
                let block = line.block.checked_sub(1)?;
                let row = self.rows(block) - usize::from(!self.spaced(block));
                Some(Line { block, row })
            }
        }
    }

    fn after(&mut self, line: Line) -> Option<Line> {
        let rows = self.rows(line.block) + usize::from(self.spaced(line.block));
        let next = Line {
            row: line.row + 1,
            ..line
        };
        if next.row < rows {
            return Some(next);
        }
        let block = line.block + 1;
        (block < self.blocks.len()).then_some(Line { block, row: 0 })
    }

    /// Whether an empty row follows the block.
    fn spaced(&self, block: usize) -> bool {
        block + 1 < self.blocks.len() && self.blocks[block].kind != Kind::Heading
    }

    fn anchor(&mut self, line: Line) {
        let block = &self.blocks[line.block];
        let place = block.place(line.row);
        self.top = Some(Anchor {
            block: line.block,
            byte: place.unwrap_or(block.text.len()),
            gap: place.is_none(),
        });
    }

    fn anchored(&mut self, anchor: Anchor) -> Line {
        let rows = self.rows(anchor.block);
        let row = match anchor.gap {
            true => rows,
            false => self.blocks[anchor.block].holding(anchor.byte),
        };
        Line {
            block: anchor.block,
            row,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(texts: &[&str], height: usize) -> Log {
        let mut log = Log::default();
        for text in texts {
            log.push(Kind::Think, *text);
        }
        log.settle(12, height);
        log
    }

    fn shown(log: &Log) -> Vec<String> {
        let row = |line: &Line| log.blocks()[line.block].row(line.row);
        let text = |line| row(line).iter().map(|(text, _)| *text).collect();
        log.visible().iter().map(text).collect()
    }

    #[test]
    fn the_end_is_followed_until_somebody_reads_above() {
        let mut log = log(&["one", "two\nthree\nfour"], 3);
        assert_eq!(shown(&log), ["two", "three", "four"]);
        log.extend(Kind::Think, "\nfive");
        log.settle(12, 3);
        assert_eq!(shown(&log), ["three", "four", "five"]);
        assert!(log.follows() && !log.unseen());

        log.scroll(-2);
        assert_eq!(shown(&log), ["", "two", "three"]);
        log.extend(Kind::Think, "\nsix");
        log.settle(12, 3);
        assert_eq!(
            shown(&log),
            ["", "two", "three"],
            "reading is not disturbed"
        );
        assert!(!log.follows() && log.unseen());

        log.scroll(99);
        assert_eq!(shown(&log), ["four", "five", "six"]);
        assert!(log.follows() && !log.unseen());
    }

    #[test]
    fn scrolling_stops_at_the_start() {
        let mut log = log(&["one", "two\nthree\nfour"], 3);
        log.scroll(-99);
        assert_eq!(shown(&log), ["one", "", "two"]);
        log.scroll(-1);
        assert_eq!(shown(&log), ["one", "", "two"]);
        log.follow();
        log.go_to_start();
        assert_eq!(shown(&log), ["one", "", "two"]);
    }

    #[test]
    fn the_place_survives_another_width() {
        let mut log = log(&["aaaa bbbb cccc dddd eeee ffff", "end"], 2);
        log.scroll(-2);
        assert_eq!(shown(&log), ["cccc dddd ", "eeee ffff"]);
        log.settle(7, 2);
        assert_eq!(shown(&log), ["cccc ", "dddd "]);
        log.settle(80, 2);
        assert_eq!(shown(&log), ["aaaa bbbb cccc dddd eeee ffff", ""]);
    }

    #[test]
    fn a_short_log_and_an_empty_one_have_nothing_to_scroll() {
        let mut short = log(&["one"], 5);
        short.scroll(-3);
        assert!(short.follows());
        let mut empty = log(&[], 5);
        empty.scroll(-3);
        empty.go_to_start();
        assert!(empty.visible().is_empty() && empty.follows());
    }

    #[test]
    fn headings_stand_on_what_they_head() {
        let mut log = Log::default();
        log.push(Kind::Heading, "to: one");
        log.push(Kind::Think, "hm");
        log.push(Kind::Think, "so");
        log.settle(12, 9);
        assert_eq!(shown(&log), ["to: one", "hm", "", "so"]);
    }
}
