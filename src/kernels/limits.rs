//! What bounds every other kernel: reading memory and doing nothing with it, and multiplying without reading. For
//! measuring; no result of the network comes from here.

use super::lanes::Lanes;

kernel! {
    /// Reads every byte once; the sum of its 64-bit words keeps the reads from being left out.
    pub fn read_all(bytes: &[u8]) -> u64 = read_all_body;
}

#[inline(always)]
fn read_all_body(bytes: &[u8]) -> u64 {
    // As wide as a cache line, four lines a step, so that no sum waits for another.
    let mut sums = [0u64; 32];
    for block in bytes.as_chunks::<256>().0 {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// Multiply-adds of one step of [`fuse_all`].
pub const FUSED: usize = 16 * CHAINS;
/// Independent sums: enough that the fused units never wait, few enough to stay in registers.
const CHAINS: usize = 6;

kernel! {
    /// `steps` times [`FUSED`] multiply-adds on values that never leave the registers.
    pub fn fuse_all(steps: usize, factor: f32, value: f32) -> f32 = fuse_all_body;
}

#[inline(always)]
fn fuse_all_body(steps: usize, factor: f32, value: f32) -> f32 {
    let (factor, value) = (Lanes([factor; 16]), Lanes([value; 16]));
    let mut sums = [Lanes::ZERO; CHAINS];
    for (i, sum) in sums.iter_mut().enumerate() {
        sum.0[i] = i as f32;
    }
    for _ in 0..steps {
        for sum in &mut sums {
            // The sum is a factor, so that no step can be taken together with the next.
            let before = *sum;
            *sum = value;
            sum.fuse(&before, &factor);
        }
    }
    sums.iter().map(Lanes::reduce).sum()
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn every_whole_block_is_read() {
        let bytes: Vec<u8> = (0..1024u32).map(|i| (i % 251) as u8).collect();
        let words = bytes.as_chunks::<8>().0.iter();
        let want = words.fold(0u64, |s, w| s.wrapping_add(u64::from_ne_bytes(*w)));
        for isa in Isa::all() {
            assert_eq!(read_all(isa, &bytes), want);
        }
    }

    #[test]
    fn every_step_is_taken() {
        // x -> x / 2 + 1 from zero and from `i` in one lane of each chain: after two steps 1.5, and i / 4 more.
        let lanes = 16.0 * CHAINS as f32 * 1.5;
        let more: f32 = (0..CHAINS).map(|i| i as f32 / 4.0).sum();
        for isa in Isa::all() {
            assert_eq!(fuse_all(isa, 2, 0.5, 1.0), lanes + more);
        }
    }
}
