//! Seeded numbers for tests. A plain xorshift, the same on every machine; no randomness from outside.

/// 32-bit xorshift with the shifts 13, 17, 5.
#[derive(Clone, Debug)]
pub struct XorShift(u32);

impl XorShift {
    /// From a seed; 0 would stay 0, so it counts as 1.
    pub fn new(seed: u32) -> Self {
        Self(seed.max(1))
    }

    /// Seeded by the FNV-1a hash of a name.
    pub fn named(name: &str) -> Self {
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Self::new(hash)
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// The upper eight of the next bits.
    pub fn byte(&mut self) -> u8 {
        self.bits().to_be_bytes()[0]
    }

    /// Evenly in [-1, 1), exact in f32.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / 8_388_608.0 - 1.0
    }

    /// `count` of [`Self::unit`].
    pub fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }

    /// A number below `end`, which is small.
    pub fn below(&mut self, end: usize) -> usize {
        self.bits() as usize % end
    }

    /// Token ids of a vocabulary.
    pub fn ids(&mut self, count: usize, vocab: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocab) as u32).collect()
    }
}
