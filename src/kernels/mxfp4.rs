//! Four-bit weights with a shared power-of-two scale (MXFP4): E2M1 codes, E8M0 scales.

use super::lanes::Lanes;

/// Consecutive elements of a row that share a scale.
pub const GROUP: usize = 32;

/// A scale byte's value, `2^(byte - 127)`; byte 0 is the subnormal `2^-127`. Byte 255 would be a NaN; its whole group
/// counts as zero.
#[inline(always)]
fn scale(byte: u8) -> f32 {
    match byte {
        255 => 0.0,
        0 => f32::from_bits(0x0040_0000),
        b => f32::from_bits(u32::from(b) << 23),
    }
}

/// An E2M1 code's value, of 0 0.5 1 1.5 2 3 4 6 and their negatives, times two: the sign stays on zero.
#[inline(always)]
fn doubled(code: u32) -> f32 {
    let magnitude = code & 7;
    // Codes 0 and 1 have no leading one; from 2 on the upper bits are an exponent.
    let exponent = magnitude >> 1;
    let significand = (magnitude & 1) | if exponent == 0 { 0 } else { 2 };
    let integer = significand << exponent.saturating_sub(1);
    f32::from_bits((integer as f32).to_bits() | (code & 8) << 28)
}

/// One group of 16 bytes as the 32 weights it stands for. Exact, unless the scale itself overflows.
#[inline(always)]
fn decode(packed: &[u8; GROUP / 2], scale_byte: u8) -> [Lanes; 2] {
    // Half the scale times twice the code: the same product, exact on both sides.
    let half = if scale_byte == 255 {
        0.0
    } else {
        scale(scale_byte) * 0.5
    };
    let mut out = [Lanes::ZERO; 2];
    for (lanes, bytes) in out.iter_mut().zip(packed.as_chunks::<8>().0) {
        for l in 0..16 {
            let code = u32::from(bytes[l / 2]) >> (4 * (l % 2)) & 15;
            lanes.0[l] = doubled(code) * half;
        }
    }
    out
}

kernel! {
    /// The weights that packed rows stand for, in order. `out` has two values a byte.
    pub fn dequantise(packed: &[u8], scales: &[u8], out: &mut [f32]) = dequantise_body;
}

#[inline(always)]
fn dequantise_body(packed: &[u8], scales: &[u8], out: &mut [f32]) {
    let groups = packed.as_chunks::<{ GROUP / 2 }>().0;
    for ((out, group), &scale) in out
        .as_chunks_mut::<GROUP>()
        .0
        .iter_mut()
        .zip(groups)
        .zip(scales)
    {
        let [a, b] = decode(group, scale);
        out[..16].copy_from_slice(&a.0);
        out[16..].copy_from_slice(&b.0);
    }
}

/// See [`super::matmul`].
#[inline(always)]
pub(super) fn rows(
    packed: &[u8],
    scales: &[u8],
    columns: usize,
    tokens: usize,
    x: &[f32],
    y: &mut [f32],
) {
    let (packed, _) = packed.as_chunks::<{ GROUP / 2 }>();
    let groups = columns / GROUP;
    let row = |r: usize| {
        (
            &packed[r * groups..(r + 1) * groups],
            &scales[r * groups..(r + 1) * groups],
        )
    };
    let token = |t: usize| &x[t * columns..(t + 1) * columns];
    let count = y.len() / tokens;
    if tokens == 1 {
        let mut r = 0;
        while r + 4 <= count {
            let sums = tile(std::array::from_fn::<_, 4, _>(|i| row(r + i)), [x]);
            for (y, [sum]) in y[r..r + 4].iter_mut().zip(sums) {
                *y = sum;
            }
            r += 4;
        }
        for (r, y) in y.iter_mut().enumerate().skip(r) {
            [[*y]] = tile([row(r)], [x]);
        }
        return;
    }
    for r in 0..count {
        let y = &mut y[r * tokens..(r + 1) * tokens];
        let mut t = 0;
        while t + 4 <= tokens {
            let [sums] = tile([row(r)], std::array::from_fn::<_, 4, _>(|i| token(t + i)));
            y[t..t + 4].copy_from_slice(&sums);
            t += 4;
        }
        for (t, y) in y.iter_mut().enumerate().skip(t) {
            [[*y]] = tile([row(r)], [token(t)]);
        }
    }
}

type Row<'a> = (&'a [[u8; GROUP / 2]], &'a [u8]);

/// `R` packed rows times `T` tokens, each group decoded once.
#[inline(always)]
fn tile<const R: usize, const T: usize>(w: [Row<'_>; R], x: [&[f32]; T]) -> [[f32; T]; R] {
    let groups = w[0].1.len();
    let codes = w.map(|w| &w.0[..groups]);
    let scales = w.map(|w| &w.1[..groups]);
    let x = x.map(|x| &x.as_chunks::<GROUP>().0[..groups]);
    let mut sums = [[Lanes::ZERO; T]; R];
    for g in 0..groups {
        let x: [[Lanes; 2]; T] = std::array::from_fn(|t| {
            let (halves, _) = x[t][g].as_chunks::<16>();
            [Lanes(halves[0]), Lanes(halves[1])]
        });
        for r in 0..R {
            let w = decode(&codes[r][g], scales[r][g]);
            for t in 0..T {
                sums[r][t].fuse(&w[0], &x[t][0]);
                sums[r][t].fuse(&w[1], &x[t][1]);
            }
        }
    }
    sums.map(|row| row.map(|sum| sum.reduce()))
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
