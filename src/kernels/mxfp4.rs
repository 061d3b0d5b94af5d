//! Four-bit weights with a shared power-of-two scale (MXFP4): E2M1 codes, E8M0 scales.

use super::Isa;
use super::isa::Kind;
use super::lanes::Lanes;
use super::matmul::products;
use super::rows::Packed;
use super::tokens::Tokens;

/// Consecutive elements of a row that share a scale.
pub const GROUP: usize = 32;

/// A scale byte's value, `2^(byte - 127)`; byte 0 is the subnormal `2^-127`. Byte 255 would be a NaN; its whole group
/// counts as zero.
const SCALES: [f32; 256] = {
    let mut scales = [0.0; 256];
    scales[0] = f32::from_bits(0x0040_0000);
    let mut byte = 1;
    while byte < 255 {
        scales[byte] = f32::from_bits((byte as u32) << 23);
        byte += 1;
    }
    scales
};

/// How a group becomes the 32 weights that it stands for: code times scale, exact unless the scale itself overflows. The sign
/// stays on zero.
pub(super) trait Decode: Copy {
    /// One group of 16 bytes, the low half of a byte first.
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> [Lanes; 2];
}

/// For every machine.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Decode for Portable {
    #[inline(always)]
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> [Lanes; 2] {
        let scale = SCALES[usize::from(scale)];
        let mut out = [Lanes::ZERO; 2];
        for (lanes, bytes) in out.iter_mut().zip(packed.as_chunks::<8>().0) {
            for l in 0..16 {
                let code = u32::from(bytes[l / 2]) >> (4 * (l % 2));
                // The code's three lower bits at the place of two exponent bits and one of the mantissa are the code's
                // value times 2^-126, the subnormal ones too.
                let tiny = f32::from_bits((code & 7) << 22 | (code & 8) << 28);
                lanes.0[l] = tiny * TWO_126 * scale;
            }
        }
        out
    }
}

const TWO_126: f32 = f32::from_bits(253 << 23);

/// Byte shuffles of AVX2: a code's value has one of eight magnitudes, whose upper two bytes come out of two tables.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Shuffles(());

#[cfg(target_arch = "x86_64")]
impl Shuffles {
    /// # Safety
    /// The machine has AVX2.
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn assume() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Decode for Shuffles {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn group(self, packed: &[u8; GROUP / 2], scale: u8) -> [Lanes; 2] {
        // SAFETY: whoever made a `Shuffles` vouched for AVX2.
        unsafe { shuffled(packed, SCALES[usize::from(scale)]) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn shuffled(packed: &[u8; GROUP / 2], scale: f32) -> [Lanes; 2] {
    use std::arch::x86_64::*;
    // Both 128-bit halves see all bytes. The lower takes the bytes of elements 0-3, 8-11, 16-19, 24-27, the upper the
    // others, each byte as a 16-bit word: after the two widenings, which work on halves, elements stand in order.
    let order = _mm256_setr_epi8(
        0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 2, -1, 3, -1, 6, -1, 7, -1, 10,
        -1, 11, -1, 14, -1, 15, -1,
    );
    let table = |bytes: [i8; 16]| {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        _mm256_broadcastsi128_si256(_mm_setr_epi8(
            a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p,
        ))
    };
    // Upper and lower byte of the bf16 values 0 0.5 1 1.5 2 3 4 6 and their negatives.
    let upper = table([
        0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, -128, -65, -65, -65, -64, -64, -64, -64,
    ]);
    let lower = table([
        0, 0, -128, -64, 0, 0x40, -128, -64, 0, 0, -128, -64, 0, 0x40, -128, -64,
    ]);
    // SAFETY: sixteen bytes are there; the load needs no alignment.
    let bytes = unsafe { _mm_loadu_si128(packed.as_ptr().cast()) };
    let words = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), order);
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
    let scale = _mm256_set1_ps(scale);
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
            let values = _mm256_mul_ps(_mm256_castsi256_ps(half), scale);
            // SAFETY: `place` is eight floats; the store needs no alignment.
            unsafe { _mm256_storeu_ps(place.as_mut_ptr(), values) };
        }
    }
    out
}

