//! Rows of a weight matrix as the products see them: lanes of f32, whatever form they are stored in.

use super::lanes::{Lanes, pad};
use super::mxfp4::{Decode, GROUP};

/// One row. `N` is how many lanes come out of one unit of what is stored.
pub(super) trait Row<const N: usize>: Copy {
    /// Whole units.
    fn units(&self) -> usize;
    /// The first `units` of it: said once, so that loops over several rows need no checks.
    fn first(self, units: usize) -> Self;
    /// Unit `u`, widened.
    fn unit(&self, u: usize) -> [Lanes; N];
    /// Where it begins in memory, and how many bytes a unit takes there.
    fn place(&self) -> (*const u8, usize);
    /// What is left behind the whole units, padded with zeros.
    fn tail(&self) -> Option<Lanes>;
}

/// A row of plain numbers.
#[derive(Clone, Copy)]
pub(super) struct Plain<'a, E, W> {
    full: &'a [[E; 16]],
    tail: &'a [E],
    widen: W,
}

impl<'a, E, W> Plain<'a, E, W> {
    #[inline(always)]
    pub fn new(row: &'a [E], widen: W) -> Self {
        let (full, tail) = row.as_chunks();
        Self { full, tail, widen }
    }
}

impl<E: Copy, W: Fn(E) -> f32 + Copy> Row<1> for Plain<'_, E, W> {
    #[inline(always)]
    fn units(&self) -> usize {
        self.full.len()
    }

    #[inline(always)]
    fn first(self, units: usize) -> Self {
        let full = &self.full[..units];
        Self { full, ..self }
    }

    #[inline(always)]
    fn unit(&self, u: usize) -> [Lanes; 1] {
        [Lanes(self.full[u].map(self.widen))]
    }

    #[inline(always)]
    fn place(&self) -> (*const u8, usize) {
        (self.full.as_ptr().cast(), size_of::<[E; 16]>())
    }

    #[inline(always)]
    fn tail(&self) -> Option<Lanes> {
        pad(self.tail, self.widen)
    }
}

/// A row of four-bit groups. There is no tail: rows are whole groups.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a, D> {
    pub groups: &'a [[u8; GROUP / 2]],
    pub scales: &'a [u8],
    pub decode: D,
}

impl<D: Decode> Row<2> for Packed<'_, D> {
    #[inline(always)]
    fn units(&self) -> usize {
        self.scales.len()
    }

    #[inline(always)]
    fn first(self, units: usize) -> Self {
        Self {
            groups: &self.groups[..units],
            scales: &self.scales[..units],
            ..self
        }
    }

    #[inline(always)]
    fn unit(&self, u: usize) -> [Lanes; 2] {
        self.decode.group(&self.groups[u], self.scales[u])
    }

    #[inline(always)]
    fn place(&self) -> (*const u8, usize) {
        (self.groups.as_ptr().cast(), GROUP / 2)
    }

    #[inline(always)]
    fn tail(&self) -> Option<Lanes> {
        None
    }
}
