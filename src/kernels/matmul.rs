//! Products of a weight matrix with one or several tokens.

use super::lanes::{Lanes, pad};
use super::{Bf16, mxfp4, widen};

/// Rows of a weight matrix, row-major, as they stand in memory.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Plain f32.
    F32(&'a [f32]),
    /// bf16, widened on the way.
    Bf16(&'a [Bf16]),
    /// Four-bit values, two a byte (even element in the low half), and one power-of-two scale byte for every
    /// [`super::GROUP`] of them. Multiplied as they are, never widened in memory.
    Mxfp4 {
        /// `rows * columns / 2` bytes.
        packed: &'a [u8],
        /// `rows * columns / 32` bytes.
        scales: &'a [u8],
    },
}

impl<'a> Weights<'a> {
    /// Rows `rows` of these weights, each `columns` wide.
    pub fn rows(self, rows: std::ops::Range<usize>, columns: usize) -> Weights<'a> {
        let cut = |per_row: usize| rows.start * per_row..rows.end * per_row;
        match self {
            Weights::F32(w) => Weights::F32(&w[cut(columns)]),
            Weights::Bf16(w) => Weights::Bf16(&w[cut(columns)]),
            Weights::Mxfp4 { packed, scales } => Weights::Mxfp4 {
                packed: &packed[cut(columns / 2)],
                scales: &scales[cut(columns / mxfp4::GROUP)],
            },
        }
    }

    /// How many rows of `columns` there are.
    pub fn row_count(&self, columns: usize) -> usize {
        match self {
            Weights::F32(w) => w.len() / columns,
            Weights::Bf16(w) => w.len() / columns,
            Weights::Mxfp4 { packed, .. } => packed.len() / (columns / 2),
        }
    }
}

