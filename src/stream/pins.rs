//! Which segments of a walk stay in memory: as many bytes as a budget pays for, spread evenly. Only the choice.

/// The segments to pin, one flag each, for a budget in bytes.
///
/// Any pinned byte saves one byte a token, so no choice reads less than another of the same size; a good one is even,
/// so that what is streamed never bunches up and reads overlap computation everywhere. A choice is therefore made by a
/// count alone: `k` of `n` segments, each `n / k` from the next. Of all counts the one that fills the budget best is
/// taken; less than about one segment is left over. A larger budget never pins less.
pub fn pins(segments: &[u64], budget: u64) -> Vec<bool> {
    let n = segments.len();
    let best = (0..=n)
        .map(|k| (pinned_bytes(segments, k), k))
        .filter(|&(bytes, _)| bytes <= budget)
        .max()
        .map_or(0, |(_, k)| k);
    (0..n).map(|i| is_pinned(i, best, n)).collect()
}

/// Whether segment `i` of `n` is one of `k` that are evenly spread (Bresenham's line).
fn is_pinned(i: usize, k: usize, n: usize) -> bool {
    (i + 1) * k / n > i * k / n
}

fn pinned_bytes(segments: &[u64], k: usize) -> u64 {
    let n = segments.len();
    let pinned = segments
        .iter()
        .enumerate()
        .filter(|&(i, _)| is_pinned(i, k, n));
    pinned.map(|(_, bytes)| bytes).sum()
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
