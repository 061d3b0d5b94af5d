//! Rows times one token: every weight is used once, so that reading it from memory is all it should cost.

use super::lanes::{Lanes, pad};
use super::rows::Row;

/// Rows at a time: eight vector sums keep the fused units busy, and four streams the memory.
const ROWS: usize = 4;

/// `y[r] = Σ_i row(r)_i x_i` for every `r` of `y`.
#[inline(always)]
pub(super) fn matvec<const N: usize, R: Row<N>>(
    row: impl Fn(usize) -> R,
    x: &[f32],
    y: &mut [f32],
) {
    // Each of a quarter of its own. So every stream goes on for as long as the rows do, and memory hands them out faster than
    // it does one stream of everything.
    let quarter = y.len() / ROWS;
    for r in 0..quarter {
        let sums = dots(
            std::array::from_fn::<_, ROWS, _>(|i| row(i * quarter + r)),
            x,
        );
        for (i, sum) in sums.into_iter().enumerate() {
            y[i * quarter + r] = sum;
        }
    }
    for (r, y) in y.iter_mut().enumerate().skip(ROWS * quarter) {
        [*y] = dots([row(r)], x);
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
