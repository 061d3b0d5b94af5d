//! What bounds every other kernel: reading memory and doing nothing with it, and multiplying without reading. For
//! measuring; no result of the network comes from here.

kernel! {
    /// Reads every byte of whole cache lines once; the sum of its 64-bit words keeps the reads from being left out.
    pub fn read_all(bytes: &[u8]) -> u64 = read_all_body;
}

/// Streams of a thread, as many as there are rows in a product of one token: memory hands out several faster than one.
const STREAMS: usize = 4;

#[inline(always)]
fn read_all_body(bytes: &[u8]) -> u64 {
    let lines = bytes.as_chunks::<64>().0;
    let (even, rest) = lines.split_at(lines.len() / STREAMS * STREAMS);
    let stream = even.len() / STREAMS;
    // Of every stream as wide as a line, so that no sum waits for another. Look at the machine code after touching this: with a
    // loop over the sums it gave less than the products take.
    let mut sums = [[0u64; 8]; STREAMS];
    let mut add = |stream: usize, line: &[u8; 64]| {
        for (sum, word) in sums[stream].iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    };
    for i in 0..stream {
        for s in 0..STREAMS {
            add(s, &even[s * stream + i]);
        }
    }
    rest.iter().for_each(|line| add(0, line));
    let sums = sums.as_flattened().iter();
    sums.fold(0, |all, sum| all.wrapping_add(*sum))
}

/// Independent sums: enough that the fused units never wait, few enough to stay in registers.
const CHAINS: usize = 12;
/// Values that are used together.
const WIDE: usize = 8;
/// Multiply-adds of [`fuse_all`] for each pair of values and each time.
pub const FUSED: usize = CHAINS;

kernel! {
    /// Multiplies pairs of `values`, few enough to stay near, and adds them up `times` times over: [`FUSED`]
    /// multiply-adds for each pair of values and each time.
    pub fn fuse_all(values: &[f32], times: usize) -> f32 = fuse_all_body;
}

#[inline(always)]
fn fuse_all_body(values: &[f32], times: usize) -> f32 {
    let (pairs, _) = values.as_chunks::<WIDE>().0.as_chunks::<2>();
    let mut sums = [[0.0f32; WIDE]; CHAINS];
    for _ in 0..times {
        for [a, b] in pairs {
            for sum in &mut sums {
                for l in 0..WIDE {
                    sum[l] = a[l].mul_add(b[l], sum[l]);
                }
            }
        }
    }
    sums.iter().flatten().sum()
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::*;

    #[test]
    fn every_whole_line_is_read() {
        // Three lines more than the streams have.
        let bytes: Vec<u8> = (0..1024u32 + 192).map(|i| (i % 251) as u8).collect();
        let words = bytes.as_chunks::<8>().0.iter();
        let want = words.fold(0u64, |s, w| s.wrapping_add(u64::from_ne_bytes(*w)));
        for isa in Isa::all() {
            assert_eq!(read_all(isa, &bytes), want);
        }
    }

    #[test]
    fn every_step_is_taken() {
        for isa in Isa::all() {
            // A hundred times 16 squares of 2, in every chain.
            let sum = fuse_all(isa, &[2.0; 32], 100);
            assert_eq!(sum, 4.0 * (100 * 16 * FUSED) as f32);
        }
    }
}
