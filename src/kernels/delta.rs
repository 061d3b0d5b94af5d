//! The gated delta rule of KDA: one head, one token.

use super::dot::add_scaled_body;
use super::elementary::{exp, sigmoid};

kernel! {
    /// The decay of one head: `alpha_d = exp(lower_bound · sigmoid(exp(a_log) · (z_d + dt_bias_d)))`, in place in `z`.
    pub fn decay(z: &mut [f32], a_log: f32, dt_bias: &[f32], lower_bound: f32) = decay_body;
}

#[inline(always)]
fn decay_body(z: &mut [f32], a_log: f32, dt_bias: &[f32], lower_bound: f32) {
    let rate = exp(a_log);
    for (z, bias) in z.iter_mut().zip(dt_bias) {
        *z = exp(lower_bound * sigmoid(rate * (*z + bias)));
    }
}

kernel! {
    /// One step of one head. `state` is `[keys][values]`; `q` and `k` are normalised, `q` scaled, `alpha` is the decay of
    /// each key row, `beta` the strength of the write; `out` is as wide as `v`.
    ///
    /// In this order: every row is decayed; `u = kᵀ S` is read; `S += k (beta (v - u))ᵀ` is written; `out = qᵀ S` is
    /// read from the written state.
    pub fn delta_step(
        state: &mut [f32], q: &[f32], k: &[f32], v: &[f32], alpha: &[f32], beta: f32, out: &mut [f32],
    ) = delta_step_body;
}

#[inline(always)]
fn delta_step_body(
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    alpha: &[f32],
    beta: f32,
    out: &mut [f32],
) {
    let width = v.len();
    // `out` holds u, then beta (v - u), until the state is written; a few values wide enough to stay in registers.
    const WIDE: usize = 32;
    let mut start = 0;
    while start < width {
        let end = (start + WIDE).min(width);
        let mut read = [0.0f32; WIDE];
        let read = &mut read[..end - start];
        for ((row, &a), &k) in state.chunks_exact_mut(width).zip(alpha).zip(k) {
            for (s, u) in row[start..end].iter_mut().zip(read.iter_mut()) {
                *s *= a;
                *u = k.mul_add(*s, *u);
            }
        }
        for (u, v) in read.iter_mut().zip(&v[start..end]) {
            *u = beta * (v - *u);
        }
        let mut sum = [0.0f32; WIDE];
        let sum = &mut sum[..end - start];
        for ((row, &q), &k) in state.chunks_exact_mut(width).zip(q).zip(k) {
            let row = &mut row[start..end];
            add_scaled_body(row, k, read);
            add_scaled_body(sum, q, row);
        }
        out[start..end].copy_from_slice(sum);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn what_was_written_under_a_key_is_read_back_by_it() {
        let (k, v) = ([0.0, 1.0, 0.0], [3.0, -2.0, 5.0]);
        let mut state = vec![0.0; 9];
        let mut out = [0.0; 3];
        delta_step(
            Isa::detect(),
            &mut state,
            &k,
            &k,
            &v,
            &[1.0; 3],
            1.0,
            &mut out,
        );
        assert_eq!(out, v);
        // A second write under the same key replaces it, after the old value has decayed.
        delta_step(
            Isa::detect(),
            &mut state,
            &k,
            &k,
            &[1.0; 3],
            &[0.5; 3],
            1.0,
            &mut out,
        );
        assert_eq!(out, [1.0; 3]);
    }

    #[test]
    fn the_read_sees_the_decayed_state() {
        // S = 4, decay 0.5: u = 2, v - u = 1, S = 2 + 0.25.
        let mut state = vec![4.0];
        let mut out = [0.0];
        delta_step(
            Isa::detect(),
            &mut state,
            &[1.0],
            &[1.0],
            &[3.0],
            &[0.5],
            0.25,
            &mut out,
        );
        assert_eq!(out, [2.25]);
    }

    #[test]
    fn decay_lies_between_the_bound_and_one() {
        let mut z = [-1000.0, 0.0, 1000.0];
        decay(Isa::detect(), &mut z, 0.0, &[0.0; 3], -5.0);
        assert_eq!(z[0], 1.0);
        assert!((z[1] - (-2.5f32).exp()).abs() < 1e-7);
        assert!((z[2] - (-5f32).exp()).abs() < 1e-9);
    }
}
