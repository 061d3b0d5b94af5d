//! Rows times a few tokens, as guesses are checked and as experts get their share of a prompt. A block of columns of some rows
//! is gone over by all tokens while it is in the first-level cache. The sums of all results stay open from block to block, and
//! those of a tile in registers: its even lanes first, then its odd ones, so that twice as many results are open as with both.

use super::Bf16;
use super::lanes::Half;
use super::results::Results;
use super::rows::{Element, Row};
use super::tokens::Tokens;

/// From more tokens on it is worth turning rows into panels, see [`super::matmat`].
pub(super) const FEW: usize = 24;

/// Steps of a block: whole lanes.
pub(super) const STEPS: usize = 32;

/// Rows whose blocks are gone over together: with those of four tokens they take half of the first-level cache. A multiple of
/// the rows of every tile.
const ROWS: usize = 6;

/// Most tokens of a tile. With three rows its sums leave just what it takes to multiply in the vector registers.
const TILE: usize = 4;

/// `y[t][r] = Σ_i row(r)_i x[t][i]` for every row of `y`.
#[inline(always)]
pub(super) fn few<const N: usize, R: Row<N>>(
    row: impl Fn(usize) -> R,
    tokens: &Tokens<'_>,
    y: &mut Results<'_>,
) {
    let count = tokens.count();
    let last = y.rows().saturating_sub(1);
    let mut room: [[[Bf16; 16]; STEPS]; ROWS] = [[[[0; 2]; 16]; STEPS]; ROWS];
    // Of each row those of every token, of each the even lanes and the odd ones.
    let mut sums = [[Half::ZERO; 2]; ROWS * FEW];
    let sums = &mut sums[..ROWS * count];
    // As in products of one token: each row of a part of its own, which memory reads ahead.
    let part = y.rows().div_ceil(ROWS);
    for r in 0..part {
        // Behind the last row it is multiplied again; nobody looks at the result.
        let rows: [R; ROWS] = std::array::from_fn(|i| row((i * part + r).min(last)));
        sums.fill([Half::ZERO; 2]);
        let units = rows[0].units();
        for first in (0..units).step_by(STEPS / N) {
            let block = first..units.min(first + STEPS / N);
            let mut plain: [&[[R::Element; 16]]; ROWS] = [&[]; ROWS];
            for ((plain, row), room) in plain.iter_mut().zip(&rows).zip(&mut room) {
                *plain = row.part(block.clone()).plain(room);
            }
            strip(&plain, tokens, first * N, sums);
        }
        if let Some(step) = tokens.tail() {
            for (row, sums) in rows.iter().zip(sums.chunks_exact_mut(count)) {
                let Some(w) = row.tail() else { break };
                for (t, sums) in sums.iter_mut().enumerate() {
                    for (half, sum) in sums.iter_mut().enumerate() {
                        sum.fuse(
                            &Half::every_second(&w.0, half),
                            &tokens.halves(t, step, half)[0],
                        );
                    }
                }
            }
        }
        for t in 0..count {
            let y = y.token(t).iter_mut().skip(r).step_by(part);
            let sums = sums.iter().skip(t).step_by(count);
            for (y, [even, odd]) in y.zip(sums) {
                *y = even.reduce() + odd.reduce();
            }
        }
    }
}

/// A block of all rows, which begins at `step`, with all tokens.
#[inline(always)]
fn strip<E: Element>(
    rows: &[&[[E; 16]]; ROWS],
    tokens: &Tokens<'_>,
    step: usize,
    sums: &mut [[Half; 2]],
) {
    let tiles = tokens.count().div_ceil(TILE);
    // Of about one size, the larger ones first. Not by [`Tokens::tiles`]: with an iterator here eight tokens of bf16 were a
    // quarter slower.
    let (size, larger) = (tokens.count() / tiles, tokens.count() % tiles);
    let mut first = 0;
    for tile in 0..tiles {
        let size = size + usize::from(tile < larger);
        // Several tokens never make a tile of one.
        match size {
            TILE => tile_of::<3, TILE, E>(rows, tokens, first, step, sums),
            3 => tile_of::<3, 3, E>(rows, tokens, first, step, sums),
            _ => tile_of::<6, 2, E>(rows, tokens, first, step, sums),
        }
        first += size;
    }
}

/// A block of all rows, `K` at a time, with `T` tokens from `first` on.
#[inline(always)]
fn tile_of<const K: usize, const T: usize, E: Element>(
    rows: &[&[[E; 16]]; ROWS],
    tokens: &Tokens<'_>,
    first: usize,
    step: usize,
    sums: &mut [[Half; 2]],
) {
    let sums = sums.chunks_exact_mut(K * tokens.count());
    for (rows, sums) in rows.as_chunks::<K>().0.iter().zip(sums) {
        fuse::<0, K, T, E>(*rows, tokens, first, step, sums);
        fuse::<1, K, T, E>(*rows, tokens, first, step, sums);
    }
}

/// Adds the products of `K` rows with `T` tokens to their sums, every second lane from `H` on.
// Plain loops over arrays that no closure sees: only those stay in registers.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn fuse<const H: usize, const K: usize, const T: usize, E: Element>(
    mut rows: [&[[E; 16]]; K],
    tokens: &Tokens<'_>,
    first: usize,
    step: usize,
    sums: &mut [[Half; 2]],
) {
    let steps = rows[0].len();
    for row in &mut rows {
        *row = &row[..steps];
    }
    let mut xs: [&[Half]; T] = [&[]; T];
    for (t, x) in xs.iter_mut().enumerate() {
        *x = &tokens.halves(first + t, step, H)[..steps];
    }
    let mut open = [[Half::ZERO; T]; K];
    for k in 0..K {
        let sums = &sums[k * tokens.count() + first..][..T];
        for t in 0..T {
            open[k][t] = sums[t][H];
        }
    }
    for u in 0..steps {
        // Whatever is fewer stays in registers, the others come one by one.
        if K < T {
            let mut w = [Half::ZERO; K];
            for k in 0..K {
                w[k] = E::every_second::<H>(&rows[k][u]);
            }
            for t in 0..T {
                let x = xs[t][u];
                for k in 0..K {
                    open[k][t].fuse(&w[k], &x);
                }
            }
        } else {
            let mut x = [Half::ZERO; T];
            for t in 0..T {
                x[t] = xs[t][u];
            }
            for k in 0..K {
                let w = E::every_second::<H>(&rows[k][u]);
                for t in 0..T {
                    open[k][t].fuse(&w, &x[t]);
                }
            }
        }
    }
    for k in 0..K {
        let sums = &mut sums[k * tokens.count() + first..][..T];
        for t in 0..T {
            sums[t][H] = open[k][t];
        }
    }
}
