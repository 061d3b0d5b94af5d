//! A table: columns as wide as they need, or narrower with their cells wrapped.

use pulldown_cmark::Alignment;

use super::flat::{Flat, Look, Row};

/// Columns of what stands between two cells.
const BETWEEN: usize = 3;

/// The narrowest a column gets: a wide character fits.
const NARROWEST: usize = 2;

/// A table as it is read. The first row is its head.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Where the cells of each column stand.
    pub alignments: Vec<Alignment>,
    /// Its cells, row by row.
    pub rows: Vec<Vec<Flat>>,
}

impl Table {
    /// Its rows at a width; none if it has more columns than fit.
    pub fn rows(&self, width: usize) -> Option<Vec<Row>> {
        let widths = self.widths(width)?;
        let mut rows = Vec::new();
        for (index, cells) in self.rows.iter().enumerate() {
            rows.extend(self.row(cells, &widths));
            if index == 0 {
                let mut rule = Row {
                    source: rows.last().map_or(0, |row| row.source),
                    ..Row::default()
                };
                let bars: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
                rule.push(&bars.join("─┼─"), Look::MARK);
                rows.push(rule);
            }
        }
        Some(rows)
    }

    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let columns = self.alignments.len();
        let room = width.checked_sub(BETWEEN * columns.saturating_sub(1))?;
        if columns == 0 || room < NARROWEST * columns {
            return None;
        }
        let need = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(Flat::width)
                .max()
                .unwrap_or(0)
                .clamp(NARROWEST, room.max(NARROWEST))
        };
        let mut widths: Vec<usize> = (0..columns).map(need).collect();
        // What does not fit is taken from the widest, so that narrow columns stay whole.
        let mut over = widths.iter().sum::<usize>().saturating_sub(room);
        while over > 0 {
            let widest = widths.iter_mut().max()?;
            *widest -= 1;
            over -= 1;
        }
        Some(widths)
    }

    fn row(&self, cells: &[Flat], widths: &[usize]) -> Vec<Row> {
        let wrapped: Vec<Vec<Row>> = (0..widths.len())
            .map(|column| {
                cells
                    .get(column)
                    .map_or(Vec::new(), |cell| cell.rows(widths[column]))
            })
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let source = wrapped.iter().flatten().map(|row| row.source).min();
        let line = |line: usize| {
            let mut row = Row {
                source: source.unwrap_or(0),
                ..Row::default()
            };
            for (column, rows) in wrapped.iter().enumerate() {
                if column > 0 {
                    row.push(" │ ", Look::MARK);
                }
                let empty = Row::default();
                let cell = rows.get(line).unwrap_or(&empty);
                let blanks = widths[column].saturating_sub(cell.width());
                let left = match self.alignments.get(column) {
                    Some(Alignment::Right) => blanks,
                    Some(Alignment::Center) => blanks / 2,
                    _ => 0,
                };
                row.push(&" ".repeat(left), Look::default());
                for span in &cell.spans {
                    row.push(&span.text, span.look);
                }
                let last = column + 1 == wrapped.len();
                row.push(
                    &" ".repeat(if last { 0 } else { blanks - left }),
                    Look::default(),
                );
            }
            row
        };
        (0..height).map(line).collect()
    }
}
