//! A server's words, without what was said to it: some servers quote keys and questions in their errors, and errors are shown,
//! and kept beside the history.

use super::Key;
use crate::text::Message;

/// Characters of a server's words that are shown.
const SHOWN: usize = 400;

/// So many characters in a row that stand in a message as well are a quotation.
const QUOTED: usize = 16;

/// Shorter lines of a message than this are words like any other.
const LINE: usize = 4;

/// What stands for a quotation.
const LEFT_OUT: &str = "(…)";

/// The beginning of a server's words, on one line, without control characters, the key and quotations of messages.
pub(super) fn discreet(words: &str, key: Option<&Key>, messages: &[Message]) -> String {
    let one_line: String = words
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mut text = one_line.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(key) = key {
        text = key.taken_out_of(&text);
    }
    let texts = || {
        let both = |message: &Message| {
            let reasoning = message.reasoning_content.clone().unwrap_or_default();
            [message.content.clone(), reasoning]
        };
        messages.iter().flat_map(both)
    };
    for said in texts() {
        let lines = said.lines().map(str::trim);
        for line in lines.filter(|line| (LINE..QUOTED).contains(&line.chars().count())) {
            text = text.replace(line, LEFT_OUT);
        }
    }
    // What is cut off here is not shown, so it need not be looked at.
    let mut rest: Vec<char> = text.chars().take(2 * SHOWN).collect();
    let said: String = texts()
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
        .collect();
    // As JSON and Python write it, too.
    let escaped = said.replace('\\', "\\\\").replace('"', "\\\"");
    let quoted = |part: &[char]| {
        let part: String = part.iter().collect();
        said.contains(&part) || escaped.contains(&part)
    };
    let mut kept = String::new();
    while !rest.is_empty() {
        let longest = match rest.len() >= QUOTED && quoted(&rest[..QUOTED]) {
            true => (QUOTED..=rest.len())
                .take_while(|length| quoted(&rest[..*length]))
                .last()
                .unwrap_or(QUOTED),
            false => 0,
        };
        match longest {
            0 => kept.push(rest.remove(0)),
            length => {
                kept.push_str(LEFT_OUT);
                rest.drain(..length);
            }
        }
    }
    match kept.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &kept[..at]),
        None => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_quotations_are_left_out() {
        let key = Key::new("sk-secret", "").unwrap();
        let messages = [
            Message::user("My secret name is Rumpelstiltskin, \"they\" say.\nrosebud"),
            Message::assistant(Some("Nobody may know that name at all.".into()), "I see."),
        ];
        let shown = |words: &str| discreet(words, Some(&key), &messages);
        assert_eq!(
            shown("Incorrect API key provided: sk-secret."),
            "Incorrect API key provided: (key)."
        );
        assert_eq!(
            shown("bad input: {'content': 'name is Rumpelstiltskin, \\\"they\\\" sa...'}"),
            "bad input: {'content': '(…)...'}"
        );
        assert_eq!(shown("not 'rosebud'"), "not '(…)'");
        assert_eq!(shown("Nobody may know that name"), LEFT_OUT);
        assert_eq!(
            shown("this model's maximum\nis\u{1b}[31m 5"),
            "this model's maximum is [31m 5"
        );
        assert_eq!(shown(&"x".repeat(10_000)).chars().count(), SHOWN + 1);
    }
}
