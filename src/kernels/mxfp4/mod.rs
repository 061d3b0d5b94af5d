//! Four-bit weights with a shared power-of-two scale (MXFP4): E2M1 codes, E8M0 scales.

mod decode;
mod table;
#[cfg(target_arch = "x86_64")]
pub(super) mod woven;

pub(super) use decode::Decode;

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::isa::Kind;
use super::matmul::products;
use super::results::Results;
use super::rows::{Bits, Packed};
use super::tokens::Tokens;
use super::turn::Turn;
use super::widen;

/// Consecutive elements of a row that share a scale.
pub const GROUP: usize = 32;

kernel! {
    /// The weights that packed rows stand for, in order. `out` has two values a byte.
    pub fn dequantise(packed: &[u8], scales: &[u8], out: &mut [f32]) = dequantise_body, shown;
}

#[inline(always)]
fn dequantise_body(decode: impl Decode, packed: &[u8], scales: &[u8], out: &mut [f32]) {
    let groups = packed.as_chunks::<{ GROUP / 2 }>().0.iter().zip(scales);
    for (out, (group, &scale)) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups) {
        let Bits(group) = decode.group(group, scale);
        *out = group.map(|v| widen(v.to_le_bytes()));
    }
}

/// See [`super::multiply`].
pub(super) fn rows(
    isa: Isa,
    packed: &[u8],
    scales: &[u8],
    tokens: &Tokens<'_>,
    y: &mut Results<'_>,
) {
    match isa.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` holds these only where the processor reported AVX2 and FMA.
        #[allow(unsafe_code)]
        Kind::Avx2 | Kind::Avx512 if tokens.count() == 1 => unsafe {
            woven::matvec(packed, scales, tokens.woven(), y.token(0))
        },
        _ => decoded(isa, packed, scales, tokens, y),
    }
}

kernel! {
    fn decoded(packed: &[u8], scales: &[u8], tokens: &Tokens<'_>, y: &mut Results<'_>) = decoded_body, shown;
}

#[inline(always)]
fn decoded_body<D: Decode + Turn>(
    set: D,
    packed: &[u8],
    scales: &[u8],
    tokens: &Tokens<'_>,
    y: &mut Results<'_>,
) {
    let (packed, _) = packed.as_chunks::<{ GROUP / 2 }>();
    let groups = tokens.columns() / GROUP;
    let row = |r: usize| Packed {
        groups: &packed[r * groups..][..groups],
        scales: &scales[r * groups..][..groups],
        decode: set,
    };
    products(set, row, tokens, y);
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
