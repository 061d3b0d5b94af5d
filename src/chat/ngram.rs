//! Guessing what comes next from what was said before. Nothing is computed; a guess is worth what checking it shows.

/// Lengths of the ending that is looked for, the longest first.
const ENDINGS: [usize; 2] = [4, 3];

/// At most `most` ids that may follow `ids`: those that followed the two most recent earlier places that end as `ids` does,
/// as far as both agree. Where there are not two such places, nothing is guessed.
pub fn guess(ids: &[u32], most: usize) -> Vec<u32> {
    ENDINGS
        .iter()
        .map(|&length| follow(ids, length, most))
        .find(|guessed| !guessed.is_empty())
        .unwrap_or_default()
}

fn follow(ids: &[u32], length: usize, most: usize) -> Vec<u32> {
    let Some(start) = ids.len().checked_sub(length) else {
        return Vec::new();
    };
    let ending = &ids[start..];
    let mut earlier = ids[..ids.len() - 1]
        .windows(length)
        .enumerate()
        .rev()
        .filter(|(_, window)| *window == ending)
        .map(|(at, _)| &ids[at + length..]);
    let (Some(last), Some(before)) = (earlier.next(), earlier.next()) else {
        return Vec::new();
    };
    last.iter()
        .zip(before)
        .take(most)
        .take_while(|(a, b)| a == b)
        .map(|(id, _)| *id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_twice_is_guessed() {
        let ids = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 7, 1, 2, 3, 4];
        assert_eq!(guess(&ids, 4), [5], "the two places part after 5");
        assert!(guess(&ids, 0).is_empty());
    }

    #[test]
    fn once_is_not_enough() {
        assert!(guess(&[1, 2, 3, 4, 5, 1, 2, 3, 4], 4).is_empty());
        assert!(guess(&[], 4).is_empty());
        assert!(guess(&[1, 2], 4).is_empty());
    }

    #[test]
    fn a_shorter_ending_is_tried_after_the_longer_one() {
        // Four ids back the places differ, three back they do not.
        let ids = [9, 1, 2, 3, 5, 6, 8, 1, 2, 3, 5, 6, 7, 1, 2, 3];
        assert_eq!(guess(&ids, 8), [5, 6]);
    }

    #[test]
    fn a_run_goes_on_and_no_further_than_asked() {
        let ids = [7; 12];
        assert!((1..=3).contains(&guess(&ids, 3).len()));
        // What follows the earlier of the two places reaches over the end of the later one at most.
        assert!(guess(&ids, 8).len() <= 8);
        assert!(guess(&ids, 8).iter().all(|&id| id == 7));
    }
}