kernel! {
    /// `y[r][t] = Σ_i w[r][i] x[t][i]`: each result is one dot product in sixteen lanes over the whole row.
    ///
    /// `x` is [tokens][columns], `y` is [rows][tokens]. MXFP4 needs `columns` to be a multiple of
    /// [`super::GROUP`]; its scale is folded into the weight, so it equals dequantising first, bit for bit.
    pub fn matmul(w: Weights<'_>, columns: usize, x: &[f32], y: &mut [f32]) = matmul_body;
}

#[inline(always)]
fn matmul_body(w: Weights<'_>, columns: usize, x: &[f32], y: &mut [f32]) {
    let tokens = x.len() / columns;
    debug_assert_eq!(y.len(), w.row_count(columns) * tokens);
    match w {
        Weights::F32(w) => dense(w, |v| v, columns, tokens, x, y),
        Weights::Bf16(w) => dense(w, widen, columns, tokens, x, y),
        Weights::Mxfp4 { packed, scales } => mxfp4::rows(packed, scales, columns, tokens, x, y),
    }
}

/// Rows that are computed together with so many tokens; work is best cut at multiples of it.
pub fn rows_together(_tokens: usize) -> usize {
    WIDE
}

/// Four rows of one token, or one row of four tokens, at a time: eight vector accumulators keep the fused units busy.
const WIDE: usize = 4;

#[inline(always)]
fn dense<E: Copy>(
    w: &[E],
    widen: impl Fn(E) -> f32 + Copy,
    columns: usize,
    tokens: usize,
    x: &[f32],
    y: &mut [f32],
) {
    let rows: usize = w.len() / columns;
    let row = |r: usize| &w[r * columns..(r + 1) * columns];
    let token = |t: usize| &x[t * columns..(t + 1) * columns];
    if tokens == 1 {
        let mut r = 0;
        while r + WIDE <= rows {
            let sums = tile(
                std::array::from_fn::<_, WIDE, _>(|i| row(r + i)),
                [x],
                widen,
            );
            for (y, [sum]) in y[r..r + WIDE].iter_mut().zip(sums) {
                *y = sum;
            }
            r += WIDE;
        }
        for (r, y) in y.iter_mut().enumerate().skip(r) {
            [[*y]] = tile([row(r)], [x], widen);
        }
        return;
    }
    for r in 0..rows {
        let y = &mut y[r * tokens..(r + 1) * tokens];
        let mut t = 0;
        while t + WIDE <= tokens {
            let [sums] = tile(
                [row(r)],
                std::array::from_fn::<_, WIDE, _>(|i| token(t + i)),
                widen,
            );
            y[t..t + WIDE].copy_from_slice(&sums);
            t += WIDE;
        }
        for (t, y) in y.iter_mut().enumerate().skip(t) {
            [[*y]] = tile([row(r)], [token(t)], widen);
        }
    }
}

/// `R` rows times `T` tokens, all of one length; every result has lanes of its own.
#[inline(always)]
fn tile<E: Copy, const R: usize, const T: usize>(
    w: [&[E]; R],
    x: [&[f32]; T],
    widen: impl Fn(E) -> f32 + Copy,
) -> [[f32; T]; R] {
    let w = w.map(|w| w.as_chunks::<16>());
    let x = x.map(|x| x.as_chunks::<16>());
    let full = w[0].0.len();
    // One length for all, said once, so that the loop below needs no bounds checks.
    let w_full = w.map(|w| &w.0[..full]);
    let x_full = x.map(|x| &x.0[..full]);
    let mut sums = [[Lanes::ZERO; T]; R];
    for c in 0..full {
        let x: [Lanes; T] = std::array::from_fn(|t| Lanes(x_full[t][c]));
        for r in 0..R {
            let w = Lanes(w_full[r][c].map(widen));
            for t in 0..T {
                sums[r][t].fuse(&w, &x[t]);
            }
        }
    }
    for r in 0..R {
        let Some(w) = pad(w[r].1, widen) else { break };
        for t in 0..T {
            if let Some(x) = pad(x[t].1, |v| v) {
                sums[r][t].fuse(&w, &x);
            }
        }
    }
    sums.map(|row| row.map(|sum| sum.reduce()))
}

#[cfg(test)]
mod tests {
    use super::super::{Isa, dot};
    use super::*;

    fn random(seed: u32, n: usize) -> Vec<f32> {
        let mut s = seed;
        (0..n)
            .map(|_| {
                s ^= s << 13;
                s ^= s >> 17;
                s ^= s << 5;
                (s >> 8) as f32 * 2f32.powi(-23) - 1.0
            })
            .collect()
    }

    #[test]
    fn every_result_is_one_dot_product_for_any_number_of_rows_and_tokens() {
        for isa in Isa::all() {
            for (rows, columns, tokens) in [
                (1, 1, 1),
                (5, 53, 1),
                (9, 64, 3),
                (4, 17, 4),
                (7, 100, 9),
                (3, 16, 2),
            ] {
                let w = random(7, rows * columns);
                let x = random(11, tokens * columns);
                let mut y = vec![f32::NAN; rows * tokens];
                matmul(isa, Weights::F32(&w), columns, &x, &mut y);
                for r in 0..rows {
                    for t in 0..tokens {
                        let want = dot(
                            Isa::portable(),
                            &w[r * columns..][..columns],
                            &x[t * columns..][..columns],
                        );
                        assert_eq!(
                            y[r * tokens + t].to_bits(),
                            want.to_bits(),
                            "{rows}x{columns}, {tokens} tokens"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn bf16_equals_f32_weights_of_the_same_values() {
        // Subnormals and large values among them.
        let bits: Vec<u16> = (0..40 * 37)
            .map(|i| (i as u32 * 40_503 % 65_536) as u16)
            .collect();
        let narrow: Vec<Bf16> = bits
            .iter()
            .map(|b| {
                if b & 0x7f80 == 0x7f80 {
                    [0, 0]
                } else {
                    b.to_le_bytes()
                }
            })
            .collect();
        let wide: Vec<f32> = narrow.iter().map(|&b| widen(b)).collect();
        for tokens in [1, 3, 5] {
            let x: Vec<f32> = random(3, 37 * tokens).iter().map(|v| v * 1e-30).collect();
            for isa in Isa::all() {
                let (mut a, mut b) = (vec![0.0; 40 * tokens], vec![1.0; 40 * tokens]);
                matmul(isa, Weights::Bf16(&narrow), 37, &x, &mut a);
                matmul(Isa::portable(), Weights::F32(&wide), 37, &x, &mut b);
                assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }

    #[test]
    fn mxfp4_equals_dequantising_first() {
        for columns in [32, 96, 3584] {
            let rows = 6;
            let packed: Vec<u8> = random(5, rows * columns / 2)
                .iter()
                .map(|v| (v * 128.0 + 128.0) as u8)
                .collect();
            let scales: Vec<u8> = (0..rows * columns / 32)
                .map(|i| [118, 0, 255, 127, 1, 200, 121, 130][i % 8])
                .collect();
            let mut wide = vec![0.0; rows * columns];
            super::super::dequantise(Isa::portable(), &packed, &scales, &mut wide);
            for tokens in [1, 2, 4, 7] {
                let x = random(17, columns * tokens);
                let mut want = vec![0.0; rows * tokens];
                matmul(Isa::portable(), Weights::F32(&wide), columns, &x, &mut want);
                for isa in Isa::all() {
                    let mut got = vec![f32::NAN; rows * tokens];
                    matmul(
                        isa,
                        Weights::Mxfp4 {
                            packed: &packed,
                            scales: &scales,
                        },
                        columns,
                        &x,
                        &mut got,
                    );
                    let same = got
                        .iter()
                        .zip(&want)
                        .all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{columns} columns, {tokens} tokens, {}", isa.name());
                }
            }
        }
    }
}
