//! The gated delta rule of KDA: one head, token by token.

use super::elementary::{exp, sigmoid};
use super::lanes::Lanes;

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
    /// Steps of one head, one for each of `beta`. `state` is `[keys][values]`; of each step `q` and `k` are normalised, `q`
    /// scaled, `alpha` is the decay of each key row, `beta` the strength of the write; `q`, `k` and `alpha` are `[steps][keys]`,
    /// `v` and `out` are `[steps][values]`.
    ///
    /// A step in this order: every row is decayed; `u = kᵀ S` is read; `S += k (beta (v - u))ᵀ` is written; `out = qᵀ S` is
    /// read from the written state.
    pub fn delta_steps(
        state: &mut [f32], q: &[f32], k: &[f32], v: &[f32], alpha: &[f32], beta: &[f32], out: &mut [f32],
    ) = delta_steps_body;
}

/// Columns that go together: their sums stay in registers, and enough of them are open that none is waited for. Their part of
/// the state stays in the first-level cache.
const WIDE: usize = 32;

/// As many values, zeros where there are fewer.
type Part = [Lanes; WIDE / 16];

#[inline(always)]
fn delta_steps_body(
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    alpha: &[f32],
    beta: &[f32],
    out: &mut [f32],
) {
    let width = v.len() / beta.len();
    let keys = state.len() / width;
    // In the state the distance between rows is mostly a power of two, which leaves a part of them few places of the cache.
    let mut rows: Vec<Part> = vec![[Lanes::ZERO; WIDE / 16]; keys];
    for start in (0..width).step_by(WIDE) {
        let here = start..(start + WIDE).min(width);
        for (part, row) in rows.iter_mut().zip(state.chunks_exact(width)) {
            fill(part, &row[here.clone()]);
        }
        for (step, &beta) in beta.iter().enumerate() {
            let of_keys = step * keys..(step + 1) * keys;
            let [q, k, alpha] = [q, k, alpha].map(|of| &of[of_keys.clone()]);
            let (v, out) = (&v[step * width..], &mut out[step * width..]);
            let sum = one_step(&mut rows, q, k, &v[here.clone()], alpha, beta);
            take(&sum, &mut out[here.clone()]);
        }
        for (part, row) in rows.iter().zip(state.chunks_exact_mut(width)) {
            take(part, &mut row[here.clone()]);
        }
    }
}

/// A step of one part of the columns, which do not depend on the others. Gives their part of `out`.
#[inline(always)]
fn one_step(rows: &mut [Part], q: &[f32], k: &[f32], v: &[f32], alpha: &[f32], beta: f32) -> Part {
    let mut read = [Lanes::ZERO; WIDE / 16];
    for ((row, &alpha), &k) in rows.iter_mut().zip(alpha).zip(k) {
        for (s, u) in row.iter_mut().zip(&mut read) {
            for s in &mut s.0 {
                *s *= alpha;
            }
            u.fuse(&Lanes([k; 16]), s);
        }
    }
    let mut write = [Lanes::ZERO; WIDE / 16];
    fill(&mut write, v);
    for (write, u) in write.iter_mut().zip(&read) {
        for (write, u) in write.0.iter_mut().zip(&u.0) {
            *write = beta * (*write - u);
        }
    }
    let mut sum = [Lanes::ZERO; WIDE / 16];
    for ((row, &q), &k) in rows.iter_mut().zip(q).zip(k) {
        // A copy, not the row itself: in some builds the compiler took that apart into single numbers.
        let mut written = *row;
        for (s, write) in written.iter_mut().zip(&write) {
            s.fuse(&Lanes([k; 16]), write);
        }
        for (sum, s) in sum.iter_mut().zip(&written) {
            sum.fuse(&Lanes([q; 16]), s);
        }
        *row = written;
    }
    sum
}

#[inline(always)]
fn fill(part: &mut Part, values: &[f32]) {
    // The usual case, of a length that is known here.
    if let Some(whole) = values.first_chunk::<WIDE>() {
        for (lanes, values) in part.iter_mut().zip(whole.as_chunks().0) {
            lanes.0 = *values;
        }
        return;
    }
    for (lanes, values) in part.iter_mut().zip(values.chunks(16)) {
        lanes.0[..values.len()].copy_from_slice(values);
    }
}

#[inline(always)]
fn take(part: &Part, values: &mut [f32]) {
    if let Some(whole) = values.first_chunk_mut::<WIDE>() {
        for (lanes, values) in part.iter().zip(whole.as_chunks_mut().0) {
            *values = lanes.0;
        }
        return;
    }
    for (lanes, values) in part.iter().zip(values.chunks_mut(16)) {
        values.copy_from_slice(&lanes.0[..values.len()]);
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
        delta_steps(
            Isa::detect(),
            &mut state,
            &k,
            &k,
            &v,
            &[1.0; 3],
            &[1.0],
            &mut out,
        );
        assert_eq!(out, v);
        // A second write under the same key replaces it, after the old value has decayed.
        delta_steps(
            Isa::detect(),
            &mut state,
            &k,
            &k,
            &[1.0; 3],
            &[0.5; 3],
            &[1.0],
            &mut out,
        );
        assert_eq!(out, [1.0; 3]);
    }

    #[test]
    fn the_read_sees_the_decayed_state() {
        // S = 4, decay 0.5: u = 2, v - u = 1, S = 2 + 0.25.
        let mut state = vec![4.0];
        let mut out = [0.0];
        delta_steps(
            Isa::detect(),
            &mut state,
            &[1.0],
            &[1.0],
            &[3.0],
            &[0.5],
            &[0.25],
            &mut out,
        );
        assert_eq!(out, [2.25]);
    }

    #[test]
    fn several_steps_over_many_columns_are_each_step_and_column_alone() {
        // Two blocks of columns and a rest.
        let (keys, width, steps) = (7, 70, 3);
        let some = |n: usize, seed: usize| -> Vec<f32> {
            let value = |i: usize| ((i * 37 + seed) % 101) as f32 / 50.0 - 1.0;
            (0..n).map(value).collect()
        };
        let [q, k, alpha] = [1, 2, 3].map(|seed| some(steps * keys, seed));
        let (v, state, beta) = (
            some(steps * width, 4),
            some(keys * width, 5),
            [0.7, 0.2, 1.0],
        );
        for isa in Isa::all() {
            let (mut all, mut out) = (state.clone(), vec![0.0; steps * width]);
            delta_steps(isa, &mut all, &q, &k, &v, &alpha, &beta, &mut out);
            for c in 0..width {
                let mut one: Vec<f32> = state.iter().skip(c).step_by(width).copied().collect();
                for t in 0..steps {
                    let of = |x: &[f32]| x[t * keys..][..keys].to_vec();
                    let (v, mut got) = (&v[t * width + c..][..1], [0.0]);
                    let (isa, beta) = (Isa::portable(), &beta[t..=t]);
                    delta_steps(
                        isa,
                        &mut one,
                        &of(&q),
                        &of(&k),
                        v,
                        &of(&alpha),
                        beta,
                        &mut got,
                    );
                    assert_eq!(out[t * width + c], got[0]);
                }
                assert!(all.iter().skip(c).step_by(width).eq(&one));
            }
        }
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
