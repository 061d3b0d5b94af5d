//! Which segments of a walk stay in memory: as many bytes as a budget pays for, spread evenly. Only the choice.

/// The segments to pin, one flag each, for a budget in bytes.
///
/// Any pinned byte saves one byte a token, so no choice reads less than another of the same size; a good one is even,
/// so that what is streamed never bunches up and reads overlap computation everywhere. The choices looked at are the
/// even ones with a share of `0/n`, `1/n` … `n/n` of the walk; of those that the budget pays for, the largest is taken.
/// So a larger budget never pins less. What is left over is less than one segment where segments are of one size, less
/// than two else.
pub fn pins(segments: &[u64], budget: u64) -> Vec<bool> {
    let n = segments.len();
    let walk: u64 = segments.iter().sum();
    let largest = segments.iter().max().copied().unwrap_or(0);
    // A choice is within half a segment of its share, so only shares near the budget's can be the largest.
    let share = |bytes: u64| (u128::from(bytes) * n as u128 / u128::from(walk.max(1))) as usize;
    let first = share(budget.min(walk).saturating_sub(2 * largest));
    let last = n.min(share(budget.min(walk) + largest) + 1);
    (first..=last)
        .map(|k| even(segments, k))
        .filter(|(bytes, _)| *bytes <= budget)
        .max_by_key(|(bytes, _)| *bytes)
        .map_or_else(|| vec![false; n], |(_, pinned)| pinned)
}

/// Segments of about `k / n` of all bytes, evenly spread: a segment is pinned where that brings the pinned bytes so far
/// nearer to their share (Bresenham's line, with bytes for steps). Also gives their bytes.
fn even(segments: &[u64], k: usize) -> (u64, Vec<bool>) {
    let n = segments.len() as u128;
    let (mut pinned, mut passed) = (0u64, 0u64);
    let flags = segments.iter().map(|&bytes| {
        passed += bytes;
        let nearer = u128::from(2 * pinned + bytes) * n <= u128::from(2 * passed) * k as u128;
        pinned += if nearer { bytes } else { 0 };
        nearer
    });
    let flags = flags.collect();
    (pinned, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(segments: &[u64], pinned: &[bool]) -> u64 {
        let pairs = segments.iter().zip(pinned);
        pairs.filter(|(_, pinned)| **pinned).map(|(b, _)| b).sum()
    }

    /// Lengths of the runs of streamed segments between pinned ones, the walk taken as a circle.
    fn gaps(pinned: &[bool]) -> Vec<usize> {
        let first = pinned.iter().position(|p| *p).unwrap();
        let mut gaps = vec![0];
        for i in 1..pinned.len() {
            match pinned[(first + i) % pinned.len()] {
                true => gaps.push(0),
                false => *gaps.last_mut().unwrap() += 1,
            }
        }
        gaps
    }

    #[test]
    fn runs_of_streamed_segments_differ_by_at_most_one() {
        for n in [1usize, 2, 7, 64, 93, 500] {
            let segments = vec![10; n];
            for k in 1..=n {
                let pinned = pins(&segments, 10 * k as u64 + 9);
                assert_eq!(pinned.iter().filter(|p| **p).count(), k);
                let gaps = gaps(&pinned);
                let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
                assert!(most - least <= 1, "{k} of {n}: {gaps:?}");
            }
        }
    }

    #[test]
    fn a_larger_budget_never_pins_less_and_no_budget_is_exceeded() {
        let segments: Vec<u64> = (0..97).map(|i| 40 + i * 31 % 23).collect();
        let total: u64 = segments.iter().sum();
        let mut before = 0;
        for budget in 0..=total {
            let pinned = bytes(&segments, &pins(&segments, budget));
            assert!(pinned <= budget && pinned >= before, "{budget}: {pinned}");
            assert!(budget - pinned <= 2 * 62, "{budget}: {pinned}");
            before = pinned;
        }
        assert_eq!(before, total);
    }

    #[test]
    fn nothing_to_pin_and_nothing_to_pin_with() {
        assert!(pins(&[], 100).is_empty());
        assert_eq!(pins(&[5, 5], 4), [false, false]);
    }
}
