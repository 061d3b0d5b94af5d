//! The splitter: cuts text into the pieces that are encoded one by one. What a piece becomes is not decided here.
//!
//! It does what the official pre-tokenizer pattern does (eight alternatives, the leftmost that matches, greedy and
//! backtracking), as a scanner that looks at each character a bounded number of times: there is no limit that a
//! long run could hit, and no text that makes it slow.

use super::classes::{Classes, Flags, HAN, LETTER, LO, NUMBER, SPACE, UP};

/// Splits text as the official pattern does.
#[derive(Clone, Debug)]
pub struct Splitter {
    classes: Classes,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    /// A splitter; building its table of classes takes about a millisecond, so make one and keep it.
    pub fn new() -> Self {
        Self {
            classes: Classes::new(),
        }
    }

    /// The pieces of `text`, in order. They are never empty and make up the whole of it. The end of `text` is
    /// where a run of white space counts as the last one.
    pub fn pieces<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let scan = Scan {
            classes: &self.classes,
            text,
        };
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = scan.character(at)?;
            let start = at;
            at = scan.piece_end(start, first);
            Some(&text[start..at])
        })
    }
}

/// One text being scanned. Positions are byte offsets on character borders.
struct Scan<'s, 't> {
    classes: &'s Classes,
    text: &'t str,
}

impl Scan<'_, '_> {
    fn character(&self, at: usize) -> Option<char> {
        self.text[at..].chars().next()
    }

    /// Whether a character stands at `at` and `wanted` of its flags.
    fn is(&self, at: usize, wanted: impl Fn(Flags) -> bool) -> bool {
        self.character(at)
            .is_some_and(|character| wanted(self.classes.of(character)))
    }

    /// The end of the run of characters from `start` on whose flags are `wanted`.
    fn run_end(&self, start: usize, wanted: impl Fn(Flags) -> bool) -> usize {
        let rest = &self.text[start..];
        start
            + rest
                .find(|character| !wanted(self.classes.of(character)))
                .unwrap_or(rest.len())
    }

    /// The end of the piece that starts at `start` with `first`. Each step is one alternative of the pattern, or two.
    fn piece_end(&self, start: usize, first: char) -> usize {
        let flags = self.classes.of(first);
        let after_first = start + first.len_utf8();

        // [\p{Han}]+
        if flags & HAN != 0 {
            return self.run_end(start, |flags| flags & HAN != 0);
        }
        // The two alternatives of a word, each with and without its optional leading character.
        let may_lead = first != '\r' && first != '\n' && flags & (LETTER | NUMBER) == 0;
        let word = (may_lead.then(|| self.lower_word(after_first)).flatten())
            .or_else(|| self.lower_word(start))
            .or_else(|| may_lead.then(|| self.upper_word(after_first)).flatten())
            .or_else(|| self.upper_word(start));
        if let Some(end) = word {
            return end;
        }
        // \p{N}{1,3}
        if flags & NUMBER != 0 {
            let mut end = after_first;
            for _ in 0..2 {
                if self.is(end, |flags| flags & NUMBER != 0) {
                    end += self.character(end).map_or(0, char::len_utf8);
                }
            }
            return end;
        }
        //  ?[^\s\p{L}\p{N}]+[\r\n]*
        let symbols = if first == ' ' && self.is(after_first, is_symbol) {
            after_first
        } else {
            start
        };
        if self.is(symbols, is_symbol) {
            let end = self.run_end(symbols, is_symbol);
            return end
                + self.text[end..]
                    .bytes()
                    .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                    .count();
        }
        self.space_end(start)
    }

    /// `\s*[\r\n]+`, then `\s+(?!\S)`, then `\s+`: the end of a piece of white space.
    fn space_end(&self, start: usize) -> usize {
        let run = self.run_end(start, |flags| flags & SPACE != 0);
        if let Some(line_end) = self.text[start..run].rfind(['\r', '\n']) {
            return start + line_end + 1;
        }
        // The last one before a word stays with the word, unless it is the only one.
        let last = self.text[start..run]
            .char_indices()
            .next_back()
            .map_or(start, |(offset, _)| start + offset);
        if run == self.text.len() || last == start {
            run
        } else {
            last
        }
    }

    /// `[UP]*[LO]+` and the optional contraction, from `start` on.
    fn lower_word(&self, start: usize) -> Option<usize> {
        let upper = self.run_end(start, |flags| flags & UP != 0);
        if self.is(upper, |flags| flags & LO != 0) {
            return Some(self.contraction_end(self.run_end(upper, |flags| flags & LO != 0)));
        }
        // The upper run gives back characters until one that is in both classes can be the lower run.
        let (offset, last) = self.text[start..upper]
            .char_indices()
            .rev()
            .find(|&(_, character)| self.classes.of(character) & LO != 0)?;
        Some(self.contraction_end(start + offset + last.len_utf8()))
    }

