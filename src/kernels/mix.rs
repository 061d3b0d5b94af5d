//! The attention residual: a softmax-weighted mix of earlier residual streams.

use super::dot::{add_scaled_body, dot_body, sum_body};
use super::elementary::exp;
use super::norm::inverse_rms;

kernel! {
    /// `out = Σ_s p_s v_s` over the raw sources, with `p = softmax(Σ_i fold_i v_si / rms(v_s))`.
    ///
    /// `fold` is the mix's norm weight times its projection. Sources are ordered oldest block first, the running
    /// residual last; there is at least one. All of one width.
    pub fn mix(sources: &[&[f32]], fold: &[f32], eps: f32, out: &mut [f32]) = mix_body;
}

#[inline(always)]
fn mix_body(sources: &[&[f32]], fold: &[f32], eps: f32, out: &mut [f32]) {
    // No closure: it would be compiled without the instruction set of the kernel.
    let mut p = vec![0.0; sources.len()];
    for (p, v) in p.iter_mut().zip(sources) {
        *p = dot_body(fold, v) * inverse_rms(v, eps);
    }
    let max = p.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for p in p.iter_mut() {
        *p = exp(*p - max);
    }
    let inverse = 1.0 / sum_body(&p);
    out.fill(0.0);
    for (p, source) in p.iter().zip(sources) {
        add_scaled_body(out, p * inverse, source);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn one_source_comes_out_as_it_is() {
        let v = [1.5, -2.25, 1e-30];
        let mut out = [0.0; 3];
        mix(Isa::detect(), &[&v], &[1.0, 2.0, 3.0], 1e-5, &mut out);
        assert_eq!(out, v);
    }

    #[test]
    fn the_scores_see_normalised_sources_and_the_sum_raw_ones() {
        // Both sources have the same direction, so the same score, and different lengths.
        let (a, b) = ([1.0, 0.0], [100.0, 0.0]);
        let mut out = [0.0; 2];
        mix(Isa::detect(), &[&a, &b], &[3.0, 0.0], 0.0, &mut out);
        assert!((out[0] - 50.5).abs() < 1e-4, "{out:?}");
    }
}
