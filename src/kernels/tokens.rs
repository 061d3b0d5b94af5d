//! What a matrix is multiplied with: one token as it is, or several in the order in which a product of many reads them.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use super::few::FEW;
use super::lanes::Half;
#[cfg(target_arch = "x86_64")]
use super::mxfp4::woven::{self, Woven};

/// Tokens of a tile.
pub(super) const TILE: usize = 3;

/// One token or several, all of one length.
pub struct Tokens<'a> {
    /// As they came, `[tokens][columns]`.
    flat: &'a [f32],
    columns: usize,
    /// Of more than a few: tiles of three and the rest, in each the lower halves of its lanes and then the upper ones; of either the
    /// same eight elements of all its tokens side by side, the tail padded with zeros. Each is read from end to end so, which
    /// is what processors read ahead.
    tiled: Vec<Half>,
    /// Of one, for packed rows: made when the first of them is multiplied.
    #[cfg(target_arch = "x86_64")]
    woven: OnceLock<Vec<Woven>>,
}

impl<'a> Tokens<'a> {
    /// `x` is `[tokens][columns]`.
    pub fn new(x: &'a [f32], columns: usize) -> Self {
        let mut tiled = Vec::new();
        if x.len() > FEW * columns {
            let chunks = columns.div_ceil(16);
            tiled.reserve_exact(x.len() / columns * chunks * 2);
            for tile in x.chunks(TILE * columns) {
                for half in [0, 8] {
                    for c in 0..chunks {
                        let tokens = tile.chunks_exact(columns);
                        tiled.extend(tokens.map(|x| eight(x, 16 * c + half)));
                    }
                }
            }
        }
        Self {
            flat: x,
            columns,
            tiled,
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

    /// Where there are more than a few, those of the tiles from `tile` on, at most `tiles` of them.
    pub(super) fn tiles(&self, tile: usize, tiles: usize) -> &[Half] {
        let size = 2 * TILE * self.columns.div_ceil(16);
        let end = ((tile + tiles) * size).min(self.tiled.len());
        &self.tiled[tile * size..end]
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
