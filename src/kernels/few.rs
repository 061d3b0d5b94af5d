//! Rows times a few tokens, as guesses are checked: weights still come from memory once, and no more is prepared than for one
//! token. Two rows go over three tokens at a time; the second three find the rows in the first-level cache.

use super::lanes::{Half, pad};
use super::matvec::Ahead;
use super::rows::Row;
use super::tokens::Tokens;

/// From more tokens on it is worth preparing panels, see [`super::matmat`].
pub(super) const FEW: usize = 5;
/// Rows at a time.
const ROWS: usize = 2;
/// Tokens at a time: with two rows their open lanes just fit in the vector registers.
const TOKENS: usize = 3;

/// `y[r][t] = Σ_i row(r)_i x[t][i]` for every row of `y`, which is `[rows][tokens]`.
#[inline(always)]
pub(super) fn few<const N: usize, R: Row<N>>(
    row: impl Fn(usize) -> R,
    tokens: &Tokens<'_>,
    y: &mut [f32],
) {
    let count = tokens.count();
    let last = (y.len() / count).saturating_sub(1);
    for (block, y) in y.chunks_mut(ROWS * count).enumerate() {
        // Behind the last row it is multiplied again; nobody looks at the result.
        let rows: [R; ROWS] = std::array::from_fn(|r| row((block * ROWS + r).min(last)));
        let mut ahead = Ahead::of(&rows);
        for first in (0..count).step_by(TOKENS) {
            let mut put = |t: usize, sums: [f32; ROWS]| {
                for (y, sum) in y.chunks_exact_mut(count).zip(sums) {
                    y[first + t] = sum;
                }
            };
            match count - first {
                1 => put(0, dots(rows, [tokens.one(first)], ahead)[0]),
                2 => {
                    let sums = dots(rows, [0, 1].map(|t| tokens.one(first + t)), ahead);
                    (0..2).for_each(|t| put(t, sums[t]));
                }
                _ => {
                    let sums = dots(rows, [0, 1, 2].map(|t| tokens.one(first + t)), ahead);
                    (0..3).for_each(|t| put(t, sums[t]));
                }
            }
            ahead = Ahead::NOTHING;
        }
    }
}

/// The products of two rows with `T` tokens, by token.
#[inline(always)]
fn dots<const N: usize, const T: usize, R: Row<N>>(
    mut rows: [R; ROWS],
    x: [&[f32]; T],
    ahead: Ahead,
) -> [[f32; ROWS]; T] {
    let whole = x.map(|x| x.as_chunks::<16>().0.as_chunks::<N>().0);
    let units = whole[0].len();
    let whole = whole.map(|x| &x[..units]);
    for row in &mut rows {
        *row = row.first(units);
    }
    let mut sums = [[[Half::ZERO; 2]; ROWS]; T];
    for u in 0..units {
        ahead.ask(u);
        let w = [rows[0].unit(u), rows[1].unit(u)];
        for n in 0..N {
            for h in 0..2 {
                let w = [w[0][n].half(h), w[1][n].half(h)];
                for (sums, x) in sums.iter_mut().zip(&whole) {
                    let x = Half::of(&x[u][n][8 * h..8 * h + 8]);
                    for (sums, w) in sums.iter_mut().zip(&w) {
                        sums[h].fuse(w, &x);
                    }
                }
            }
        }
    }
    for (sums, x) in sums.iter_mut().zip(x) {
        if let Some(x) = pad(x.as_chunks::<16>().1, |v| v) {
            for (sums, row) in sums.iter_mut().zip(&rows) {
                if let Some(w) = row.tail() {
                    for (h, sum) in sums.iter_mut().enumerate() {
                        sum.fuse(&w.half(h), &x.half(h));
                    }
                }
            }
        }
    }
    sums.map(|sums| sums.map(|[low, high]| low.reduce_with(&high)))
}
