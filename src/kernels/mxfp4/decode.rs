//! How a group of codes becomes the 32 weights that it stands for. Products of many tokens widen their rows with it.

use super::GROUP;
use super::table::TABLES;
#[cfg(target_arch = "x86_64")]
use super::table::Table;
use crate::kernels::lanes::Lanes;

/// One group of 16 bytes, the low half of a byte first.
pub(in crate::kernels) trait Decode: Copy {
    /// Its weights in order.
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> [Lanes; 2];
}

/// For every machine.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Decode for Portable {
    #[inline(always)]
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> [Lanes; 2] {
        let table = &TABLES[usize::from(scale)];
        let mut out = [Lanes::ZERO; 2];
        for (lanes, bytes) in out.iter_mut().zip(packed.as_chunks::<8>().0) {
            for l in 0..16 {
                lanes.0[l] = table.value(usize::from(bytes[l / 2] >> (4 * (l % 2)) & 15));
            }
        }
        out
    }
}

/// Byte shuffles of AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Shuffles(());

#[cfg(target_arch = "x86_64")]
impl Shuffles {
    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) unsafe fn assume() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Decode for Shuffles {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> [Lanes; 2] {
        // SAFETY: whoever made a `Shuffles` vouched for AVX2.
        unsafe { shuffled(packed, &TABLES[usize::from(scale)]) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn shuffled(packed: &[u8; GROUP / 2], table: &Table) -> [Lanes; 2] {
    use std::arch::x86_64::*;
    // Both 128-bit halves see all bytes. The lower takes the bytes of elements 0-3, 8-11, 16-19, 24-27, the upper the
    // others, each byte as a 16-bit word: after the two widenings, which work on halves, elements stand in order.
    let order = _mm256_setr_epi8(
        0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 2, -1, 3, -1, 6, -1, 7, -1, 10,
        -1, 11, -1, 14, -1, 15, -1,
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
    let zero = _mm256_setzero_si256();
    let mut out = [Lanes::ZERO; 2];
    for (lanes, bf16) in out.iter_mut().zip([
        _mm256_unpacklo_epi8(lower, upper),
        _mm256_unpackhi_epi8(lower, upper),
    ]) {
        let halves = [
            _mm256_unpacklo_epi16(zero, bf16),
            _mm256_unpackhi_epi16(zero, bf16),
        ];
        for (place, half) in lanes.0.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
            // SAFETY: `place` is eight floats; the store needs no alignment.
            unsafe { _mm256_storeu_ps(place.as_mut_ptr(), _mm256_castsi256_ps(half)) };
        }
    }
    out
}
