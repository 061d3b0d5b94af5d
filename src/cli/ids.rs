//! Token ids as they are typed.

use super::Exit;

/// Ids separated by commas or blanks. Each is a whole number inside the vocabulary, written in digits alone.
///
/// # Errors
/// [`Exit::Refused`] with the piece that is none.
pub(super) fn parse_list(text: &str, vocab: usize) -> Result<Vec<u32>, Exit> {
    text.split([',', ' ', '\t', '\n'])
        .filter(|piece| !piece.is_empty())
        .map(|piece| parse(piece, vocab))
        .collect()
}

/// One id.
///
/// # Errors
/// [`Exit::Refused`] unless it is a whole number inside the vocabulary.
pub(super) fn parse(text: &str, vocab: usize) -> Result<u32, Exit> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u32>() {
        Ok(id) if digits && (id as usize) < vocab => Ok(id),
        _ => Err(Exit::Refused(format!(
            "`{text}` is no token id: ids are whole numbers from 0 to {}",
            vocab - 1
        ))),
    }
}

/// At most this many stop ids.
const STOP_IDS: usize = 8;

/// Ids to stop at.
///
/// # Errors
/// [`Exit::Refused`] if one is no id, or there are too many.
pub(super) fn stops(ids: &[String], vocab: usize) -> Result<Vec<u32>, Exit> {
    if ids.len() > STOP_IDS {
        return Err(Exit::Refused(format!("more than {STOP_IDS} stop ids")));
    }
    ids.iter().map(|id| parse(id, vocab)).collect()
}

/// How many tokens may be guessed in one pass.
pub(super) fn guesses(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 0..=8) if !text.starts_with('+') => Ok(count),
        _ => Err("a whole number from 0 to 8 is needed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_strict() {
        assert_eq!(parse_list("1,2 3", 10).unwrap(), [1, 2, 3]);
        for bad in ["abc", "1,x", "-1", "+1", "10", "1.0", "99999999999", "0x1"] {
            let message = parse_list(bad, 10).unwrap_err().to_string();
            assert!(message.contains("0 to 9"), "{message}");
        }
        assert!(parse_list("", 10).unwrap().is_empty());
    }
}
