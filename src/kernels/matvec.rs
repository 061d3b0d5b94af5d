//! Rows times one token: every weight is used once, so that reading it from memory is all it should cost.

use super::lanes::{Lanes, pad};
use super::rows::Row;
use super::{LINE, prefetch};

/// Rows at a time: eight vector sums keep the fused units busy, and four streams the memory.
const ROWS: usize = 4;

/// Bytes of rows, read at a time, that are short.
const SHORT: usize = 16 << 10;

/// `y[r] = Σ_i row(r)_i x_i` for every `r` of `y`.
#[inline(always)]
pub(super) fn matvec<const N: usize, R: Row<N>>(
    row: impl Fn(usize) -> R,
    x: &[f32],
    y: &mut [f32],
) {
    let parts = y.len() / ROWS;
    for b in 0..parts {
        let sums = dots(std::array::from_fn::<_, ROWS, _>(|i| row(i * parts + b)), x);
        for (i, sum) in sums.into_iter().enumerate() {
            y[i * parts + b] = sum;
        }
    }
    for r in ROWS * parts..y.len() {
        [y[r]] = dots([row(r)], x);
    }
}

/// The products of several rows with one token, each with lanes of its own.
#[inline(always)]
fn dots<const N: usize, const K: usize, R: Row<N>>(mut rows: [R; K], x: &[f32]) -> [f32; K] {
    let (full, tail) = x.as_chunks::<16>();
    let full = full.as_chunks::<N>().0;
    let units = full.len();
    for row in &mut rows {
        *row = row.part(0..units);
    }
    let mut sums = [Lanes::ZERO; K];
    for (u, x) in full.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(&rows) {
            let w = row.unit(u);
            for (w, x) in w.iter().zip(x) {
                sum.fuse(w, &Lanes(*x));
            }
        }
    }
    if let Some(x) = pad(tail, |v| v) {
        for (sum, row) in sums.iter_mut().zip(&rows) {
            if let Some(w) = row.tail() {
                sum.fuse(&w, &x);
            }
        }
    }
    sums.map(|sum| sum.reduce())
}

/// What is read next: the rows behind the ones that are computed, as many again. Where rows end before the machine has seen
/// where their streams go, the next ones are asked for meanwhile; in longer ones it sees further by itself.
struct Ahead {
    next: *const u8,
    /// Bytes to ask for with every unit of the rows; zero if nothing is.
    step: usize,
}

impl Ahead {
    /// What stands behind some neighbouring rows.
    #[inline(always)]
    fn of<const N: usize, R: Row<N>>(rows: &[R]) -> Self {
        let (first, unit) = rows[0].place();
        let step = rows.len() * unit;
        let bytes = rows[0].units() * step;
        Self {
            next: first.wrapping_add(bytes),
            step: if bytes <= SHORT { step } else { 0 },
        }
    }

    /// Asks for as much as one unit of all rows has.
    #[inline(always)]
    fn ask(&self, unit: usize) {
        for line in (0..self.step).step_by(LINE) {
            prefetch(self.next.wrapping_add(unit * self.step + line));
        }
    }
}
