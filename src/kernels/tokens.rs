//! What a matrix is multiplied with: one token as it is, or several in the order in which a product of many reads them.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use super::few::FEW;
use super::lanes::Half;
#[cfg(target_arch = "x86_64")]
use super::mxfp4::woven::{self, Woven};

/// Tokens of a tile.
pub(super) const TILE: usize = 3;
/// Lanes of a block of columns: half of the widened weights of a few rows and of a tile's inputs stay in the first-level cache.
pub(super) const BLOCK: usize = 64;
/// Tokens of a batch, which share a widening of the weights. A block of their inputs stays in the second-level cache, and so do
/// their open lanes.
pub(super) const BATCH: usize = 16 * TILE;

/// One token or several, all of one length.
pub struct Tokens<'a> {
    /// As they came, `[tokens][columns]`.
    flat: &'a [f32],
    columns: usize,
    /// Of more than a few: what [`Self::batches`] cuts them into.
    batches: Vec<Batch>,
    /// Of one, for packed rows: made when the first of them is multiplied.
    #[cfg(target_arch = "x86_64")]
    woven: OnceLock<Vec<Woven>>,
}

/// Several tokens in the order in which they are multiplied: block by block of columns, in each the lower halves of its lanes
/// and then the upper ones, in either tile by tile, of a tile the same eight elements of all its tokens side by side, the
/// tail padded with zeros. So each block is read from end to end, which is what processors read ahead.
pub struct Batch(Vec<Half>);

impl Batch {
    /// `x` is what [`Tokens::batches`] gives.
    pub fn new(x: &[f32], columns: usize) -> Self {
        let lanes = columns.div_ceil(16);
        let mut halves = Vec::with_capacity(2 * lanes * (x.len() / columns));
        for start in (0..lanes).step_by(BLOCK) {
            for half in [0, 8] {
                for tile in x.chunks(TILE * columns) {
                    for c in start..(start + BLOCK).min(lanes) {
                        let tokens = tile.chunks_exact(columns);
                        halves.extend(tokens.map(|x| eight(x, 16 * c + half)));
                    }
                }
            }
        }
        Self(halves)
    }

    /// Its blocks of columns, of which each but the last has [`BLOCK`] lanes; `tokens` are as many as it has.
    pub(super) fn blocks(&self, tokens: usize) -> std::slice::Chunks<'_, Half> {
        self.0.chunks(2 * BLOCK * tokens)
    }
}

impl<'a> Tokens<'a> {
    /// `x` is `[tokens][columns]`.
    pub fn new(x: &'a [f32], columns: usize) -> Self {
        let batches = Self::batches(x, columns).map(|x| Batch::new(x, columns));
        Self::of(x, columns, batches.collect())
    }

    /// What there is to prepare of `x`, each on its own; nothing of a few tokens.
    pub fn batches(x: &'a [f32], columns: usize) -> std::slice::Chunks<'a, f32> {
        let prepared = match x.len() > FEW * columns {
            true => x,
            false => &[],
        };
        prepared.chunks(BATCH * columns)
    }

    /// `x` with all its batches in order.
    pub fn of(x: &'a [f32], columns: usize, batches: Vec<Batch>) -> Self {
        Self {
            flat: x,
            columns,
            batches,
            #[cfg(target_arch = "x86_64")]
            woven: OnceLock::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.flat.len() / self.columns
    }

    /// Elements of each.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The elements of one.
    pub(super) fn one(&self, token: usize) -> &[f32] {
        &self.flat[token * self.columns..][..self.columns]
    }

    /// Where there is one, its elements in the order in which packed rows are decoded.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn woven(&self) -> &[Woven] {
        self.woven.get_or_init(|| woven::weave(self.flat))
    }

    /// Where there are more than a few, what they were cut into.
    pub(super) fn prepared(&self) -> &[Batch] {
        &self.batches
    }
}

/// Eight elements of a token from `first` on, zeros behind its end.
#[inline(always)]
fn eight(x: &[f32], first: usize) -> Half {
    let mut half = Half::ZERO;
    let here = x.get(first..).unwrap_or_default();
    for (half, x) in half.0.iter_mut().zip(here) {
        *half = *x;
    }
    half
}
