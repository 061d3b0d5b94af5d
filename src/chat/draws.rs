//! The generator that sampling draws from: PCG32, seeded by SplitMix64. One for each turn of a conversation, so that a
//! conversation restarted from its history goes on with the same draws.

use rand_pcg::Lcg64Xsh32;
use rand_pcg::rand_core::Rng;

/// The golden ratio in 64 bits, SplitMix64's step.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draws(Lcg64Xsh32);

impl Draws {
    /// The stream of this seed and turn (1 for the first answer).
    pub fn new(seed: u64, turn: u64) -> Self {
        let mut mix = SplitMix(seed ^ turn.wrapping_mul(GOLDEN));
        let state = mix.next();
        Self(Lcg64Xsh32::new(state, mix.next()))
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// The next number in [0, 1), a multiple of 2^-53: 32 bits above, the low 21 of the following below.
    pub fn unit(&mut self) -> f64 {
        let high = u64::from(self.bits()) << 21;
        let low = u64::from(self.bits()) & 0x1f_ffff;
        (high ^ low) as f64 / (1_u64 << 53) as f64
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_stream_of_pcg32() {
        let mut draws = Draws(Lcg64Xsh32::new(42, 54));
        let first: [u32; 6] = std::array::from_fn(|_| draws.bits());
        assert_eq!(
            first,
            [
                0xa15c_02b7,
                0x7b47_f409,
                0xba1d_3330,
                0x83d2_f293,
                0xbfa4_784b,
                0xcbed_606e
            ]
        );
    }

    #[test]
    fn streams_of_seed_and_turn() {
        for (seed, turn, first) in [
            (
                1234,
                5,
                [0x4c2c_bd91, 0x6e5f_007c, 0xd74c_1f7e, 0x224c_d970],
            ),
            (42, 2, [0x810e_5ba9, 0xfe1f_156a, 0xabd4_60e3, 0x2473_3ef7]),
            (0, 1, [0x15d8_cc80, 0x64c2_5292, 0x07e5_d9a7, 0xa5d2_e1ed]),
        ] {
            let mut draws = Draws::new(seed, turn);
            let bits: [u32; 4] = std::array::from_fn(|_| draws.bits());
            assert_eq!(bits, first, "seed {seed}, turn {turn}");
        }
        let mut draws = Draws::new(1234, 5);
        for of_2_to_53 in [
            2_680_161_367_425_148_u64,
            7_575_102_267_644_272,
            150_083_274_211_340,
            3_621_344_239_741_020,
        ] {
            assert_eq!(draws.unit() * (1_u64 << 53) as f64, of_2_to_53 as f64);
        }
    }
}
