//! Arithmetic: pure functions on slices. No I/O, no configuration, no threads, nothing that outlives a call but room to work in.
//!
//! # The numeric contract
//! Activations, state and sums are f32. Weights are widened exactly. Every product is fused into its sum
//! (one rounding). A dot product has sixteen lanes: element `i` goes into lane `i mod 16`, the tail is padded with
//! zeros, and the lanes are reduced by halves (8, 4, 2, 1). A sum over stored rows (convolution taps, recurrent
//! state, absorbed keys, attended values, residual sources, experts) goes in ascending row order, one fused step a
//! row. Each kernel is written once over sixteen explicit lanes and compiled again for each instruction set, so
//! the bits of a result depend on neither the instruction set, nor threads, nor on how many tokens are computed
//! together.

#[macro_use]
mod isa;
mod attend;
mod conv;
mod delta;
mod dot;
mod elementary;
mod few;
mod lanes;
pub mod limits;
mod matmat;
mod matmul;
mod matvec;
mod mix;
mod mxfp4;
mod norm;
mod panel;
mod results;
mod route;
mod rows;
mod situ;
mod tokens;
mod turn;

pub use attend::{BLOCK, QUERIES, QUERIES_TOGETHER, absorb, attend, attend_several};
pub use conv::short_conv;
pub use delta::{decay, delta_steps};
pub use dot::{add, add_scaled, dot};
pub use elementary::{exp, gate, sigmoid, tanh};
pub use isa::Isa;
pub use matmat::room_bytes;
pub use matmul::{Weights, matmul, multiply, rows_together};
pub use mix::mix;
pub use mxfp4::{GROUP, dequantise};
pub use norm::{l2_norm, rms_norm};
pub use results::Results;
pub use route::{Choice, route};
pub use situ::situ;
pub use tokens::{Tokens, Unplaced};

/// A weight in bf16 as it stands in a file: two little-endian bytes, at any alignment.
pub type Bf16 = [u8; 2];

/// The value of a bf16 number, exact for every pattern.
#[inline(always)]
pub fn widen(weight: Bf16) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(weight)) << 16)
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the cache line at `place` ahead of its use. It may be anywhere: a line that is not there is not fetched.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it reads nothing that the program could see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Positions of the largest value; the first of several equal ones. Nothing for an empty slice; a NaN never wins.
pub fn argmax(values: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (i, &v) in values.iter().enumerate() {
        if !v.is_nan() && best.is_none_or(|(_, b)| v > b) {
            best = Some((i, v));
        }
    }
    best.map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_values_is_the_greatest() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0, f32::NAN]), Some(1));
        assert_eq!(argmax(&[f32::NAN, -2.0]), Some(1));
        assert_eq!(argmax(&[]), None);
    }

    #[test]
    fn bf16_is_the_upper_half_of_an_f32() {
        for bits in 0..=u16::MAX {
            let wide = widen(bits.to_le_bytes());
            assert_eq!(wide.to_bits(), u32::from(bits) << 16);
        }
    }
}
