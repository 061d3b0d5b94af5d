//! UTF-8 that arrives in arbitrary pieces. Where the bytes come from does not matter here.

/// Makes text of bytes as they come, without ever splitting a character: an unfinished one is held back until its
/// last byte is there. All texts joined are what [`String::from_utf8_lossy`] makes of all bytes joined, one U+FFFD
/// for each longest part that cannot be a character.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The start of a character, three bytes at most.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// Takes bytes and gives the text that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        let unfinished = loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    break 0;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(invalid) = error.error_len() else {
                        break after.len();
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[invalid..];
                }
            }
        };
        self.held.drain(..self.held.len() - unfinished);
        text
    }

    /// The end of the bytes: a character that was held back will not be finished and becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_character_is_never_split() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push("a😀".as_bytes().split_at(3).0), "a");
        assert_eq!(stream.push(&"a😀".as_bytes()[3..]), "😀");
        assert_eq!(stream.push(&[0xe4]), "");
        assert_eq!(stream.push(&[0xb8]), "");
        assert_eq!(stream.push(&[0xad, b'!']), "中!");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn what_can_no_longer_be_a_character_is_replaced_at_once() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(&[0xff]), "\u{fffd}");
        assert_eq!(stream.push(&[0xf0, 0x9f]), "");
        assert_eq!(stream.push(b"x"), "\u{fffd}x");
        // A surrogate's first byte may start a character, its second may not follow.
        assert_eq!(stream.push(&[0xed]), "");
        assert_eq!(stream.push(&[0xa0]), "\u{fffd}\u{fffd}");
        assert_eq!(stream.push(&[0xf0, 0x9f, 0x98]), "");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream.push(b"on"), "on");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_pieces_give_the_text_of_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(prop_oneof![
                3 => prop::sample::select(b"a\xe4\xb8\xad\xf0\x9f\x98\x80\xed\xa0\xc2\xe0\xf4\x90\x80".to_vec()),
                1 => any::<u8>(),
            ], 0..5), 0..12)
        ) {
            let mut stream = Utf8Stream::default();
            let mut text = String::new();
            for piece in &pieces {
                text.push_str(&stream.push(piece));
                prop_assert!(stream.held.len() <= 3);
            }
            text.push_str(&stream.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&pieces.concat()).into_owned());
        }
    }
}
