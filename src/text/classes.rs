//! The Unicode classes that the splitter asks about, as one flag byte a code point. Nothing else of Unicode.

use regex_syntax::hir::{Class, HirKind};

/// Flags of one code point, an "or" of the constants below.
pub(super) type Flags = u8;

/// Script=Han. Not a subset of the letters: radicals are symbols, and 13 are numbers.
pub(super) const HAN: Flags = 1;
/// What an upper-case run is made of.
pub(super) const UP: Flags = 2;
/// What a lower-case run is made of. Modifiers, marks and letters without case are in both.
pub(super) const LO: Flags = 4;
/// Letters.
pub(super) const LETTER: Flags = 8;
/// Numbers of every kind.
pub(super) const NUMBER: Flags = 16;
/// White space.
pub(super) const SPACE: Flags = 32;

/// Each class in the words of the official pattern, so that there is no table of ours to be wrong.
const PATTERNS: [(Flags, &str); 6] = [
    (HAN, r"[\p{Han}]"),
    (UP, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"),
    (LO, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"),
    (LETTER, r"[\p{L}]"),
    (NUMBER, r"[\p{N}]"),
    (SPACE, r"[\s]"),
];

/// A flag byte for every code point. Pages of zeros are never touched, so that most of the 1.1 MB is address space.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    flags: Vec<Flags>,
}

impl Classes {
    /// Builds the table from the patterns.
    pub(super) fn new() -> Self {
        let mut flags = vec![0; char::MAX as usize + 1];
        for (flag, pattern) in PATTERNS {
            for (first, last) in ranges(pattern) {
                for of_code_point in &mut flags[first as usize..=last as usize] {
                    *of_code_point |= flag;
                }
            }
        }
        Self { flags }
    }

    /// The flags of one character.
    pub(super) fn of(&self, character: char) -> Flags {
        self.flags[character as usize]
    }
}

/// The code point ranges of a pattern that is one class.
fn ranges(pattern: &str) -> Vec<(char, char)> {
    let Ok(HirKind::Class(Class::Unicode(class))) =
        regex_syntax::parse(pattern).map(|hir| hir.into_kind())
    else {
        // Only the constants above come here, and a test parses each of them.
        unreachable!("{pattern} is a Unicode class");
    };
    class
        .ranges()
        .iter()
        .map(|range| (range.start(), range.end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(classes: &Classes, wanted: impl Fn(Flags) -> bool) -> usize {
        (0..=char::MAX as u32)
            .filter_map(char::from_u32)
            .filter(|&character| wanted(classes.of(character)))
            .count()
    }

    /// The sizes that tiktoken's own classes have (Unicode 16.0): a library of another Unicode version fails here.
    #[test]
    fn the_classes_have_the_sizes_of_unicode_16() {
        let classes = Classes::new();
        assert_eq!(count(&classes, |flags| flags & HAN != 0), 99_030);
        assert_eq!(count(&classes, |flags| flags & UP != 0), 42_584);
        assert_eq!(count(&classes, |flags| flags & LO != 0), 42_953);
        assert_eq!(
            count(&classes, |flags| flags & UP != 0 && flags & LO != 0),
            40_695
        );
        assert_eq!(count(&classes, |flags| flags & LETTER != 0), 141_028);
        assert_eq!(count(&classes, |flags| flags & NUMBER != 0), 1_911);
        assert_eq!(count(&classes, |flags| flags & SPACE != 0), 25);
    }

    #[test]
    fn han_is_not_a_subset_of_the_letters() {
        let classes = Classes::new();
        assert_eq!(
            count(&classes, |flags| flags & HAN != 0 && flags & LETTER == 0),
            345
        );
        assert_eq!(
            count(&classes, |flags| flags & HAN != 0 && flags & NUMBER != 0),
            13
        );
        assert_eq!(classes.of('⺀'), HAN);
        assert_eq!(classes.of('〇'), HAN | NUMBER);
        for not_han in ['ー', '、', '。'] {
            assert_eq!(classes.of(not_han) & HAN, 0, "{not_han}");
        }
        assert_eq!(classes.of('한'), UP | LO | LETTER);
        assert_eq!(classes.of('\u{301}'), UP | LO);
    }

    /// What the splitter's last alternative relies on: who is in no other class is white space.
    #[test]
    fn every_letter_outside_han_can_be_in_a_word() {
        let classes = Classes::new();
        assert_eq!(
            count(&classes, |flags| flags & LETTER != 0
                && flags & (HAN | UP | LO) == 0),
            0
        );
    }

    #[test]
    fn the_classes_are_those_of_the_oracle() {
        let Some(folder) = std::env::var_os("K3_ORACLE") else {
            eprintln!("NOT RUN: K3_ORACLE is not set");
            return;
        };
        let text = std::fs::read_to_string(
            std::path::Path::new(&folder).join("chat/k3-unicode-classes.json"),
        )
        .unwrap();
        let expected: std::collections::HashMap<String, Vec<(u32, u32)>> =
            serde_json::from_str(&text).unwrap();
        let classes = Classes::new();
        for (name, flag) in [
            ("Han", HAN),
            ("UP", UP),
            ("LO", LO),
            ("L", LETTER),
            ("N", NUMBER),
            ("S", SPACE),
        ] {
            let mut in_class = vec![false; char::MAX as usize + 1];
            for &(first, last) in &expected[name] {
                in_class[first as usize..=last as usize].fill(true);
            }
            for code_point in (0..=char::MAX as u32).filter_map(char::from_u32) {
                let ours = classes.of(code_point) & flag != 0;
                assert_eq!(
                    ours, in_class[code_point as usize],
                    "{name} {:04X}",
                    code_point as u32
                );
            }
        }
    }
}
