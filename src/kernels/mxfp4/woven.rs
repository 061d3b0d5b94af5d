//! Packed rows times one token with AVX2: decoding must keep up with memory, so weights are left in the order in which byte
//! shuffles hand them out, and the token's elements are put into that order instead, once for all rows.

use std::arch::x86_64::*;

use super::GROUP;
use super::table::TABLES;

/// Rows at a time. Each has two sums; of four rows they no longer fit in the registers beside what decoding takes, and two are a
/// little slower (2, 3 and 4 rows, best: 10.2, 10.4 and 8.5 GB/s a thread from the cache).
const ROWS: usize = 3;

/// Where an element stands among the 32 of its group: even ones come out of the low halves of bytes and go into the lower
/// half of a vector, odd ones into the upper; of each, every second goes into the same vector.
const ORDER: [usize; GROUP] = {
    let mut order = [0; GROUP];
    let mut i = 0;
    while i < GROUP {
        let (vector, half, place) = (i / 8, i / 4 % 2, i % 4);
        order[i] = vector / 2 * 16 + vector % 2 * 2 + half + 4 * place;
        i += 1;
    }
    order
};

/// As many elements of a token as a group has, in the order of decoding. No vector of them lies across two cache lines.
#[repr(align(64))]
pub(in crate::kernels) struct Woven([f32; GROUP]);

/// A token in the order of decoding. The columns are whole groups.
pub(in crate::kernels) fn weave(x: &[f32]) -> Vec<Woven> {
    let groups = x.as_chunks::<GROUP>().0.iter();
    groups.map(|group| Woven(ORDER.map(|i| group[i]))).collect()
}

/// One row: its groups, a scale for each, and what they are multiplied by.
#[derive(Clone, Copy)]
struct Row<'a> {
    packed: &'a [[u8; GROUP / 2]],
    scales: &'a [u8],
    x: &'a [Woven],
}

/// `y[r] = Σ_i w[r][i] x[i]` for every `r` of `y`, with `x` woven.
#[target_feature(enable = "avx2,fma")]
pub(super) fn matvec(packed: &[u8], scales: &[u8], x: &[Woven], y: &mut [f32]) {
    let (packed, _) = packed.as_chunks();
    let groups = x.len();
    // As in products of plain rows: each of a third of its own, which memory reads ahead.
    let third = y.len().div_ceil(ROWS);
    let last = y.len().saturating_sub(1);
    let parts = Parts::new();
    // One token for every row, but that is hidden: known, its vectors are loaded once for all rows and kept, there are too few
    // registers for that, and what decoding needs goes through the stack. As operands in memory they cost nothing.
    let xs = std::hint::black_box([x; ROWS]);
    for r in 0..third {
        let mut rows = [Row {
            packed: &[],
            scales: &[],
            x: &[],
        }; ROWS];
        for (i, (row, x)) in rows.iter_mut().zip(xs).enumerate() {
            // Behind the last row it is multiplied again; nobody looks at the result.
            let first = (i * third + r).min(last) * groups;
            *row = Row {
                packed: &packed[first..][..groups],
                scales: &scales[first..][..groups],
                x: &x[..groups],
            };
        }
        for (i, sum) in dots(&rows, parts).into_iter().enumerate() {
            if let Some(y) = y.get_mut(i * third + r) {
                *y = sum;
            }
        }
    }
}

// Closures, and functions of the standard library that take them, are compiled without these instructions: vectors must not go
// through them.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn dots(rows: &[Row<'_>; ROWS], parts: Parts) -> [f32; ROWS] {
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    // No indices: where one is checked, the compiler brings the tables of all rows to that place, more than there are registers.
    let [a, b, c] = rows.map(|row| row.packed.iter().zip(row.scales).zip(row.x));
    for ((a, b), c) in a.zip(b).zip(c) {
        for (sums, ((packed, &scale), x)) in sums.iter_mut().zip([a, b, c]) {
            let weights = decode(packed, scale, parts);
            for (v, x) in x.0.as_chunks::<8>().0.iter().enumerate() {
                // Each lane is summed in ascending order: 0 and 2 have the same, 1 and 3 the others.
                let sum = &mut sums[v % 2];
                *sum = _mm256_fmadd_ps(weights[v], load(x), *sum);
            }
        }
    }
    let mut out = [0.0; ROWS];
    for (out, sums) in out.iter_mut().zip(&sums) {
        *out = reduce(*sums);
    }
    out
}

/// [`crate::kernels::lanes::Lanes::reduce`] of lanes in [`ORDER`]: lanes eight apart and then those four apart stand beside each other, those two
/// apart in the other vector, neighbours in the other half.
#[target_feature(enable = "avx2")]
#[inline]
fn reduce(sums: [__m256; 2]) -> f32 {
    let mut fours = [_mm256_setzero_ps(); 2];
    for (four, sum) in fours.iter_mut().zip(sums) {
        let eight = _mm256_add_ps(sum, _mm256_permute_ps::<0b01_00_11_10>(sum));
        *four = _mm256_add_ps(eight, _mm256_permute_ps::<0b10_11_00_01>(eight));
    }
    let two = _mm256_add_ps(fours[0], fours[1]);
    let one = _mm_add_ss(_mm256_castps256_ps128(two), _mm256_extractf128_ps::<1>(two));
    _mm_cvtss_f32(one)
}

/// A group's weights: eight a vector, in [`ORDER`].
#[target_feature(enable = "avx2")]
#[inline]
fn decode(packed: &[u8; GROUP / 2], scale: u8, parts: Parts) -> [__m256; 4] {
    let table = &TABLES[usize::from(scale)];
    let (lower, upper) = (twice(&table.lower), twice(&table.upper));
    // Low halves of the bytes below, high halves above.
    let shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    let codes = _mm256_and_si256(
        _mm256_srlv_epi32(twice(packed), shifts),
        _mm256_set1_epi8(15),
    );
    let lower = _mm256_shuffle_epi8(lower, codes);
    let upper = _mm256_shuffle_epi8(upper, codes);
    // Two words of 16 bits beside each other are the upper halves of two numbers: one is moved up, the other cut free.
    let first = _mm256_unpacklo_epi8(lower, upper);
    let second = _mm256_unpackhi_epi8(lower, upper);
    [
        _mm256_castsi256_ps(_mm256_mullo_epi32(first, parts.up)),
        _mm256_castsi256_ps(_mm256_and_si256(first, parts.cut)),
        _mm256_castsi256_ps(_mm256_mullo_epi32(second, parts.up)),
        _mm256_castsi256_ps(_mm256_and_si256(second, parts.cut)),
    ]
}

/// What parts the two numbers of 32 bits. The values are hidden: known, the product becomes a shift and the mask a blend, and
/// the units for those are busy with lookups and interleaving.
#[derive(Clone, Copy)]
struct Parts {
    /// A factor that moves the lower 16 bits up.
    up: __m256i,
    /// A mask for the upper 16.
    cut: __m256i,
}

impl Parts {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new() -> Self {
        let [up, cut] = std::hint::black_box([0x0001_0000_u32, 0xffff_0000]);
        Self {
            up: _mm256_set1_epi32(up.cast_signed()),
            cut: _mm256_set1_epi32(cut.cast_signed()),
        }
    }
}

/// Sixteen bytes in both halves.
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn twice(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: sixteen bytes are there; the load needs no alignment.
    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) }
}

#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn load(x: &[f32; 8]) -> __m256 {
    // SAFETY: eight floats are there; the load needs no alignment.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}
