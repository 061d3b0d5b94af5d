//! Latent attention of one head over the cache, in absorbed form: keys and values are never expanded.

use super::dot::{add_scaled_body, sum_body};
use super::elementary::exp;
use super::lanes::{Half, Lanes, split};
use super::{Bf16, LINE, Weights, prefetch, widen};

/// Positions are attended in blocks of this many, counted from position zero, whatever the chunk of tokens: the
/// running maximum is moved at the same places in every run.
pub const BLOCK: usize = 64;

kernel! {
    /// The query as the latent sees it: `out_j = Σ_i q_i w[i][j]`, in ascending row order. `w` is the head's key rows
    /// of `kv_b_proj`, `[q.len()][out.len()]`.
    pub fn absorb(w: Weights<'_>, q: &[f32], out: &mut [f32]) = absorb_body;
}

#[inline(always)]
fn absorb_body(w: Weights<'_>, q: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    let width = out.len();
    match w {
        Weights::F32(w) => {
            for (row, &q) in w.chunks_exact(width).zip(q) {
                add_scaled_body(out, q, row);
            }
        }
        Weights::Bf16(w) => {
            for (row, &q) in w.chunks_exact(width).zip(q) {
                add_scaled_bf16(out, q, row);
            }
        }
        // The trunk has no four-bit matrices: `stream` hands out none.
        Weights::Mxfp4 { .. } => debug_assert!(false, "attention has no MXFP4 weights"),
    }
}

#[inline(always)]
fn add_scaled_bf16(y: &mut [f32], factor: f32, a: &[Bf16]) {
    for (y, a) in y.iter_mut().zip(a) {
        *y = factor.mul_add(widen(*a), *y);
    }
}

/// Most queries of [`attend_several`]. Every block of the cache is fetched from memory once for all of them.
pub const QUERIES: usize = 16;
/// Queries for which a cached row is fetched once from the nearer caches; their number is best a multiple of it.
pub const QUERIES_TOGETHER: usize = 4;
/// Cached rows that are scored at once.
const ROWS: usize = 3;
/// Rows that are asked for ahead of their use. They are too short for the machine to see them coming.
const AHEAD: usize = 6 * ROWS;

kernel! {
    /// Attends one query over the cached positions of `cache`, causal by its length: the weighted mean of the latents.
    ///
    /// `cache` is `[positions][query.len()]`, the latent first and the shared key part behind it; `query` is the absorbed
    /// query followed by the shared part; scores are `scale * dot`. `out` has the latent's width.
    pub fn attend(query: &[f32], cache: &[f32], scale: f32, out: &mut [f32]) = attend_body;
}

#[inline(always)]
fn attend_body(query: &[f32], cache: &[f32], scale: f32, out: &mut [f32]) {
    several_body(query, &[cache.len() / query.len()], cache, scale, out);
}

kernel! {
    /// [`attend`] for up to [`QUERIES`] queries, `[queries][width]`, each over the first `seen` positions of `cache`. `out` is
    /// `[queries][latent]`.
    pub fn attend_several(queries: &[f32], seen: &[usize], cache: &[f32], scale: f32, out: &mut [f32]) = several_body;
}

#[inline(always)]
fn several_body(queries: &[f32], seen: &[usize], cache: &[f32], scale: f32, out: &mut [f32]) {
    let (width, latent) = (queries.len() / seen.len(), out.len() / seen.len());
    debug_assert!(seen.len() <= QUERIES);
    out.fill(0.0);
    let mut states = [Attended {
        max: f32::NEG_INFINITY,
        sum: 0.0,
    }; QUERIES];
    let most = seen.iter().copied().max().unwrap_or(0);
    for (b, block) in cache[..most * width].chunks(BLOCK * width).enumerate() {
        let mut here = [0; QUERIES];
        for (here, seen) in here.iter_mut().zip(seen) {
            *here = seen.saturating_sub(b * BLOCK).min(BLOCK);
        }
        let groups = queries
            .chunks(QUERIES_TOGETHER * width)
            .zip(out.chunks_mut(QUERIES_TOGETHER * latent))
            .zip(states.chunks_mut(QUERIES_TOGETHER))
            .zip(here.chunks(QUERIES_TOGETHER));
        for (((queries, out), states), here) in groups {
            if queries.len() == QUERIES_TOGETHER * width {
                together::<QUERIES_TOGETHER>(queries, here, block, scale, states, out);
                continue;
            }
            let each = queries.chunks(width).zip(out.chunks_mut(latent));
            for (q, (query, out)) in each.enumerate() {
                together::<1>(query, &here[q..], block, scale, &mut states[q..], out);
            }
        }
    }
    for (state, out) in states.iter().zip(out.chunks_mut(latent)) {
        let inverse = 1.0 / state.sum;
        for v in out {
            *v *= inverse;
        }
    }
}

/// The running softmax of one query: what has been attended so far.
#[derive(Clone, Copy)]
struct Attended {
    /// The largest score so far.
    max: f32,
    /// Sum of the exponentials, relative to `max`.
    sum: f32,
}

/// `Q` queries over one block of the cache, each over the first `here` rows of it.
#[inline(always)]
fn together<const Q: usize>(
    queries: &[f32],
    here: &[usize],
    block: &[f32],
    scale: f32,
    states: &mut [Attended],
    out: &mut [f32],
) {
    let (width, latent) = (queries.len() / Q, out.len() / Q);
    let mut rows = [0; Q];
    rows.copy_from_slice(&here[..Q]);
    let most = rows.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let block = &block[..most * width];
    let mut each = queries.chunks_exact(width);
    let queries: [&[f32]; Q] = std::array::from_fn(|_| each.next().unwrap_or_default());
    let mut each = out.chunks_exact_mut(latent);
    let mut out: [&mut [f32]; Q] = std::array::from_fn(|_| each.next().unwrap_or_default());
    let mut scores = [[0.0f32; Q]; BLOCK];
    score(queries, block, &mut scores);
    for q in 0..Q {
        if rows[q] > 0 {
            soften(&mut scores, q, rows[q], scale, &mut states[q], out[q]);
        }
    }
    add_values(&scores, rows, block, width, &mut out);
}

/// The products of every query with every row of a block.
#[inline(always)]
fn score<const Q: usize>(queries: [&[f32]; Q], block: &[f32], scores: &mut [[f32; Q]; BLOCK]) {
    let width = queries[0].len();
    let rows = block.len() / width;
    let row = |r: usize| &block[r * width..][..width];
    let mut r = 0;
    while r + ROWS <= rows {
        let next = block
            .as_ptr()
            .wrapping_add((r + AHEAD) * width)
            .cast::<u8>();
        for line in (0..ROWS * width * size_of::<f32>()).step_by(LINE) {
            prefetch(next.wrapping_add(line));
        }
        let dots = dots(queries, std::array::from_fn::<_, ROWS, _>(|i| row(r + i)));
        scores[r..r + ROWS].copy_from_slice(&dots);
        r += ROWS;
    }
    for (r, scores) in scores[..rows].iter_mut().enumerate().skip(r) {
        [*scores] = dots(queries, [row(r)]);
    }
}

/// [`super::dot`] of `R` rows with `Q` queries: half of the lanes, then the other half, so that all sums stay in registers.
#[inline(always)]
fn dots<const Q: usize, const R: usize>(queries: [&[f32]; Q], rows: [&[f32]; R]) -> [[f32; Q]; R] {
    let mut low = [[Half::ZERO; Q]; R];
    let mut high = [[Half::ZERO; Q]; R];
    half_dots::<Q, R, 0>(queries, rows, &mut low);
    half_dots::<Q, R, 1>(queries, rows, &mut high);
    std::array::from_fn(|r| std::array::from_fn(|q| low[r][q].reduce_with(&high[r][q])))
}

#[inline(always)]
fn half_dots<const Q: usize, const R: usize, const H: usize>(
    queries: [&[f32]; Q],
    rows: [&[f32]; R],
    sums: &mut [[Half; Q]; R],
) {
    let mut open = *sums;
    let full = queries[0].len() / 16;
    let (mut whole_queries, mut whole_rows) = ([&[][..]; Q], [&[][..]; R]);
    for (whole, query) in whole_queries.iter_mut().zip(queries) {
        *whole = &query.as_chunks::<16>().0[..full];
    }
    for (whole, row) in whole_rows.iter_mut().zip(rows) {
        *whole = &row.as_chunks::<16>().0[..full];
    }
    for c in 0..full {
        let rows: [Half; R] =
            std::array::from_fn(|r| Half::of(&whole_rows[r][c][H * 8..H * 8 + 8]));
        for q in 0..Q {
            let query = Half::of(&whole_queries[q][c][H * 8..H * 8 + 8]);
            for r in 0..R {
                open[r][q].fuse(&query, &rows[r]);
            }
        }
    }
    for r in 0..R {
        for q in 0..Q {
            let tails = (split(queries[q]).1, split(rows[r]).1);
            if let (Some(query), Some(row)) = tails {
                let half = |lanes: &[f32; 16]| Half::of(&lanes[H * 8..H * 8 + 8]);
                open[r][q].fuse(&half(&query.0), &half(&row.0));
            }
        }
    }
    *sums = open;
}

/// Turns a query's first `rows` scores of a block into weights; the maximum is moved once, and what was attended before
/// shrinks by as much.
#[inline(always)]
fn soften<const Q: usize>(
    scores: &mut [[f32; Q]; BLOCK],
    q: usize,
    rows: usize,
    scale: f32,
    state: &mut Attended,
    out: &mut [f32],
) {
    let mut weights = [0.0f32; BLOCK];
    let weights = &mut weights[..rows];
    for (w, scores) in weights.iter_mut().zip(scores.iter()) {
        *w = scores[q] * scale;
    }
    let max = state.max.max(largest(weights));
    for w in weights.iter_mut() {
        *w = exp(*w - max);
    }
    let shrink = exp(state.max - max);
    state.sum = state.sum.mul_add(shrink, sum_body(weights));
    state.max = max;
    for v in out.iter_mut() {
        *v *= shrink;
    }
    for (w, scores) in weights.iter().zip(scores) {
        scores[q] = *w;
    }
}

/// The largest of some values; a NaN never is. Lane by lane, which changes nothing here.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let (full, tail) = values.as_chunks::<16>();
    let mut lanes = [f32::NEG_INFINITY; 16];
    for values in full {
        for l in 0..16 {
            lanes[l] = lanes[l].max(values[l]);
        }
    }
    let all = lanes.iter().chain(tail);
    all.copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Values of a block in ascending position: as far as all queries see it together, then each alone.
#[inline(always)]
fn add_values<const Q: usize>(
    weights: &[[f32; Q]; BLOCK],
    here: [usize; Q],
    block: &[f32],
    width: usize,
    out: &mut [&mut [f32]; Q],
) {
    let all = here.iter().copied().min().unwrap_or(0);
    let latent = out[0].len();
    let whole = latent / 16 * 16;
    for j in (0..whole).step_by(16) {
        let mut sums = [Lanes::ZERO; Q];
        for q in 0..Q {
            sums[q].0.copy_from_slice(&out[q][j..j + 16]);
        }
        for (weights, row) in weights[..all].iter().zip(block.chunks_exact(width)) {
            let mut values = Lanes::ZERO;
            values.0.copy_from_slice(&row[j..j + 16]);
            for q in 0..Q {
                sums[q].fuse(&Lanes([weights[q]; 16]), &values);
            }
        }
        for q in 0..Q {
            out[q][j..j + 16].copy_from_slice(&sums[q].0);
        }
    }
    for q in 0..Q {
        let seen = weights[..here[q]].iter().zip(block.chunks_exact(width));
        for (s, (weights, row)) in seen.enumerate() {
            let from = if s < all { whole } else { 0 };
            add_scaled_body(&mut out[q][from..], weights[q], &row[from..latent]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn it_is_a_softmax_over_positions() {
        // 150 positions, so that three blocks are crossed; the largest score is in the last.
        let (n, width) = (150, 5);
        let cache: Vec<f32> = (0..n * width)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0)
            .collect();
        let mut cache = cache;
        cache[149 * width] = 9.0;
        let query = [0.7, -0.3, 0.2, 0.9, -0.5];
        let scores: Vec<f64> = cache
            .chunks(width)
            .map(|row| {
                row.iter()
                    .zip(query)
                    .map(|(a, b)| f64::from(*a) * f64::from(b))
                    .sum::<f64>()
                    * 0.5
            })
            .collect();
        let z: f64 = scores.iter().map(|s| s.exp()).sum();
        for isa in Isa::all() {
            let mut out = [0.0f32; 3];
            attend(isa, &query, &cache, 0.5, &mut out);
            for (j, got) in out.iter().enumerate() {
                let want: f64 = (0..n)
                    .map(|s| scores[s].exp() / z * f64::from(cache[s * width + j]))
                    .sum();
                assert!((f64::from(*got) - want).abs() < 1e-5, "{got} {want}");
            }
        }
    }

    #[test]
    fn several_queries_together_have_the_bits_of_each_alone() {
        // Tails in width and latent; borders of blocks between the queries, and one far behind the others.
        let (width, latent, positions) = (53, 37, 200);
        let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 40.0;
        let cache: Vec<f32> = (0..positions * width).map(value).collect();
        for seen in [
            &[63, 64, 65, 66][..],
            &[200, 1, 128, 129],
            &[70, 70, 70, 70],
            &[5, 6, 7],
            &[1, 200, 64, 65, 130, 5, 6, 7, 8, 199, 128],
            &[200; 16],
        ] {
            let n = seen.len();
            let queries: Vec<f32> = (0..n * width).map(|i| value(i * 7 + 3)).collect();
            for isa in Isa::all() {
                let mut together = vec![f32::NAN; n * latent];
                attend_several(isa, &queries, seen, &cache, 0.3, &mut together);
                for (q, together) in together.chunks(latent).enumerate() {
                    let query = &queries[q * width..][..width];
                    let mut alone = vec![f32::NAN; latent];
                    let cache = &cache[..seen[q] * width];
                    attend(Isa::portable(), query, cache, 0.3, &mut alone);
                    assert_eq!(together, alone, "{seen:?} {q}");
                }
            }
        }
    }

    #[test]
    fn the_longest_context_is_attended_to_its_end() {
        // 131,072 positions with equal scores but one, in the last block: a mean, and that one's share.
        let (positions, width) = (131_072, 3);
        let mut cache = vec![0.0f32; positions * width];
        for (s, row) in cache.chunks_exact_mut(width).enumerate() {
            row[0] = (s % 2) as f32;
        }
        let last = positions - 5;
        (cache[last * width], cache[last * width + 2]) = (3.0, 12.0);
        let mut out = [0.0];
        attend(Isa::detect(), &[0.0, 0.0, 1.0], &cache, 1.0, &mut out);
        let e = 12f64.exp();
        let others = positions as f64 - 1.0;
        let want = (65_535.0 + 3.0 * e) / (others + e);
        assert!((f64::from(out[0]) - want).abs() < 1e-5, "{} {want}", out[0]);
    }

    #[test]
    fn very_large_scores_do_not_overflow() {
        let mut out = [0.0f32];
        attend(
            Isa::detect(),
            &[1.0],
            &[900.0, -900.0, 899.0],
            1.0,
            &mut out,
        );
        assert!((out[0] - (900.0 + 899.0 * (-1f32).exp()) / (1.0 + (-1f32).exp())).abs() < 1e-3);
    }

    #[test]
    fn absorbing_is_a_product_with_the_transposed_keys() {
        let w = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut out = [0.0; 3];
        absorb(Isa::detect(), Weights::F32(&w), &[10.0, 1.0], &mut out);
        assert_eq!(out, [14.0, 25.0, 36.0]);
    }
}
