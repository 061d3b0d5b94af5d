//! Byte pair encoding of one piece. Which pieces there are is the splitter's business.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocabulary::Vocabulary;

/// No merge, or no neighbour.
const NONE: u32 = u32::MAX;

/// A part of the piece. It stands at the index of its first byte; a part that was merged into another is dead. Behind
/// the last part stands one that ends nowhere and merges with no one.
#[derive(Clone, Copy)]
struct Part {
    /// First byte of the part before this one.
    before: u32,
    /// First byte of the part after this one: where this one ends.
    end: u32,
    /// Rank of this part and the one after it together, or [`NONE`].
    merged_rank: u32,
}

/// The working memory of the encoder, kept from piece to piece.
#[derive(Default)]
pub(super) struct Bpe {
    parts: Vec<Part>,
    /// Pairs that may be merged: their rank in the upper half, where they start in the lower.
    candidates: BinaryHeap<Reverse<u64>>,
}

impl Bpe {
    /// Appends the ids of `piece` to `ids`.
    ///
    /// A piece that is a token is that token. Otherwise it starts as single bytes, and of all neighbours that are a
    /// token together the pair of the lowest rank, the leftmost of equals, is merged, until there is none. A heap
    /// of candidates over a linked list of parts takes O(n log n) steps for n bytes.
    pub(super) fn encode(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        if let Some(rank) = vocabulary.rank(piece) {
            ids.push(rank);
            return;
        }
        // Pieces come out of parts of 400,000 characters at most, so that 32 bits hold every index.
        let length = piece.len() as u32;
        let rank_of = |start: u32, end: u32| {
            if end > length {
                None
            } else {
                vocabulary.rank(&piece[start as usize..end as usize])
            }
        };
        self.parts.clear();
        self.parts.extend((0..length).map(|at| Part {
            before: at.checked_sub(1).unwrap_or(NONE),
            end: at + 1,
            merged_rank: rank_of(at, at + 2).unwrap_or(NONE),
        }));
        self.parts.push(Part {
            before: NONE,
            end: NONE,
            merged_rank: NONE,
        });
        for at in 0..length {
            self.offer(at);
        }

        while let Some(Reverse(candidate)) = self.candidates.pop() {
            let (rank, at) = ((candidate >> 32) as u32, candidate as u32);
            let part = self.parts[at as usize];
            if part.merged_rank != rank {
                // One of the two was merged with someone else meanwhile.
                continue;
            }
            let next = self.parts[part.end as usize];
            self.parts[part.end as usize].merged_rank = NONE;
            let after = &mut self.parts[next.end as usize];
            after.before = at;
            let merged_rank = rank_of(at, after.end).unwrap_or(NONE);
            self.parts[at as usize] = Part {
                end: next.end,
                merged_rank,
                ..part
            };
            self.offer(at);
            if part.before != NONE {
                self.parts[part.before as usize].merged_rank =
                    rank_of(part.before, next.end).unwrap_or(NONE);
                self.offer(part.before);
            }
        }

        let mut at = 0;
        while at < length {
            let end = self.parts[at as usize].end;
            // Every part is a token: a single byte, or what a merge found in the vocabulary.
            ids.extend(rank_of(at, end));
            at = end;
        }
    }

    /// Makes the pair that starts at `at` a candidate if it is a token.
    fn offer(&mut self, at: u32) {
        let rank = self.parts[at as usize].merged_rank;
        if rank != NONE {
            self.candidates
                .push(Reverse(u64::from(rank) << 32 | u64::from(at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, word by word: quadratic, and with nothing to get wrong.
    fn naive(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<u32> {
        if let Some(rank) = vocabulary.rank(piece) {
            return vec![rank];
        }
        let mut parts: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
        loop {
            let lowest = (0..parts.len().saturating_sub(1))
                .filter_map(|at| Some((vocabulary.rank(&parts[at..at + 2].concat())?, at)))
                .min();
            let Some((_, at)) = lowest else { break };
            let right = parts.remove(at + 1);
            parts[at].extend(right);
        }
        parts
            .iter()
            .map(|part| vocabulary.rank(part).unwrap())
            .collect()
    }

    fn encode(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<u32> {
        let mut ids = Vec::new();
        Bpe::default().encode(vocabulary, piece, &mut ids);
        ids
    }

    fn tokens(merges: &[&str], piece: &str) -> Vec<String> {
        let vocabulary = Vocabulary::small(merges);
        let ids = encode(&vocabulary, piece.as_bytes());
        ids.iter()
            .map(|&id| String::from_utf8_lossy(vocabulary.bytes(id).unwrap()).into_owned())
            .collect()
    }

    #[test]
    fn the_lowest_rank_is_merged_first_and_the_leftmost_of_equals() {
        assert_eq!(tokens(&["aa"], "aaaaa"), ["aa", "aa", "a"]);
        assert_eq!(tokens(&["ab", "aba"], "abababa"), ["ab", "ab", "aba"]);
        assert_eq!(tokens(&["bc", "ab"], "abc"), ["a", "bc"]);
        assert_eq!(tokens(&["ab", "bc"], "abc"), ["ab", "c"]);
        // Three bytes at once are no pair of parts, unless the piece is the token.
        assert_eq!(tokens(&["abc"], "abcd"), ["a", "b", "c", "d"]);
        assert_eq!(tokens(&["abc"], "abc"), ["abc"]);
        assert_eq!(tokens(&["cd", "bcd", "abcd"], "abcd"), ["abcd"]);
    }

    #[test]
    fn an_empty_piece_has_no_ids() {
        assert!(encode(&Vocabulary::small(&[""; 0]), b"").is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_the_definition(piece in "[abc]{0,60}", merges in prop::collection::hash_set("[abc]{2,5}", 0..40)) {
            let merges: Vec<String> = merges.into_iter().collect();
            let vocabulary = Vocabulary::small(&merges);
            prop_assert_eq!(encode(&vocabulary, piece.as_bytes()), naive(&vocabulary, piece.as_bytes()));
        }
    }
}
