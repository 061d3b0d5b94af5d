//! Rows of a weight matrix as the products see them: lanes of f32, whatever form they are stored in.

use super::lanes::{Lanes, pad};
use super::mxfp4::{Decode, GROUP};
use super::widen;

/// Columns of a block, as many as a group of packed ones has.
pub(super) const BLOCK: usize = GROUP;

/// Half of the bits of as many f32 as a block has.
#[derive(Clone, Copy)]
pub(super) struct Bits(pub [u16; BLOCK]);

impl Bits {
    pub const ZERO: Self = Self([0; BLOCK]);
}

/// One row. `N` is how many lanes come out of one unit of what is stored.
pub(super) trait Row<const N: usize>: Copy {
    /// Whether its numbers have nothing in the lower half of their bits.
    const NARROW: bool;
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
    /// A block of its columns, zeros behind its end: the upper halves of the widened numbers' bits, and the lower ones.
    fn bits(&self, block: usize) -> [Bits; 2];
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
    const NARROW: bool = size_of::<E>() == 2;

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

    #[inline(always)]
    fn bits(&self, block: usize) -> [Bits; 2] {
        let mut halves = [Bits::ZERO; 2];
        let mut put = |i: usize, element: E| {
            let bits = (self.widen)(element).to_bits();
            halves[0].0[i] = (bits >> 16) as u16;
            halves[1].0[i] = bits as u16;
        };
        let full = &self.full[block * (BLOCK / 16)..];
        match full.as_flattened().first_chunk::<BLOCK>() {
            Some(whole) => (0..BLOCK).for_each(|i| put(i, whole[i])),
            None => {
                let rest = full.as_flattened().iter().chain(self.tail);
                rest.enumerate().for_each(|(i, e)| put(i, *e));
            }
        }
        halves
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
    const NARROW: bool = true;

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
        let Bits(group) = self.decode.group(&self.groups[u], self.scales[u]);
        let mut lanes = [Lanes::ZERO; 2];
        for (lanes, bits) in lanes.iter_mut().zip(group.as_chunks::<16>().0) {
            for (lane, bits) in lanes.0.iter_mut().zip(bits) {
                *lane = widen(bits.to_le_bytes());
            }
        }
        lanes
    }

    #[inline(always)]
    fn place(&self) -> (*const u8, usize) {
        (self.groups.as_ptr().cast(), GROUP / 2)
    }

    #[inline(always)]
    fn tail(&self) -> Option<Lanes> {
        None
    }
    #[inline(always)]
    fn bits(&self, block: usize) -> [Bits; 2] {
        let upper = self.decode.group(&self.groups[block], self.scales[block]);
        [upper, Bits::ZERO]
    }
}
