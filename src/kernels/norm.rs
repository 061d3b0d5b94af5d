//! The two norms: root mean square with a weight, and unit length.

use super::dot::dot_body;

kernel! {
    /// `y_i = (x_i / sqrt(mean(x²) + eps)) * weight_i`, the factor rounded once, the weight applied last.
    /// All of one length.
    pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) = rms_norm_body;
}

#[inline(always)]
fn rms_norm_body(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let inverse = inverse_rms(x, eps);
    for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
        *y = (x * inverse) * w;
    }
}

/// `1 / sqrt(mean(x²) + eps)`.
#[inline(always)]
pub(super) fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot_body(x, x) / x.len() as f32 + eps).sqrt()
}

/// What keeps a zero vector finite in [`l2_norm`]. Fixed in the official KDA code, not in `config.json`.
const L2_EPS: f32 = 1e-6;

kernel! {
    /// `x_i *= factor / sqrt(Σ x² + 1e-6)`: the sum, not the mean, and the epsilon inside the root.
    pub fn l2_norm(x: &mut [f32], factor: f32) = l2_norm_body;
}

#[inline(always)]
fn l2_norm_body(x: &mut [f32], factor: f32) {
    let inverse = 1.0 / (dot_body(x, x) + L2_EPS).sqrt();
    for x in x {
        *x = (*x * inverse) * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn rms_norm_divides_by_the_root_of_the_mean() {
        let mut y = [0.0; 2];
        rms_norm(Isa::detect(), &[3.0, 4.0], &[1.0, 2.0], 0.0, &mut y);
        let root = 12.5f32.sqrt();
        assert!((y[0] - 3.0 / root).abs() < 1e-6 && (y[1] - 8.0 / root).abs() < 1e-6);
    }

    #[test]
    fn l2_norm_uses_the_sum_and_its_epsilon() {
        let mut x = [3.0, 4.0];
        l2_norm(Isa::detect(), &mut x, 1.0);
        assert!((x[0] - 0.6).abs() < 1e-6 && (x[1] - 0.8).abs() < 1e-6);
        let mut small = [1e-3, 0.0];
        l2_norm(Isa::detect(), &mut small, 1.0);
        assert!((small[0] - 0.5f32.sqrt()).abs() < 1e-5, "{}", small[0]);
        let mut zero = [0.0; 3];
        l2_norm(Isa::detect(), &mut zero, 1.0);
        assert_eq!(zero, [0.0; 3]);
    }
}
