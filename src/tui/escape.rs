//! Puts keys together that came in two pieces: over a slow line the escape character may arrive before the rest, and would be
//! taken for the Esc key, which stops an answer. Not how a whole sequence is read.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

/// Characters of the longest sequence that is put together.
const LONGEST: usize = 8;

/// What a lone Esc and what came right behind it were meant to be. `next` gives what comes within a moment; no person types so
/// fast.
pub fn whole(esc: KeyEvent, mut next: impl FnMut() -> Option<Event>) -> Vec<Event> {
    let mut came = vec![Event::Key(esc)];
    let mut text = String::new();
    while let Some(event) = next() {
        let key = match &event {
            Event::Key(key) if plain(key) => Some(key.code),
            _ => None,
        };
        came.push(event);
        match key {
            Some(KeyCode::Enter) if text.is_empty() => {
                return vec![key_event(KeyCode::Enter, KeyModifiers::ALT)];
            }
            Some(KeyCode::Char(c)) => text.push(c),
            _ => return came,
        }
        if text == "[200~" {
            return vec![Event::Paste(burst(&mut next))];
        }
        match known(&text) {
            Some(code) => return vec![key_event(code, KeyModifiers::NONE)],
            None if !begins(&text) || text.len() == LONGEST => return came,
            None => {}
        }
    }
    came
}

fn plain(key: &KeyEvent) -> bool {
    (key.modifiers - KeyModifiers::SHIFT).is_empty()
}

fn key_event(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

/// Whether a sequence may begin so.
fn begins(text: &str) -> bool {
    match text.strip_prefix(['[', 'O']) {
        Some(rest) => rest.chars().all(|c| c.is_ascii_digit() || c == ';'),
        None => false,
    }
}

/// The keys that one uses, as terminals send them without the escape character.
fn known(text: &str) -> Option<KeyCode> {
    let rest = text.strip_prefix(['[', 'O'])?;
    Some(match rest {
        "A" => KeyCode::Up,
        "B" => KeyCode::Down,
        "C" => KeyCode::Right,
        "D" => KeyCode::Left,
        "H" | "1~" | "7~" => KeyCode::Home,
        "F" | "4~" | "8~" => KeyCode::End,
        "3~" => KeyCode::Delete,
        "5~" => KeyCode::PageUp,
        "6~" => KeyCode::PageDown,
        "P" => KeyCode::F(1),
        "Q" => KeyCode::F(2),
        "R" => KeyCode::F(3),
        "S" => KeyCode::F(4),
        "15~" => KeyCode::F(5),
        "18~" => KeyCode::F(7),
        "19~" => KeyCode::F(8),
        _ => return None,
    })
}

/// A paste whose beginning was split: all that comes without a pause. Its end is no key, so nothing tells it.
fn burst(next: &mut impl FnMut() -> Option<Event>) -> String {
    let mut text = String::new();
    while let Some(event) = next() {
        match event {
            Event::Key(key) => match key.code {
                KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => text.push('\n'),
                KeyCode::Char(c) if plain(&key) => text.push(c),
                KeyCode::Enter => text.push('\n'),
                KeyCode::Tab => text.push('\t'),
                _ => {}
            },
            Event::Paste(more) => text.push_str(&more),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Event> {
        text.chars()
            .map(|c| match c {
                '\r' => key_event(KeyCode::Enter, KeyModifiers::NONE),
                c => key_event(KeyCode::Char(c), KeyModifiers::NONE),
            })
            .collect()
    }

    fn after_esc(text: &str) -> (Vec<Event>, Vec<Event>) {
        let mut rest = keys(text).into_iter();
        let esc = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        (whole(esc, || rest.next()), rest.collect())
    }

    fn one(code: KeyCode, modifiers: KeyModifiers) -> Vec<Event> {
        vec![key_event(code, modifiers)]
    }

    #[test]
    fn a_split_sequence_is_one_key() {
        let none = KeyModifiers::NONE;
        assert_eq!(after_esc("[A").0, one(KeyCode::Up, none));
        assert_eq!(after_esc("OQ").0, one(KeyCode::F(2), none));
        assert_eq!(after_esc("\r").0, one(KeyCode::Enter, KeyModifiers::ALT));
        let (key, rest) = after_esc("[5~xy");
        assert_eq!((key, rest), (one(KeyCode::PageUp, none), keys("xy")));
    }

    #[test]
    fn esc_stays_esc_and_nothing_typed_is_lost() {
        let esc = one(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(after_esc("").0, esc);
        for typed in ["x", "[x", "[1;9x", "[123456789"] {
            let (came, rest) = after_esc(typed);
            assert_eq!([came, rest].concat(), [esc.clone(), keys(typed)].concat());
        }
    }

    #[test]
    fn a_split_paste_is_not_sent() {
        assert_eq!(
            after_esc("[200~one\rtwo").0,
            [Event::Paste("one\ntwo".to_owned())]
        );
    }
}
