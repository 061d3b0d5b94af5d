//! Products of a weight matrix with one or several tokens.

use super::few::{FEW, few};
use super::matmat::{self, matmat};
use super::matvec::matvec;
use super::results::Results;
use super::rows::{Plain, Row};
use super::tokens::Tokens;
use super::turn::Turn;
use super::{Bf16, Isa, mxfp4};

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

    /// Bytes of a row of `columns`.
    pub fn row_bytes(&self, columns: usize) -> usize {
        match self {
            Weights::F32(_) => 4 * columns,
            Weights::Bf16(_) => 2 * columns,
            Weights::Mxfp4 { .. } => columns / 2 + columns / mxfp4::GROUP,
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

/// `y[t][r] = Σ_i w[r][i] x[t][i]`: each result is one dot product in sixteen lanes over the whole row.
///
/// `x` is `[tokens][columns]`, `y` is `[tokens][rows]`. MXFP4 needs `columns` to be a multiple of [`super::GROUP`]; its
/// scale is folded into the weight, so it equals dequantising first, bit for bit.
pub fn matmul(isa: Isa, w: Weights<'_>, columns: usize, x: &[f32], y: &mut [f32]) {
    let tokens = Tokens::new(x, columns);
    let y = Results::new(y, tokens.count());
    multiply(isa, w, &tokens, y);
}

/// [`matmul`] with tokens that stand ready, for several matrices or parts of one.
pub fn multiply(isa: Isa, w: Weights<'_>, tokens: &Tokens<'_>, mut y: Results<'_>) {
    let y = &mut y;
    match w {
        Weights::F32(w) => f32_rows(isa, w, tokens, y),
        Weights::Bf16(w) => bf16_rows(isa, w, tokens, y),
        Weights::Mxfp4 { packed, scales } => mxfp4::rows(isa, packed, scales, tokens, y),
    }
}

/// Rows that are computed together with so many tokens; work is best cut at multiples of it.
pub fn rows_together(tokens: usize) -> usize {
    match tokens {
        // Of three, four and six rows at a time.
        0..=FEW => 12,
        _ => matmat::TOGETHER,
    }
}

kernel! {
    fn f32_rows(w: &[f32], tokens: &Tokens<'_>, y: &mut Results<'_>) = f32_body, shown;
}

#[inline(always)]
fn f32_body(set: impl Turn, w: &[f32], tokens: &Tokens<'_>, y: &mut Results<'_>) {
    let columns = tokens.columns();
    products(set, |r| Plain::new(&w[r * columns..][..columns]), tokens, y);
}

kernel! {
    fn bf16_rows(w: &[Bf16], tokens: &Tokens<'_>, y: &mut Results<'_>) = bf16_body, shown;
}

#[inline(always)]
fn bf16_body(set: impl Turn, w: &[Bf16], tokens: &Tokens<'_>, y: &mut Results<'_>) {
    let columns = tokens.columns();
    products(set, |r| Plain::new(&w[r * columns..][..columns]), tokens, y);
}

/// Rows of any form times one token or several.
#[inline(always)]
pub(super) fn products<const N: usize, R: Row<N>>(
    set: impl Turn,
    row: impl Fn(usize) -> R,
    tokens: &Tokens<'_>,
    y: &mut Results<'_>,
) {
    match tokens.count() {
        0 => {}
        1 => matvec(row, tokens.one(0), y.token(0)),
        2..=FEW => few(row, tokens, y),
        _ => matmat(set, row, tokens, y),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{dot, widen};
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
                (5, 40, 5),
                (3, 16, 2),
                // Tiles of two to four tokens, whole blocks of columns and a step more, blocks that are no multiple of a tile's.
                (6, 512, 4),
                (13, 528, 7),
                (7, 1_050, 23),
                (12, 16, 24),
                // Turned panels: one and more, whole blocks of columns and a step more, tiles of five and six tokens.
                (16, 32, 25),
                (17, 48, 26),
                (33, 33, 30),
                (64, 16, 31),
                // More than a batch of tokens, nothing a multiple of anything.
                (37, 110, 113),
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
                            y[t * rows + r].to_bits(),
                            want.to_bits(),
                            "{rows}x{columns}, {tokens} tokens"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_subnormal_and_large_values_keep_their_bits() {
        let odd = [
            0.0,
            -0.0,
            1e-40,
            -1e-45,
            f32::MIN_POSITIVE,
            3e38,
            -3e38,
            1.0,
            -1e-30,
        ];
        let (rows, columns) = (21, 67);
        let pick = |seed: u32, n| -> Vec<f32> {
            let scaled = random(seed, n).into_iter().map(|v| (v + 1.0) * 4.499);
            scaled.map(|v| odd[v as usize]).collect()
        };
        for (seed, tokens) in (1..20).zip([1, 5, 9, 27].into_iter().cycle()) {
            let (w, x) = (
                pick(seed, rows * columns),
                pick(seed + 50, tokens * columns),
            );
            for isa in Isa::all() {
                let mut y = vec![1.0; rows * tokens];
                matmul(isa, Weights::F32(&w), columns, &x, &mut y);
                for r in 0..rows {
                    for t in 0..tokens {
                        let (w, x) = (&w[r * columns..][..columns], &x[t * columns..][..columns]);
                        let want = dot(Isa::portable(), w, x);
                        let got = y[t * rows + r];
                        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                        assert!(same, "{got:e} {want:e}");
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
        for tokens in [1, 2, 3, 5, 11, 29] {
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
            for tokens in [1, 2, 4, 7, 13, 25] {
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
