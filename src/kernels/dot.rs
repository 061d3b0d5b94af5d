//! Sums of products over two vectors, and sums of vectors.

use super::lanes::{Lanes, split};

kernel! {
    /// `Σ a_i b_i` in sixteen lanes. Both of one length.
    pub fn dot(a: &[f32], b: &[f32]) -> f32 = dot_body;
}

#[inline(always)]
pub(super) fn dot_body(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len());
    let ((a, a_tail), (b, b_tail)) = (split(a), split(b));
    let mut sum = Lanes::ZERO;
    for (a, b) in a.iter().zip(b) {
        sum.fuse(&Lanes(*a), &Lanes(*b));
    }
    if let (Some(a), Some(b)) = (a_tail, b_tail) {
        sum.fuse(&a, &b);
    }
    sum.reduce()
}

/// `Σ a_i` in sixteen lanes.
#[inline(always)]
pub(super) fn sum_body(a: &[f32]) -> f32 {
    let (full, tail) = split(a);
    let mut sum = Lanes::ZERO;
    for a in full {
        sum.add(&Lanes(*a));
    }
    if let Some(a) = tail {
        sum.add(&a);
    }
    sum.reduce()
}

kernel! {
    /// `y_i += a_i`.
    pub fn add(y: &mut [f32], a: &[f32]) = add_body;
}

#[inline(always)]
fn add_body(y: &mut [f32], a: &[f32]) {
    for (y, a) in y.iter_mut().zip(a) {
        *y += a;
    }
}

kernel! {
    /// One fused step a value: `y_i += factor * a_i`.
    pub fn add_scaled(y: &mut [f32], factor: f32, a: &[f32]) = add_scaled_body;
}

#[inline(always)]
pub(super) fn add_scaled_body(y: &mut [f32], factor: f32, a: &[f32]) {
    for (y, a) in y.iter_mut().zip(a) {
        *y = factor.mul_add(*a, *y);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn element_i_is_summed_in_lane_i_mod_16() {
        // 1e8 at 0 and -1e8 at 16 cancel only if both are in lane 0 before anything else joins.
        let mut a = vec![0.0f32; 40];
        a[0] = 1e8;
        a[16] = -1e8;
        a[1] = 1.0;
        a[39] = 0.25;
        let ones = vec![1.0; 40];
        for isa in Isa::all() {
            assert_eq!(dot(isa, &a, &ones), 1.25);
        }
    }

    #[test]
    fn products_are_fused() {
        // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term survives only if the product is not rounded.
        let x = 1.0 + 2f32.powi(-12);
        let mut a = vec![0.0f32; 17];
        let mut b = vec![0.0f32; 17];
        (a[0], b[0]) = (-1.0, 1.0 + 2f32.powi(-11));
        (a[16], b[16]) = (x, x);
        for isa in Isa::all() {
            assert_eq!(dot(isa, &a, &b), 2f32.powi(-24));
        }
    }

    #[test]
    fn an_empty_dot_product_is_zero() {
        assert_eq!(dot(Isa::portable(), &[], &[]).to_bits(), 0);
    }
}
