//! Rows times several tokens: weights are widened once for a batch of tokens, and the lanes of every result stay open over
//! the whole row. Blocks of columns only put them aside; nothing is reduced before the row's end.

use super::lanes::{Half, Lanes};
use super::rows::Row;
use super::tokens::{TILE, Tokens};

/// Rows of a tile. Of its results with the tokens of a tile, eight lanes are summed at a time: with one vector of weights and
/// one for each token they just fit in sixteen vector registers.
pub(super) const ROWS: usize = 4;
/// Lanes of a block of columns: half of the widened weights of a tile and of three tokens stay in the first-level cache.
const BLOCK: usize = 64;
/// Tiles of tokens that share a widening. A block of their inputs stays in the second-level cache, and so do their open lanes.
const BATCH: usize = 16;

/// The open lanes of one token's results with a tile's rows, the lower halves first.
type Open = [[Half; ROWS]; 2];

/// Widened weights of a tile's rows, half by half.
type Panel = [[[Half; ROWS]; BLOCK]; 2];

/// `y[r][t] = Σ_i row(r)_i x[t][i]` for every row of `y`, which is `[rows][tokens]`.
#[inline(always)]
pub(super) fn matmat<const N: usize, R: Row<N>>(
    row: impl Fn(usize) -> R,
    tokens: &Tokens<'_>,
    y: &mut [f32],
) {
    let count = tokens.count();
    let rows = y.len() / count;
    let tiles = rows.div_ceil(ROWS);
    let chunks = tokens.columns().div_ceil(16);
    let mut panel: Panel = [[[Half::ZERO; ROWS]; BLOCK]; 2];
    let mut open = vec![[[Half::ZERO; ROWS]; 2]; tiles * count.min(BATCH * TILE)];
    for batch in (0..count.div_ceil(TILE)).step_by(BATCH) {
        let first = batch * TILE;
        let here = (count - first).min(BATCH * TILE);
        let x = tokens.tiles(batch, BATCH);
        let open = &mut open[..tiles * here];
        open.fill([[Half::ZERO; ROWS]; 2]);
        for start in (0..chunks).step_by(BLOCK) {
            let block = start..(start + BLOCK).min(chunks);
            for (tile, open) in open.chunks_exact_mut(here).enumerate() {
                for r in 0..ROWS {
                    // Behind the last row it is multiplied again; nobody looks at the result.
                    let row = row((tile * ROWS + r).min(rows - 1));
                    widen(row, r, block.clone(), &mut panel);
                }
                half::<0>(&panel, x, chunks, block.clone(), open);
                half::<1>(&panel, x, chunks, block.clone(), open);
            }
        }
        for (r, y) in y.chunks_exact_mut(count).enumerate() {
            let open = &open[r / ROWS * here..][..here];
            for (y, [low, high]) in y[first..].iter_mut().zip(open) {
                *y = low[r % ROWS].reduce_with(&high[r % ROWS]);
            }
        }
    }
}

/// A block of columns, one half of its lanes: a tile of rows with every tile of tokens. That half of the panel and of one tile's
/// inputs are what the first-level cache holds meanwhile.
#[inline(always)]
fn half<const H: usize>(
    panel: &Panel,
    x: &[Half],
    chunks: usize,
    block: std::ops::Range<usize>,
    open: &mut [Open],
) {
    let panel = &panel[H];
    for (open, x) in open.chunks_mut(TILE).zip(x.chunks(2 * TILE * chunks)) {
        let x = &x[H * x.len() / 2..][..x.len() / 2];
        match open {
            [a, b, c] => {
                let [a, b, c] = [a, b, c].map(|open| &mut open[H]);
                fuse(panel, &x.as_chunks::<TILE>().0[block.clone()], [a, b, c]);
            }
            [a, b] => {
                let [a, b] = [a, b].map(|open| &mut open[H]);
                fuse(panel, &x.as_chunks::<2>().0[block.clone()], [a, b]);
            }
            [a] => fuse(panel, &x.as_chunks::<1>().0[block.clone()], [&mut a[H]]),
            _ => {}
        }
    }
}

/// Row `r` of a tile, a block of lanes of it.
#[inline(always)]
fn widen<const N: usize, R: Row<N>>(
    row: R,
    r: usize,
    block: std::ops::Range<usize>,
    panel: &mut Panel,
) {
    let mut put = |c: usize, lanes: &Lanes| {
        panel[0][c][r] = Half::of(&lanes.0[..8]);
        panel[1][c][r] = Half::of(&lanes.0[8..]);
    };
    let units = block.start / N..(block.end / N).min(row.units());
    let mut c = 0;
    for u in units {
        for lanes in &row.unit(u) {
            put(c, lanes);
            c += 1;
        }
    }
    if let (true, Some(tail)) = (c < block.len(), row.tail()) {
        put(c, &tail);
    }
}

/// One tile of rows with one of tokens.
#[inline(always)]
fn fuse<const T: usize>(
    panel: &[[Half; ROWS]; BLOCK],
    x: &[[Half; T]],
    open: [&mut [Half; ROWS]; T],
) {
    let mut sums: [[Half; ROWS]; T] = std::array::from_fn(|t| *open[t]);
    for (w, x) in panel.iter().zip(x) {
        for r in 0..ROWS {
            for t in 0..T {
                sums[t][r].fuse(&w[r], &x[t]);
            }
        }
    }
    for (open, sums) in open.into_iter().zip(sums) {
        *open = sums;
    }
}
