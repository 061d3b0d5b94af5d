//! From rows as they are stored to columns as products of many tokens read them: the same element of sixteen rows side by side.

use super::isa::Portable;
#[cfg(target_arch = "x86_64")]
use super::isa::Shuffles;
use super::lanes::Lanes;
use super::rows::{BLOCK, Bits};

/// Rows whose elements stand side by side.
pub(super) const ROWS: usize = 16;

/// A block of columns of sixteen rows: the upper halves of their elements, and the lower ones.
#[repr(align(64))]
pub(super) struct Strip(pub [[Bits; ROWS]; 2]);

impl Strip {
    pub const ZERO: Self = Self([[Bits::ZERO; ROWS]; 2]);
}

/// How elements change places.
pub(super) trait Turn: Copy {
    /// Puts column `c` of a strip, its elements by row, at `places[at(c)]`. `NARROW` says that the lower halves are zero; nobody
    /// looks at them then.
    fn turn<const NARROW: bool>(
        self,
        strip: &Strip,
        places: &mut [Lanes],
        at: impl Fn(usize) -> usize,
    );
}

impl Turn for Portable {
    #[inline(always)]
    fn turn<const NARROW: bool>(
        self,
        strip: &Strip,
        places: &mut [Lanes],
        at: impl Fn(usize) -> usize,
    ) {
        let [upper, lower] = &strip.0;
        for c in 0..BLOCK {
            for (r, value) in places[at(c)].0.iter_mut().enumerate() {
                let upper = u32::from(upper[r].0[c]) << 16;
                let lower = if NARROW { 0 } else { u32::from(lower[r].0[c]) };
                *value = f32::from_bits(upper | lower);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Turn for Shuffles {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn turn<const NARROW: bool>(
        self,
        strip: &Strip,
        places: &mut [Lanes],
        at: impl Fn(usize) -> usize,
    ) {
        // SAFETY: whoever made a `Shuffles` vouched for AVX2.
        unsafe { shuffled::<NARROW>(strip, places, at) }
    }
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn shuffled<const NARROW: bool>(strip: &Strip, places: &mut [Lanes], at: impl Fn(usize) -> usize) {
    let [upper, lower] = &strip.0;
    for i in 0..BLOCK / 8 {
        let upper = eight(upper, i);
        let lower = match NARROW {
            true => [_mm256_setzero_si256(); 8],
            false => eight(lower, i),
        };
        for (c, (upper, lower)) in upper.into_iter().zip(lower).enumerate() {
            let halves = [
                _mm256_unpacklo_epi16(lower, upper),
                _mm256_unpackhi_epi16(lower, upper),
            ];
            let column = &mut places[at(8 * i + c)].0;
            for (place, half) in column.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
                // SAFETY: `place` is eight floats; the store needs no alignment.
                unsafe { _mm256_storeu_ps(place.as_mut_ptr(), _mm256_castsi256_ps(half)) };
            }
        }
    }
}

/// Columns `8 i` to `8 i + 7` of sixteen rows: of each, rows 0 to 3 and 8 to 11 in the lower half of a vector and the others in
/// the upper one, so that widening, which works on halves, gives them in order.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn eight(rows: &[Bits; ROWS], i: usize) -> [__m256i; 8] {
    let mut pairs = [_mm256_setzero_si256(); 8];
    for (k, pair) in pairs.iter_mut().enumerate() {
        let first = k / 4 * 8 + k % 4;
        let [a, b] = [&rows[first], &rows[first + 4]].map(|row| &row.0.as_chunks::<8>().0[i]);
        // SAFETY: eight 16-bit numbers are at each place; the loads need no alignment.
        let [a, b] = unsafe { [a, b].map(|row| _mm_loadu_si128(row.as_ptr().cast())) };
        *pair = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
    }
    let mut out = [_mm256_setzero_si256(); 8];
    let [a, b, c, d, e, f, g, h] = pairs;
    let low = [
        _mm256_unpacklo_epi16(a, b),
        _mm256_unpacklo_epi16(c, d),
        _mm256_unpacklo_epi16(e, f),
        _mm256_unpacklo_epi16(g, h),
    ];
    let high = [
        _mm256_unpackhi_epi16(a, b),
        _mm256_unpackhi_epi16(c, d),
        _mm256_unpackhi_epi16(e, f),
        _mm256_unpackhi_epi16(g, h),
    ];
    for (out, [a, b, c, d]) in out.as_chunks_mut::<4>().0.iter_mut().zip([low, high]) {
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        out[0] = _mm256_unpacklo_epi64(ab, cd);
        out[1] = _mm256_unpackhi_epi64(ab, cd);
        let (ab, cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        out[2] = _mm256_unpacklo_epi64(ab, cd);
        out[3] = _mm256_unpackhi_epi64(ab, cd);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;

    kernel! {
        fn turned(strip: &Strip, narrow: bool, columns: &mut [Lanes; BLOCK]) = body, shown;
    }

    #[inline(always)]
    fn body(set: impl Turn, strip: &Strip, narrow: bool, columns: &mut [Lanes; BLOCK]) {
        let backwards = |c: usize| BLOCK - 1 - c;
        match narrow {
            true => set.turn::<true>(strip, columns, backwards),
            false => set.turn::<false>(strip, columns, backwards),
        }
    }

    #[test]
    fn rows_become_columns_bit_by_bit() {
        let bits = |seed: usize| -> [Bits; ROWS] {
            std::array::from_fn(|r| {
                Bits(std::array::from_fn(|c| {
                    ((r * BLOCK + c + seed) * 40_503 % 65_521) as u16
                }))
            })
        };
        let strip = Strip([bits(3), bits(777)]);
        for isa in Isa::all() {
            for narrow in [false, true] {
                let mut columns = [Lanes::ZERO; BLOCK];
                turned(isa, &strip, narrow, &mut columns);
                for (c, column) in columns.iter().rev().enumerate() {
                    for (r, got) in column.0.iter().enumerate() {
                        let [upper, lower] = [0, 1].map(|h: usize| u32::from(strip.0[h][r].0[c]));
                        let want = upper << 16 | if narrow { 0 } else { lower };
                        assert_eq!(got.to_bits(), want, "{} {r} {c}", isa.name());
                    }
                }
            }
        }
    }
}
