//! Sixteen f32 side by side: the unit in which every dot product is summed.

/// Sixteen lanes.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Lanes(pub [f32; 16]);

impl Lanes {
    pub const ZERO: Self = Self([0.0; 16]);

    /// One fused step in every lane: `self += a * b`.
    #[inline(always)]
    pub fn fuse(&mut self, a: &Self, b: &Self) {
        for l in 0..16 {
            self.0[l] = a.0[l].mul_add(b.0[l], self.0[l]);
        }
    }

    /// `self += a`, lane by lane.
    #[inline(always)]
    pub fn add(&mut self, a: &Self) {
        for l in 0..16 {
            self.0[l] += a.0[l];
        }
    }

    /// The lanes' sum, by halves: 8, 4, 2, 1.
    #[inline(always)]
    pub fn reduce(&self) -> f32 {
        let mut v = self.0;
        for half in [8, 4, 2, 1] {
            for l in 0..half {
                v[l] += v[l + half];
            }
        }
        v[0]
    }
}

/// Half of the lanes: where sums of many results are open at once, they stay in registers a half at a time, either the lower and
/// the upper ones or, what reducing by halves never crosses but in its last step, the even and the odd ones.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct Half(pub [f32; 8]);

impl Half {
    pub const ZERO: Self = Self([0.0; 8]);

    /// From eight values.
    #[inline(always)]
    pub fn of(values: &[f32]) -> Self {
        let mut half = Self::ZERO;
        half.0.copy_from_slice(values);
        half
    }

    /// Every second of sixteen values, from `first` on, 0 or 1.
    #[inline(always)]
    pub fn every_second(values: &[f32; 16], first: usize) -> Self {
        let mut half = Self::ZERO;
        for (half, pair) in half.0.iter_mut().zip(values.as_chunks::<2>().0) {
            *half = pair[first];
        }
        half
    }

    /// One fused step in every lane: `self += a * b`.
    #[inline(always)]
    pub fn fuse(&mut self, a: &Self, b: &Self) {
        for l in 0..8 {
            self.0[l] = a.0[l].mul_add(b.0[l], self.0[l]);
        }
    }

    /// [`Lanes::reduce`] of the lower lanes with the upper ones.
    #[inline(always)]
    pub fn reduce_with(&self, upper: &Self) -> f32 {
        let mut lanes = *self;
        for (lane, upper) in lanes.0.iter_mut().zip(&upper.0) {
            *lane += upper;
        }
        lanes.reduce()
    }

    /// The sum of the even lanes as [`Lanes::reduce`] has it before it adds that of the odd ones, or that one.
    #[inline(always)]
    pub fn reduce(&self) -> f32 {
        let mut v = self.0;
        for half in [4, 2, 1] {
            for l in 0..half {
                v[l] += v[l + half];
            }
        }
        v[0]
    }
}

/// A slice cut into lanes; the tail is padded with zeros.
#[inline(always)]
pub(super) fn split(values: &[f32]) -> (&[[f32; 16]], Option<Lanes>) {
    let (full, tail) = values.as_chunks::<16>();
    (full, pad(tail, |v| v))
}

/// Up to fifteen elements widened into lanes, zeros behind them. Nothing where there is no tail.
#[inline(always)]
pub(super) fn pad<E: Copy>(tail: &[E], widen: impl Fn(E) -> f32) -> Option<Lanes> {
    if tail.is_empty() {
        return None;
    }
    let mut lanes = Lanes::ZERO;
    for (lane, &v) in lanes.0.iter_mut().zip(tail) {
        *lane = widen(v);
    }
    Some(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_reduced_by_halves() {
        // Values whose sum depends on the order: 2^24 swallows a single one, but not a pair.
        let mut v = [0.0f32; 16];
        v[0] = 16_777_216.0;
        v[1] = 1.0;
        v[9] = 1.0;
        // By halves: lane 1 becomes 2 first, then joins lane 0.
        assert_eq!(Lanes(v).reduce(), 16_777_218.0);
        v[9] = 0.0;
        v[8] = 1.0;
        // Lane 0 takes 1 (lost), then 1 again (lost).
        assert_eq!(Lanes(v).reduce(), 16_777_216.0);
    }

    #[test]
    fn even_and_odd_lanes_are_reduced_apart_to_the_same_bits() {
        let mut s = 7u32;
        for _ in 0..1000 {
            let v: [f32; 16] = std::array::from_fn(|_| {
                s ^= s << 13;
                s ^= s >> 17;
                s ^= s << 5;
                f32::from_bits(s % 0x0100_0000 + 0x3f00_0000)
            });
            let [even, odd] = [0, 1].map(|h| Half::every_second(&v, h).reduce());
            assert_eq!((even + odd).to_bits(), Lanes(v).reduce().to_bits());
        }
    }
}
