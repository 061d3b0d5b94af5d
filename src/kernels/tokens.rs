//! What a matrix is multiplied with: one token as it is, or several in the order in which a product of many reads them.

use std::borrow::Cow;
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use super::few::{FEW, STEPS};
use super::lanes::{Half, split};
use super::matmat::ORDER;
#[cfg(target_arch = "x86_64")]
use super::mxfp4::woven::{self, Woven};

/// Most tokens of a tile: with sixteen rows their sums take twelve of sixteen vector registers.
pub(super) const TILE: usize = 6;

/// One token or several, all of one length.
pub struct Tokens<'a> {
    /// As they came, `[tokens][columns]`.
    flat: &'a [f32],
    count: usize,
    columns: usize,
    /// Of more than a few: lane by lane in [`ORDER`], of each tile by tile, of each its elements in ascending order, of all its
    /// tokens side by side. Zeros stand behind the tokens' end.
    lanes: Cow<'a, [f32]>,
    /// Of a few: block by block of columns, of each token by token, of each its even lanes and then its odd ones. Zeros stand
    /// behind a token's end.
    blocks: Vec<Half>,
    /// Of one, for packed rows: made when the first of them is multiplied.
    #[cfg(target_arch = "x86_64")]
    woven: OnceLock<Vec<Woven>>,
}

/// A tile that has a place among the lanes, but has not taken it yet.
pub struct Unplaced<'a> {
    /// `[tokens][columns]`.
    x: &'a [f32],
    columns: usize,
    /// Its place in every lane, `[steps][tokens]`.
    places: [&'a mut [f32]; 16],
}

impl Unplaced<'_> {
    /// Puts its elements there, and zeros behind their end.
    pub fn place(mut self) {
        let count = self.x.len() / self.columns;
        for (t, x) in self.x.chunks_exact(self.columns).enumerate() {
            for (step, x) in x.chunks(16).enumerate() {
                for (lane, place) in ORDER.iter().zip(&mut self.places) {
                    place[step * count + t] = x.get(*lane).copied().unwrap_or(0.0);
                }
            }
        }
    }
}

impl<'a> Tokens<'a> {
    /// `x` is `[tokens][columns]`.
    pub fn new(x: &'a [f32], columns: usize) -> Self {
        let mut tokens = Self::flat(x, columns);
        let mut lanes = vec![0.0; Self::room(tokens.count, columns)];
        tokens.lay_out(&mut lanes, |tiles| {
            tiles.into_iter().for_each(Unplaced::place);
        });
        tokens.lanes = Cow::Owned(lanes);
        tokens
    }

    /// [`Self::new`] in `room`, which has [`Self::room`] numbers.
    pub fn placed_in(x: &'a [f32], columns: usize, room: &'a mut [f32]) -> Self {
        Self::placed_by(x, columns, room, |tiles| {
            tiles.into_iter().for_each(Unplaced::place);
        })
    }

    /// [`Self::placed_in`] where `place` has every tile placed, by several threads, say. There are no tiles of a few tokens.
    pub fn placed_by(
        x: &'a [f32],
        columns: usize,
        room: &'a mut [f32],
        place: impl FnOnce(Vec<Unplaced<'_>>),
    ) -> Self {
        let mut tokens = Self::flat(x, columns);
        tokens.lay_out(room, place);
        tokens.lanes = Cow::Borrowed(room);
        tokens
    }

    /// Numbers that the lanes of so many tokens take.
    pub fn room(count: usize, columns: usize) -> usize {
        match count > FEW {
            true => ORDER.len() * stride(count, columns),
            false => 0,
        }
    }

    fn flat(x: &'a [f32], columns: usize) -> Self {
        let count = x.len() / columns;
        Self {
            flat: x,
            count,
            columns,
            lanes: Cow::Borrowed(&[]),
            blocks: match (2..=FEW).contains(&count) {
                true => blocks(x, columns),
                false => Vec::new(),
            },
            #[cfg(target_arch = "x86_64")]
            woven: OnceLock::new(),
        }
    }

    fn lay_out(&self, room: &mut [f32], place: impl FnOnce(Vec<Unplaced<'_>>)) {
        if self.count <= FEW {
            return;
        }
        let (columns, steps) = (self.columns, self.steps());
        let mut rest = room.chunks_exact_mut(stride(self.count, columns));
        let mut rest: [&mut [f32]; 16] = std::array::from_fn(|_| rest.next().unwrap_or_default());
        let tile = |tile: Range<usize>| Unplaced {
            x: &self.flat[tile.start * columns..tile.end * columns],
            columns,
            places: rest.each_mut().map(|rest| {
                let (place, behind) = std::mem::take(rest).split_at_mut(tile.len() * steps);
                *rest = behind;
                place
            }),
        };
        place(self.tiles().map(tile).collect());
    }

    /// Of more than a few, the tokens of each tile in order. They are of about one size, since small ones leave the fused units
    /// waiting.
    pub(super) fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let count = self.count();
        let tiles = count.div_ceil(TILE);
        let border = move |tile: usize| tile * count / tiles;
        (0..tiles).map(move |tile| border(tile)..border(tile + 1))
    }

    /// Elements of a lane of some tiles.
    #[inline(always)]
    pub(super) fn lane(&self, lane: usize, tokens: Range<usize>) -> &[f32] {
        let (stride, steps) = (stride(self.count, self.columns), self.steps());
        &self.lanes[lane * stride..][tokens.start * steps..tokens.end * steps]
    }

    /// Elements of a token in a lane.
    pub(super) fn steps(&self) -> usize {
        self.columns.div_ceil(16)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Elements of each.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The elements of one.
    pub(super) fn one(&self, token: usize) -> &[f32] {
        &self.flat[token * self.columns..][..self.columns]
    }

    /// Of a few, every second lane of one from `half` on, from a step to the end of its block.
    #[inline(always)]
    pub(super) fn halves(&self, token: usize, step: usize, half: usize) -> &[Half] {
        let behind = step % STEPS;
        let begin = step - behind;
        let length = STEPS.min(self.steps() - begin);
        let place = 2 * begin * self.count() + (2 * token + half) * length;
        &self.blocks[place..][behind..length]
    }

    /// The step that is not whole, if there is one: the last.
    pub(super) fn tail(&self) -> Option<usize> {
        let whole = self.columns / 16;
        (whole < self.steps()).then_some(whole)
    }

    /// Where there is one, its elements in the order in which packed rows are decoded.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn woven(&self) -> &[Woven] {
        self.woven.get_or_init(|| woven::weave(self.flat))
    }
}

/// From one lane to the next: more than it has, so that the same place of all lanes is not the same place in the cache.
fn stride(count: usize, columns: usize) -> usize {
    count * columns.div_ceil(16) + 16
}

/// Tokens, `[tokens][columns]`, as [`Tokens::blocks`] has them.
fn blocks(x: &[f32], columns: usize) -> Vec<Half> {
    let mut blocks = Vec::with_capacity(x.len() / columns * columns.div_ceil(16) * 2);
    for first in (0..columns).step_by(16 * STEPS) {
        for x in x.chunks_exact(columns) {
            let (whole, tail) = split(&x[first..columns.min(first + 16 * STEPS)]);
            for half in 0..2 {
                blocks.extend(whole.iter().map(|x| Half::every_second(x, half)));
                blocks.extend(tail.map(|x| Half::every_second(&x.0, half)));
            }
        }
    }
    blocks
}