    /// `[UP]+[LO]*` and the optional contraction, from `start` on.
    fn upper_word(&self, start: usize) -> Option<usize> {
        let upper = self.run_end(start, |flags| flags & UP != 0);
        (upper != start).then(|| self.contraction_end(self.run_end(upper, |flags| flags & LO != 0)))
    }

    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`: the end of the contraction at `start`, or `start` if there is none.
    fn contraction_end(&self, start: usize) -> usize {
        let Some(rest) = self.text[start..].strip_prefix('\'') else {
            return start;
        };
        let mut letters = rest.chars();
        let (first, second) = (
            letters.next(),
            letters.next().map(|letter| letter.to_ascii_lowercase()),
        );
        let length = match (first.map(|letter| letter.to_ascii_lowercase()), second) {
            // The long s folds to s; no other letter here folds outside ASCII.
            (Some(letter @ ('s' | 't' | 'm' | 'd' | 'ſ')), _) => letter.len_utf8(),
            (Some('r' | 'v'), Some('e')) | (Some('l'), Some('l')) => 2,
            _ => return start,
        };
        start + 1 + length
    }
}

/// Neither white space nor letter nor number: punctuation, symbols, marks, controls, unassigned.
fn is_symbol(flags: Flags) -> bool {
    flags & (SPACE | LETTER | NUMBER) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The official pattern, for the regex engine that the official tokenizer is built on.
    const OFFICIAL: &str = concat!(
        r"[\p{Han}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"|\s*[\r\n]+",
        r"|\s+(?!\S)",
        r"|\s+",
    );

    fn split(text: &str) -> Vec<&str> {
        Splitter::new().pieces(text).collect()
    }

    #[test]
    fn the_edges_that_trip_implementers() {
        for pieces in [
            &["\u{3000}", "中"][..],
            &[" ", "中文"],
            &["x", "々", "y"],
            &["A", "中", "B"],
            &["中", "A's"],
            &["한국", "ABC"],
            &["ABC한국", "DEF"],
            &["あい", "中", "う"],
            &["カタカナー", "中"],
            &["０１２", "３"],
            &["1〇〇", "〇"],
            &["!⺀"],
            &[" ⺀", "x"],
            &["!\n", "/x"],
            &["\u{301}", "A", "!"],
            &["!\u{301}"],
            &["'llama"],
            &["1", "'s"],
            &["it'ſ"],
            &["don'T", "x"],
            &["we'LL"],
            &["camel", "Case"],
            &["HTMLParser"],
            &["a", " ", " b"],
            &["a", "  \r\n\n", " ", " b"],
            &["a", "   "],
            &["\tx"],
            &["\r", "x"],
        ] {
            assert_eq!(split(&pieces.concat()), pieces);
        }
        assert!(split("").is_empty());
    }

    /// Characters from every class and from every border between classes.
    fn edge_character() -> impl Strategy<Value = char> {
        prop_oneof![
            3 => prop::sample::select("aAbZéÉǅʰªнНßſKsStTmMdDrReEvVlL".chars().collect::<Vec<_>>()),
            2 => prop::sample::select("中文々〇〡⺀〻あー、한𠀀".chars().collect::<Vec<_>>()),
            2 => prop::sample::select("\u{301}\u{93e}\u{20dd}\u{200d}\u{fe0f}".chars().collect::<Vec<_>>()),
            2 => prop::sample::select("0９½Ⅳ¹".chars().collect::<Vec<_>>()),
            3 => prop::sample::select("''''’!/\"😀\u{1c}\u{0}\u{e000}".chars().collect::<Vec<_>>()),
            4 => prop::sample::select("    \t\r\n\n\u{a0}\u{3000}\u{85}\u{2028}".chars().collect::<Vec<_>>()),
            1 => any::<char>(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn pieces_are_those_of_the_official_pattern(
            text in prop::collection::vec(edge_character(), 0..24).prop_map(|text| text.into_iter().collect::<String>())
        ) {
            thread_local! {
                static OURS: Splitter = Splitter::new();
                static PATTERN: fancy_regex::Regex = fancy_regex::Regex::new(OFFICIAL).unwrap();
            }
            let ours: Vec<&str> = OURS.with(|splitter| splitter.pieces(&text).collect());
            let official: Vec<String> =
                PATTERN.with(|pattern| pattern.find_iter(&text).map(|piece| piece.unwrap().as_str().to_owned()).collect());
            prop_assert_eq!(ours, official);
        }
    }
}