/// The weights that packed rows stand for, in order. `out` has two values a byte.
pub fn dequantise(isa: Isa, packed: &[u8], scales: &[u8], out: &mut [f32]) {
    match isa.0 {
        Kind::Portable => dequantised(Portable, packed, scales, out),
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        Kind::Avx2 | Kind::Avx512 => {
            // SAFETY: `Isa` holds these only where the processor reported AVX2.
            let decode = unsafe { Shuffles::assume() };
            dequantised(decode, packed, scales, out)
        }
    }
}

fn dequantised<D: Decode>(decode: D, packed: &[u8], scales: &[u8], out: &mut [f32]) {
    let groups = packed.as_chunks::<{ GROUP / 2 }>().0.iter().zip(scales);
    for (out, (group, &scale)) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups) {
        let [a, b] = decode.group(group, scale);
        out[..16].copy_from_slice(&a.0);
        out[16..].copy_from_slice(&b.0);
    }
}

/// See [`super::multiply`].
pub(super) fn rows(isa: Isa, packed: &[u8], scales: &[u8], tokens: &Tokens<'_>, y: &mut [f32]) {
    match isa.0 {
        Kind::Portable => decoded(Portable, packed, scales, tokens, y),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` holds `Avx2` only where the processor reported AVX2 and FMA.
        #[allow(unsafe_code)]
        Kind::Avx2 => unsafe { rows_avx2(packed, scales, tokens, y) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` holds `Avx512` only where the processor reported all four.
        #[allow(unsafe_code)]
        Kind::Avx512 => unsafe { rows_avx512(packed, scales, tokens, y) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[allow(unsafe_code)]
fn rows_avx2(packed: &[u8], scales: &[u8], tokens: &Tokens<'_>, y: &mut [f32]) {
    // SAFETY: this is only called where AVX2 is.
    let decode = unsafe { Shuffles::assume() };
    decoded(decode, packed, scales, tokens, y);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
#[allow(unsafe_code)]
fn rows_avx512(packed: &[u8], scales: &[u8], tokens: &Tokens<'_>, y: &mut [f32]) {
    // SAFETY: this is only called where AVX2 is.
    let decode = unsafe { Shuffles::assume() };
    decoded(decode, packed, scales, tokens, y);
}

#[inline(always)]
fn decoded<D: Decode>(decode: D, packed: &[u8], scales: &[u8], tokens: &Tokens<'_>, y: &mut [f32]) {
    let (packed, _) = packed.as_chunks::<{ GROUP / 2 }>();
    let groups = tokens.columns() / GROUP;
    let row = |r: usize| Packed {
        groups: &packed[r * groups..][..groups],
        scales: &scales[r * groups..][..groups],
        decode,
    };
    products(row, tokens, y);
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    const VALUES: [f32; 16] = [
        0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
    ];

    #[test]
    fn every_code_and_every_scale_is_exact() {
        let packed: Vec<u8> = (0..16u8)
            .map(|i| (2 * i % 16) | ((2 * i + 1) % 16) << 4)
            .collect();
        for isa in Isa::all() {
            for byte in 0..=255u8 {
                let mut out = [f32::NAN; 32];
                dequantise(isa, &packed, &[byte], &mut out);
                for (i, &got) in out.iter().enumerate() {
                    let code = f64::from(VALUES[i % 16]);
                    let want = if byte == 255 {
                        0.0
                    } else {
                        (code * (f64::from(byte) - 127.0).exp2()) as f32
                    };
                    assert_eq!(got, want, "code {} scale {byte}", i % 16);
                    if byte != 255 {
                        assert_eq!(got.is_sign_negative(), i % 16 >= 8);
                    }
                }
            }
        }
    }

    #[test]
    fn the_low_half_of_a_byte_is_the_even_element() {
        let mut packed = [0u8; 16];
        packed[0] = 0x72;
        let mut out = [0.0; 32];
        dequantise(Isa::detect(), &packed, &[127], &mut out);
        assert_eq!(&out[..3], &[1.0, 6.0, 0.0]);
    }
}
