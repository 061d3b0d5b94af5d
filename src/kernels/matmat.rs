//! Rows times several tokens: weights are widened once for a batch of tokens, and the lanes of every result stay open over
//! the whole row. Blocks of columns only put them aside; nothing is reduced before the row's end.

use std::ops::Range;

use super::lanes::{Half, Lanes};
use super::rows::Row;
use super::tokens::{BATCH, BLOCK, TILE, Tokens};
use super::{LINE, prefetch};

/// Rows of a tile. Of its results with the tokens of a tile, eight lanes are summed at a time: with one vector of weights and
/// one for each token they just fit in sixteen vector registers.
pub(super) const ROWS: usize = 4;

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
    let lanes = tokens.columns().div_ceil(16);
    // Behind the last row it is multiplied again; nobody looks at the result.
    let tile_rows = |tile: usize| -> [R; ROWS] {
        std::array::from_fn(|r| row((tile * ROWS + r).min(rows - 1)))
    };
    let mut panel: Panel = [[[Half::ZERO; ROWS]; BLOCK]; 2];
    let mut open: Vec<Open> = Vec::with_capacity(tiles * count.min(BATCH));
    for (batch, first) in tokens.prepared().iter().zip((0..).step_by(BATCH)) {
        let here = (count - first).min(BATCH);
        open.clear();
        open.resize(tiles * here, [[Half::ZERO; ROWS]; 2]);
        for (x, start) in batch.blocks(here).zip((0..).step_by(BLOCK)) {
            let block = start..(start + BLOCK).min(lanes);
            // The next block's inputs, a part with every tile of rows.
            let steps = 2 * here.div_ceil(TILE);
            let end = x.as_ptr_range().end.cast();
            let mut inputs = Coming::new([end], size_of_val(x), steps * tiles);
            for (tile, open) in open.chunks_exact_mut(here).enumerate() {
                for (r, row) in tile_rows(tile).into_iter().enumerate() {
                    widen(row, r, block.clone(), &mut panel);
                }
                let mut weights = match tile + 1 < tiles {
                    true => Coming::weights(tile_rows(tile + 1), block.clone(), steps),
                    false => {
                        Coming::weights(tile_rows(0), block.end..block.end + block.len(), steps)
                    }
                };
                let (lower, upper) = x.split_at(x.len() / 2);
                for (panel, h, x) in [(&panel[0], 0, lower), (&panel[1], 1, upper)] {
                    for (open, x) in open.chunks_mut(TILE).zip(x.chunks(TILE * block.len())) {
                        inputs.ask();
                        weights.ask();
                        fuse_tile(panel, h, x, open);
                    }
                }
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

/// What is read next, asked for in small parts while something else is computed, so that it is there when its time comes.
struct Coming<const K: usize> {
    /// Places of as many bytes each.
    places: [*const u8; K],
    bytes: usize,
    /// Bytes of a part, whole lines.
    part: usize,
    asked: usize,
}

impl<const K: usize> Coming<K> {
    /// In so many parts.
    #[inline(always)]
    fn new(places: [*const u8; K], bytes: usize, parts: usize) -> Self {
        Self {
            places,
            bytes,
            part: bytes.div_ceil(parts * LINE) * LINE,
            asked: 0,
        }
    }

    /// Asks for the next part.
    #[inline(always)]
    fn ask(&mut self) {
        let end = (self.asked + self.part).min(self.bytes);
        for at in (self.asked..end).step_by(LINE) {
            for place in self.places {
                prefetch(place.wrapping_add(at));
            }
        }
        self.asked = end;
    }
}

impl Coming<ROWS> {
    /// A block of columns of some rows; behind their end nothing that matters.
    #[inline(always)]
    fn weights<const N: usize, R: Row<N>>(
        rows: [R; ROWS],
        block: Range<usize>,
        parts: usize,
    ) -> Self {
        let mut places = [std::ptr::null(); ROWS];
        let mut bytes = 0;
        for (place, row) in places.iter_mut().zip(rows) {
            let (begin, unit) = row.place();
            *place = begin.wrapping_add(block.start / N * unit);
            bytes = block.len() / N * unit;
        }
        Self::new(places, bytes, parts)
    }
}

/// A block of columns, half `h` of its lanes: a tile of rows with a tile of tokens.
#[inline(always)]
fn fuse_tile(panel: &[[Half; ROWS]; BLOCK], h: usize, x: &[Half], open: &mut [Open]) {
    match open {
        [a, b, c] => fuse(panel, x.as_chunks().0, [&mut a[h], &mut b[h], &mut c[h]]),
        [a, b] => fuse(panel, x.as_chunks().0, [&mut a[h], &mut b[h]]),
        [a] => fuse(panel, x.as_chunks().0, [&mut a[h]]),
        _ => {}
    }
}

/// Row `r` of a tile, a block of lanes of it.
#[inline(always)]
fn widen<const N: usize, R: Row<N>>(row: R, r: usize, block: Range<usize>, panel: &mut Panel) {
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
