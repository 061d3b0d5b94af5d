//! How a group of codes becomes the 32 weights that it stands for. Products of several tokens widen their rows with it.

use super::GROUP;
use super::table::TABLES;
#[cfg(target_arch = "x86_64")]
use super::table::Table;
use crate::kernels::isa::Portable;
#[cfg(target_arch = "x86_64")]
use crate::kernels::isa::Shuffles;
use crate::kernels::rows::Bits;

/// One group of 16 bytes, the low half of a byte first.
pub(in crate::kernels) trait Decode: Copy {
    /// The upper halves of its weights' bits, in order; there is nothing in the lower ones.
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> Bits;
}

impl Decode for Portable {
    #[inline(always)]
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> Bits {
        let table = &TABLES[usize::from(scale)];
        Bits(std::array::from_fn(|i| {
            table.bits(usize::from(packed[i / 2] >> (4 * (i % 2)) & 15))
        }))
    }
}

#[cfg(target_arch = "x86_64")]
impl Decode for Shuffles {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> Bits {
        // SAFETY: whoever made a `Shuffles` vouched for AVX2.
        unsafe { shuffled(packed, &TABLES[usize::from(scale)]) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn shuffled(packed: &[u8; GROUP / 2], table: &Table) -> Bits {
    use std::arch::x86_64::*;
    // Both 128-bit halves see all bytes. The lower takes the bytes of elements 0-7 and 16-23, the upper the others, each byte
    // as a 16-bit word: after the values' bytes are joined, which works on halves, elements stand in order.
    let order = _mm256_setr_epi8(
        0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11, -1, 4, -1, 5, -1, 6, -1, 7, -1, 12,
        -1, 13, -1, 14, -1, 15, -1,
    );
    // SAFETY: sixteen bytes are at each place; the loads need no alignment.
    let [bytes, lower, upper] = unsafe {
        [packed, &table.lower, &table.upper]
            .map(|bytes| _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())))
    };
    let words = _mm256_shuffle_epi8(bytes, order);
    // The low code in the lower byte of each word, the high code in the upper.
    let codes = _mm256_and_si256(
        _mm256_or_si256(words, _mm256_slli_epi16::<4>(words)),
        _mm256_set1_epi8(15),
    );
    let (upper, lower) = (
        _mm256_shuffle_epi8(upper, codes),
        _mm256_shuffle_epi8(lower, codes),
    );
    let mut out = Bits::ZERO;
    let halves = [
        _mm256_unpacklo_epi8(lower, upper),
        _mm256_unpackhi_epi8(lower, upper),
    ];
    for (place, half) in out.0.as_chunks_mut::<16>().0.iter_mut().zip(halves) {
        // SAFETY: `place` is sixteen 16-bit numbers; the store needs no alignment.
        unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), half) };
    }
    out
}
