//! Finding a text in the panes. Case does not count.

/// What is looked for and where it was found last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// In lower case.
    pub needle: String,
    /// Block and byte.
    pub at: Option<(usize, usize)>,
}

impl Search {
    /// Looks for `text`.
    pub fn new(text: &str) -> Self {
        Self {
            needle: text.to_lowercase(),
            at: None,
        }
    }
}

/// Where `needle`, in lower case, stands in `text`: bytes of the text.
pub fn places<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let (at, length) = find(&text[from..], needle)?;
        let start = from + at;
        from = start + length;
        Some((start, from))
    })
}

/// The first place, and its length in bytes: lower case may be longer or shorter than what it is of.
fn find(text: &str, needle: &str) -> Option<(usize, usize)> {
    let first = needle.chars().next()?;
    for (at, c) in text.char_indices() {
        if c.to_lowercase().next() != Some(first) {
            continue;
        }
        let mut wanted = needle.chars().peekable();
        for (offset, c) in text[at..].char_indices() {
            if wanted.peek().is_none() {
                return Some((at, offset));
            }
            if !c.to_lowercase().all(|c| wanted.next() == Some(c)) {
                break;
            }
            if wanted.peek().is_none() {
                return Some((at, offset + c.len_utf8()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_count_and_places_do_not_overlap() {
        let found: Vec<_> = places("Ring, ring; STRING", "ring").collect();
        assert_eq!(found, [(0, 4), (6, 10), (14, 18)]);
        assert_eq!(places("aaa", "aa").count(), 1);
        assert_eq!(places("ÄÖ äö", "äö").count(), 2);
        assert_eq!(places("text", "").count(), 0);
        assert_eq!(places("漢字", "字").next(), Some((3, 6)));
    }
}
