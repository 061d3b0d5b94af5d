//! Rows times one token: every weight is used once, so that reading it from memory is all it should cost.

use super::lanes::{Lanes, pad};
use super::prefetch;
use super::rows::Row;

/// Rows at a time: eight vector sums keep the fused units busy, and four streams the memory.
pub(super) const ROWS: usize = 4;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of rows, read at a time, that end before the machine has seen where their streams go: the next ones are asked for
/// while these are computed. In longer rows it sees further by itself.
const SHORT: usize = 16 << 10;

/// `y[r] = Σ_i row(r)_i x_i` for every `r` of `y`.
#[inline(always)]
pub(super) fn matvec<const N: usize, R: Row<N>>(
    row: impl Fn(usize) -> R,
    x: &[f32],
    y: &mut [f32],
) {
    let (blocks, rest) = y.as_chunks_mut::<ROWS>();
    let done = blocks.len() * ROWS;
    for (b, y) in blocks.iter_mut().enumerate() {
        *y = dots(std::array::from_fn::<_, ROWS, _>(|i| row(b * ROWS + i)), x);
    }
    for (r, y) in rest.iter_mut().enumerate() {
        [*y] = dots([row(done + r)], x);
    }
}

/// The products of several rows with one token, each with lanes of its own.
#[inline(always)]
fn dots<const N: usize, const K: usize, R: Row<N>>(mut rows: [R; K], x: &[f32]) -> [f32; K] {
    let (full, tail) = x.as_chunks::<16>();
    let full = full.as_chunks::<N>().0;
    let units = full.len();
    for row in &mut rows {
        *row = row.first(units);
    }
    // The next rows stand behind these.
    let (first, unit) = rows[0].place();
    let step = K * unit;
    let next = first.wrapping_add(units * step);
    let short = units * step <= SHORT;
    let mut sums = [Lanes::ZERO; K];
    for (u, x) in full.iter().enumerate() {
        if short {
            for line in (0..step).step_by(LINE) {
                prefetch(next.wrapping_add(u * step + line));
            }
        }
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
