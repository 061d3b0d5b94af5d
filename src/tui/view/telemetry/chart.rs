//! Bars: of rates over time, and of one share. As eighths of blocks, or as digits where those may not be there.

use super::super::super::theme::Role;
use super::row::{Piece, Row};

/// What stands where nothing is known.
pub const GAP: char = '·';

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What bars are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Blocks.
    Blocks,
    /// Tenths, as digits.
    Digits,
}

/// One character for a value between zero and `most`.
pub fn level(value: Option<f64>, most: f64, ink: Ink) -> char {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return GAP;
    };
    let share = if most > 0.0 { value / most } else { 0.0 };
    match ink {
        Ink::Blocks => {
            let eighths = (share * 8.0).ceil() as usize;
            EIGHTHS[eighths.clamp(1, 8) - 1]
        }
        Ink::Digits => {
            let tenths = (share * 10.0).floor().clamp(0.0, 9.0) as u8;
            char::from(b'0' + tenths)
        }
    }
}

/// A chart of one row.
pub fn line(values: &[Option<f64>], most: f64, ink: Ink) -> Row {
    let text: String = values.iter().map(|v| level(*v, most, ink)).collect();
    Row::text(text, Role::Plain)
}

/// A chart of several rows, from above.
pub fn tall(values: &[Option<f64>], most: f64, ink: Ink, rows: usize) -> Vec<Row> {
    let row = |from_below: usize| {
        let cell = |value: &Option<f64>| match value.filter(|value| value.is_finite()) {
            None if from_below == 0 => GAP,
            None => ' ',
            Some(value) => {
                let share = if most > 0.0 { value / most } else { 0.0 };
                let filled = share * rows as f64 - from_below as f64;
                match ink {
                    _ if filled <= 0.0 && from_below > 0 => ' ',
                    Ink::Blocks => level(Some(filled), 1.0, ink),
                    Ink::Digits if filled >= 0.5 => '#',
                    Ink::Digits => '_',
                }
            }
        };
        Row::text(values.iter().map(cell).collect::<String>(), Role::Plain)
    };
    (0..rows).rev().map(row).collect()
}

/// A bar over so many columns of which a share is filled.
pub fn filled(share: f64, columns: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(columns - full)
}

/// A bar of parts, each as long as its share and made of its letter.
pub fn parts(parts: &[(f64, char, Role)], columns: usize) -> Row {
    let whole: f64 = parts.iter().map(|part| part.0).sum();
    let mut begun = 0.0;
    let column = |at: f64| (at / whole.max(f64::MIN_POSITIVE) * columns as f64).round() as usize;
    let mut pieces = Vec::new();
    for &(part, letter, role) in parts {
        let (from, to) = (column(begun), column(begun + part));
        begun += part;
        let text: String = std::iter::repeat_n(letter, to - from).collect();
        pieces.push(Piece::new(text, role));
    }
    Row::pieces(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_no_zero() {
        let shown = |ink| [None, Some(0.0), Some(0.5), Some(1.0)].map(|v| level(v, 1.0, ink));
        assert_eq!(shown(Ink::Blocks), ['·', '▁', '▄', '█']);
        assert_eq!(shown(Ink::Digits), ['·', '0', '5', '9']);
        assert_eq!(level(Some(1.0), 0.0, Ink::Digits), '0');
        assert_eq!(level(Some(f64::NAN), 1.0, Ink::Digits), '·');
    }

    #[test]
    fn a_tall_chart_fills_from_below() {
        let values = [Some(1.0), Some(0.25), None, Some(0.0)];
        let text = |ink| {
            let rows = tall(&values, 1.0, ink, 2);
            rows.into_iter()
                .map(|row| format!("{row:?}"))
                .collect::<Vec<_>>()
        };
        let blocks = text(Ink::Blocks);
        assert!(blocks[0].contains("\"█   \""), "{blocks:?}");
        assert!(blocks[1].contains("\"█▄·▁\""), "{blocks:?}");
        let digits = text(Ink::Digits);
        assert!(digits[1].contains("\"##·_\""), "{digits:?}");
    }

    #[test]
    fn parts_fill_the_bar() {
        let row = parts(
            &[
                (1.0, 'T', Role::Plain),
                (0.001, 'E', Role::Plain),
                (3.0, 'C', Role::Plain),
            ],
            8,
        );
        let want =
            [("TT", 0), ("", 0), ("CCCCCC", 0)].map(|(text, _)| Piece::new(text, Role::Plain));
        assert_eq!(row, Row::pieces(want.into()));
        assert_eq!(filled(0.5, 4), "██░░");
        assert_eq!(
            parts(&[(0.0, 'T', Role::Plain)], 8),
            parts(&[(0.0, 'T', Role::Plain)], 0)
        );
    }
}
