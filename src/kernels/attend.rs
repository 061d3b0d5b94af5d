//! Latent attention of one head over the cache, in absorbed form: keys and values are never expanded.

use super::dot::{add_scaled_body, dot_body, sum_body};
use super::elementary::exp;
use super::{Bf16, Weights, widen};

/// Positions are attended in blocks of this many, counted from position zero, whatever the chunk of tokens: the
/// running maximum is moved at the same places in every run.
pub const BLOCK: usize = 64;

kernel! {
    /// The query as the latent sees it: `out_j = Σ_i q_i w[i][j]`, in ascending row order. `w` is the head's key rows
    /// of `kv_b_proj`, [q.len()][out.len()].
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

/// The running softmax of one query: what has been attended so far.
#[derive(Clone, Debug)]
pub struct Attended {
    /// The largest score so far.
    max: f32,
    /// Sum of the exponentials, relative to `max`.
    sum: f32,
}

impl Default for Attended {
    fn default() -> Self {
        Self {
            max: f32::NEG_INFINITY,
            sum: 0.0,
        }
    }
}

kernel! {
    /// Attends one query over the cached positions of `cache`, causal by its length: the weighted mean of the latents.
    ///
    /// `cache` is [positions][query.len()], the latent first and the shared key part behind it; `query` is the absorbed
    /// query followed by the shared part; scores are `scale * dot`. `out` has the latent's width.
    pub fn attend(query: &[f32], cache: &[f32], scale: f32, out: &mut [f32]) = attend_body;
}

#[inline(always)]
fn attend_body(query: &[f32], cache: &[f32], scale: f32, out: &mut [f32]) {
    out.fill(0.0);
    let mut state = Attended::default();
    for block in cache.chunks(BLOCK * query.len()) {
        attend_block(query, block, scale, &mut state, out);
    }
    let inverse = 1.0 / state.sum;
    for v in out {
        *v *= inverse;
    }
}

/// One block of positions: scores, the maximum moved once, then values in ascending position.
#[inline(always)]
fn attend_block(query: &[f32], block: &[f32], scale: f32, state: &mut Attended, out: &mut [f32]) {
    let mut weights = [0.0f32; BLOCK];
    let weights = &mut weights[..block.len() / query.len()];
    let mut max = state.max;
    for (w, row) in weights.iter_mut().zip(block.chunks_exact(query.len())) {
        *w = dot_body(query, row) * scale;
        max = max.max(*w);
    }
    for w in weights.iter_mut() {
        *w = exp(*w - max);
    }
    let shrink = exp(state.max - max);
    state.sum = state.sum.mul_add(shrink, sum_body(weights));
    state.max = max;
    for v in out.iter_mut() {
        *v *= shrink;
    }
    for (&w, row) in weights.iter().zip(block.chunks_exact(query.len())) {
        add_scaled_body(out, w, &row[..out.len()]);
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
