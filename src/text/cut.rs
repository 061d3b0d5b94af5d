//! The cutter: parts of a text, before anything else looks at it. Only pathological texts have more than one.
//!
//! The official tokenizer slices every text into chunks of 400,000 characters, and inside a chunk ends a part where
//! a run of characters that are all white space, or all not, would become longer than 25,000. Each part is encoded
//! on its own, so that the cuts show in the ids.

/// Characters in a chunk.
const CHUNK: usize = 400_000;
/// Characters in the longest run.
const LONGEST_RUN: usize = 25_000;

/// The parts of `text`, in order, none of them empty.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    parts_of(text, CHUNK, LONGEST_RUN)
}

/// [`parts`] with other sizes, both of them 1 or more.
fn parts_of(text: &str, chunk: usize, longest_run: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    // Characters of the chunk that are in parts already, and the length of the run that the next part starts in.
    let mut taken = 0;
    std::iter::from_fn(move || {
        let mut run = 0;
        let mut run_is_space = None;
        let mut end = rest.len();
        for (offset, character) in rest.char_indices() {
            if taken == chunk {
                taken = 0;
                end = offset;
                break;
            }
            let space = Some(is_space(character));
            run = if run_is_space == space { run + 1 } else { 1 };
            run_is_space = space;
            if run > longest_run {
                end = offset;
                break;
            }
            taken += 1;
        }
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Python's `str.isspace`: white space, and the four information separators besides.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small(text: &str) -> Vec<&str> {
        parts_of(text, 12, 5).collect()
    }

    #[test]
    fn runs_and_chunks_are_cut() {
        assert!(small("").is_empty());
        assert_eq!(small("wwwww"), ["wwwww"]);
        assert_eq!(small("wwwwwww"), ["wwwww", "ww"]);
        // The chunk ends after twelve characters, and a new run starts with the next chunk.
        assert_eq!(
            small("wwwwwwwwwwwwwwwwww"),
            ["wwwww", "wwwww", "ww", "wwwww", "w"]
        );
        assert_eq!(small("ab cd ef gh ij"), ["ab cd ef gh ", "ij"]);
        assert_eq!(
            small("b\u{1c}\u{1d} \t\u{3000}\u{2028}b"),
            ["b\u{1c}\u{1d} \t\u{3000}", "\u{2028}b"]
        );
        // The zero-width space is no white space.
        assert_eq!(small("zzz\u{200b}zzz"), ["zzz\u{200b}z", "zz"]);
        assert_eq!(small("中中中中中中"), ["中中中中中", "中"]);
    }

    #[test]
    fn white_space_is_pythons() {
        assert_eq!(
            (0..=char::MAX as u32)
                .filter_map(char::from_u32)
                .filter(|&c| is_space(c))
                .count(),
            29
        );
    }

    #[test]
    fn the_official_sizes() {
        assert_eq!(parts(&"a".repeat(25_000)).count(), 1);
        let lengths: Vec<usize> = parts(&"a".repeat(25_001)).map(str::len).collect();
        assert_eq!(lengths, [25_000, 1]);
        let lengths: Vec<usize> = parts(&"ab ".repeat(140_000)).map(str::len).collect();
        assert_eq!(lengths, [400_000, 20_000]);
    }

    #[test]
    fn the_cut_vectors_of_the_oracle() {
        #[derive(serde::Deserialize)]
        struct Vector {
            text: String,
            chunk: usize,
            max_run: usize,
            parts: Vec<String>,
        }
        #[derive(serde::Deserialize)]
        struct File {
            cut_vectors_small_parameters: Vec<Vector>,
        }
        let Some(folder) = std::env::var_os("K3_ORACLE") else {
            eprintln!("NOT RUN: K3_ORACLE is not set");
            return;
        };
        let path = std::path::Path::new(&folder).join("chat/fixture-long-run-vectors.json");
        let file: File = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(!file.cut_vectors_small_parameters.is_empty());
        for vector in file.cut_vectors_small_parameters {
            let ours: Vec<&str> = parts_of(&vector.text, vector.chunk, vector.max_run).collect();
            assert_eq!(ours, vector.parts, "{:?}", vector.text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost(text in "[ a\u{1c}中]{0,60}", chunk in 1_usize..20, run in 1_usize..8) {
            prop_assert_eq!(parts_of(&text, chunk, run).collect::<String>(), text);
        }
    }
}
