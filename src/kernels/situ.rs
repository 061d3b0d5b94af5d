//! The SiTU-GLU activation of every feed-forward network.

use super::elementary::{sigmoid, tanh};

kernel! {
    /// `gate_i = beta tanh(gate_i / beta) · sigmoid(gate_i) · linear_beta tanh(up_i / linear_beta)`, in place in
    /// `gate`. The sigmoid sees the gate before it is bounded. Both of one length.
    pub fn situ(gate: &mut [f32], up: &[f32], beta: f32, linear_beta: f32) = situ_body;
}

#[inline(always)]
fn situ_body(gate: &mut [f32], up: &[f32], beta: f32, linear_beta: f32) {
    for (g, u) in gate.iter_mut().zip(up) {
        let bounded = beta * tanh(*g / beta) * sigmoid(*g);
        *g = bounded * (linear_beta * tanh(*u / linear_beta));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn it_is_bounded_by_the_product_of_the_betas() {
        let mut gate = vec![1000.0, -1000.0, 100.0, 0.0];
        situ(
            Isa::detect(),
            &mut gate,
            &[1000.0, 1000.0, -1000.0, 5.0],
            4.0,
            25.0,
        );
        assert_eq!(gate[0], 100.0);
        assert_eq!(gate[1], 0.0);
        assert_eq!(gate[2], -100.0);
        assert_eq!(gate[3], 0.0);
    }
}
