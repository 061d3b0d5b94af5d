//! Rows times several tokens. Each lane of the sixteen in which a result is summed is a product of its own, of sixteen rows
//! with a tile of tokens, in registers from the first element to the last; then it joins the lanes that it is reduced with. So
//! the sixteen sums of a result are never open at once.

use std::cell::Cell;
use std::ops::Range;

use super::few::FEW;
use super::lanes::Lanes;
use super::panel::Panel;
use super::results::Results;
use super::rows::Row;
use super::tokens::{TILE, Tokens};
use super::turn::{ROWS, Turn};

/// The order in which lanes are summed, such that each joins what stands before it: one lane the one before, two the two before,
/// and so on. It is reducing by halves.
pub(super) const ORDER: [usize; 16] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];

/// Sums of a result that wait for others in that order, with the newest.
const WAITING: usize = 5;

/// Panels that go over a tile of tokens while it is in the first-level cache.
const PANELS: usize = 2;

/// Rows that go over the tokens together.
pub(super) const TOGETHER: usize = PANELS * ROWS;

/// Tokens of a batch: the sums of all its results stay in the second-level cache.
const BATCH: usize = 16 * TILE;

thread_local! {
    /// Room for panels and sums. Nothing in it outlives a product; it is only not allocated anew for each.
    static ROOM: Cell<Vec<Lanes>> = const { Cell::new(Vec::new()) };
}

/// Elements that the room for rows of so many columns has.
fn room(panel: Panel) -> usize {
    PANELS * (panel.size() + WAITING * BATCH)
}

/// Bytes that a thread keeps to multiply several tokens in, once it has had rows of so many columns.
pub fn room_bytes(columns: usize) -> usize {
    room(Panel::new(columns.div_ceil(16))) * size_of::<Lanes>()
}

/// `y[t][r] = Σ_i row(r)_i x[t][i]` for every row of `y`.
#[inline(always)]
pub(super) fn matmat<const N: usize, R: Row<N>>(
    set: impl Turn,
    row: impl Fn(usize) -> R,
    tokens: &Tokens<'_>,
    y: &mut Results<'_>,
) {
    let rows = y.rows();
    let tiles: Vec<Range<usize>> = tokens.tiles().collect();
    let panel = Panel::new(tokens.steps());
    let mut space = ROOM.take();
    if space.len() < room(panel) {
        space.resize(room(panel), Lanes::ZERO);
    }
    let (panels, sums) = space.split_at_mut(PANELS * panel.size());
    for begin in (0..rows).step_by(TOGETHER) {
        let end = rows.min(begin + TOGETHER);
        let panels = &mut panels[..(end - begin).div_ceil(ROWS) * panel.size()];
        for (p, room) in panels.chunks_exact_mut(panel.size()).enumerate() {
            // Behind the last row it is taken again; nobody looks at the result.
            let first = begin + p * ROWS;
            let rows = std::array::from_fn(|r| row((first + r).min(rows - 1)));
            panel.fill(room, rows, set);
        }
        for tiles in tiles.chunks(BATCH / TILE) {
            let batch = tiles[0].start..tiles[tiles.len() - 1].end;
            batch_sums(panel, panels, tokens, tiles, sums);
            for (t, token) in batch.clone().enumerate() {
                let y = &mut y.token(token)[begin..end];
                let (whole, rest) = y.as_chunks_mut::<ROWS>();
                let sums_of = |panel: usize| &sums[panel * batch.len() + t].0;
                for (p, y) in whole.iter_mut().enumerate() {
                    *y = *sums_of(p);
                }
                if !rest.is_empty() {
                    rest.copy_from_slice(&sums_of(whole.len())[..rest.len()]);
                }
            }
        }
    }
    ROOM.set(space);
}

/// The products of some panels with a batch of tokens, which are `tiles`. `sums` has room for all that wait; it begins with the
/// results, of each panel those of every token, of each those of sixteen rows.
#[inline(always)]
fn batch_sums(
    panel: Panel,
    panels: &[Lanes],
    tokens: &Tokens<'_>,
    tiles: &[Range<usize>],
    sums: &mut [Lanes],
) {
    let first = tiles[0].start;
    let count = tiles[tiles.len() - 1].end - first;
    let height = panels.len() / panel.size() * count;
    for lane in 0..ORDER.len() {
        for tile in tiles {
            let x = tokens.lane(lane, tile.clone());
            let mut at = tile.start - first;
            for room in panels.chunks_exact(panel.size()) {
                let weights = panel.lane(room, lane);
                let sums = &mut sums[at..];
                // More than a few tokens never make smaller ones, see `Tokens::tiles`.
                const { assert!(FEW >= 4 * TILE) };
                match tile.len() {
                    TILE => fuse::<TILE>(lane, weights, x, sums, height),
                    _ => fuse::<{ TILE - 1 }>(lane, weights, x, sums, height),
                }
                at += count;
            }
        }
    }
}

/// A lane of sixteen rows with that of a tile of `T` tokens, joined with those that wait for it: they stand at the beginning of
/// `sums` and then `height` apart.
#[inline(always)]
fn fuse<const T: usize>(
    lane: usize,
    weights: &[Lanes],
    x: &[f32],
    sums: &mut [Lanes],
    height: usize,
) {
    let mut open = [Lanes::ZERO; T];
    for (w, x) in weights.iter().zip(x.as_chunks::<T>().0) {
        for (open, x) in open.iter_mut().zip(x) {
            for (open, w) in open.0.iter_mut().zip(&w.0) {
                *open = w.mul_add(*x, *open);
            }
        }
    }
    // As in counting: a lane waits for each one in its number, and joins as many as ones change to zeros behind it.
    let mut waiting = lane.count_ones() as usize;
    for _ in 0..lane.trailing_ones() {
        waiting -= 1;
        for (open, earlier) in open.iter_mut().zip(&sums[waiting * height..][..T]) {
            for (open, earlier) in open.0.iter_mut().zip(&earlier.0) {
                *open += earlier;
            }
        }
    }
    sums[waiting * height..][..T].copy_from_slice(&open);
}
