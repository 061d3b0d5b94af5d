//! Rows of a weight matrix as the products see them: lanes of f32, whatever form they are stored in.

use std::ops::Range;

use super::lanes::{Half, Lanes, pad};
use super::mxfp4::{Decode, GROUP};
use super::{Bf16, widen};

/// Columns of a block, as many as a group of packed ones has.
pub(super) const BLOCK: usize = GROUP;

/// Half of the bits of as many f32 as a block has.
#[derive(Clone, Copy)]
pub(super) struct Bits(pub [u16; BLOCK]);

impl Bits {
    pub const ZERO: Self = Self([0; BLOCK]);
}

/// A number of a plain row, as it is stored.
pub(super) trait Element: Copy {
    /// Its value.
    fn widen(self) -> f32;
    /// The values of every second of sixteen, from `H` on, 0 or 1.
    fn every_second<const H: usize>(lanes: &[Self; 16]) -> Half;
}

impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn every_second<const H: usize>(lanes: &[f32; 16]) -> Half {
        Half::every_second(lanes, H)
    }
}

impl Element for Bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        widen(self)
    }

    /// Two numbers are read as one of 32 bits; each value is a half of it, in its upper bits.
    #[inline(always)]
    fn every_second<const H: usize>(lanes: &[Bf16; 16]) -> Half {
        let mut half = Half::ZERO;
        let pairs = lanes.as_flattened().as_chunks::<4>().0;
        for (half, pair) in half.0.iter_mut().zip(pairs) {
            let both = u32::from_le_bytes(*pair);
            *half = f32::from_bits(match H {
                0 => both << 16,
                _ => both & 0xffff_0000,
            });
        }
        half
    }
}

/// One row. `N` is how many lanes come out of one unit of what is stored.
pub(super) trait Row<const N: usize>: Copy {
    /// Whether its numbers have nothing in the lower half of their bits.
    const NARROW: bool;
    /// What its lanes are where they are multiplied with a few tokens.
    type Element: Element;
    /// Whole units.
    fn units(&self) -> usize;
    /// Some units of it: said once, so that loops over several rows need no checks.
    fn part(self, units: Range<usize>) -> Self;
    /// Unit `u`, widened.
    fn unit(&self, u: usize) -> [Lanes; N];
    /// Where it begins in memory, and how many bytes a unit takes there.
    fn place(&self) -> (*const u8, usize);
    /// Its whole lanes, in `room` where they do not stand in memory like that.
    fn plain<'r>(&self, room: &'r mut [[Bf16; 16]]) -> &'r [[Self::Element; 16]]
    where
        Self: 'r;
    /// What is left behind the whole units, padded with zeros.
    fn tail(&self) -> Option<Lanes>;
    /// A block of its columns, zeros behind its end: the upper halves of the widened numbers' bits, and the lower ones.
    fn bits(&self, block: usize) -> [Bits; 2];
}

/// A row of plain numbers.
#[derive(Clone, Copy)]
pub(super) struct Plain<'a, E> {
    full: &'a [[E; 16]],
    tail: &'a [E],
}

impl<'a, E> Plain<'a, E> {
    #[inline(always)]
    pub fn new(row: &'a [E]) -> Self {
        let (full, tail) = row.as_chunks();
        Self { full, tail }
    }
}

impl<E: Element> Row<1> for Plain<'_, E> {
    const NARROW: bool = size_of::<E>() == 2;
    type Element = E;

    #[inline(always)]
    fn plain<'r>(&self, _: &'r mut [[Bf16; 16]]) -> &'r [[E; 16]]
    where
        Self: 'r,
    {
        self.full
    }

    #[inline(always)]
    fn units(&self) -> usize {
        self.full.len()
    }

    #[inline(always)]
    fn part(self, units: Range<usize>) -> Self {
        let full = &self.full[units];
        Self { full, ..self }
    }

    #[inline(always)]
    fn unit(&self, u: usize) -> [Lanes; 1] {
        [Lanes(self.full[u].map(E::widen))]
    }

    #[inline(always)]
    fn place(&self) -> (*const u8, usize) {
        (self.full.as_ptr().cast(), size_of::<[E; 16]>())
    }

    #[inline(always)]
    fn tail(&self) -> Option<Lanes> {
        pad(self.tail, E::widen)
    }

    #[inline(always)]
    fn bits(&self, block: usize) -> [Bits; 2] {
        let mut halves = [Bits::ZERO; 2];
        let mut put = |i: usize, element: E| {
            let bits = element.widen().to_bits();
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
    type Element = Bf16;

    #[inline(always)]
    fn plain<'r>(&self, room: &'r mut [[Bf16; 16]]) -> &'r [[Bf16; 16]]
    where
        Self: 'r,
    {
        let room = &mut room[..2 * self.scales.len()];
        let groups = self.groups.iter().zip(self.scales);
        for (room, (packed, scale)) in room.as_chunks_mut::<2>().0.iter_mut().zip(groups) {
            let Bits(bits) = self.decode.group(packed, *scale);
            for (room, bits) in room.as_flattened_mut().iter_mut().zip(bits) {
                *room = bits.to_le_bytes();
            }
        }
        room
    }

    #[inline(always)]
    fn units(&self) -> usize {
        self.scales.len()
    }

    #[inline(always)]
    fn part(self, units: Range<usize>) -> Self {
        Self {
            groups: &self.groups[units.clone()],
            scales: &self.scales[units],
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
