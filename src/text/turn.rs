//! A finished completion, judged as a whole: the message it is, or why it is none. The ids are there already; while
//! they come, [`super::completion`] reads them.

use super::error::TextError;
use super::markers::{Marker, Markers};
use super::message::{Message, Thinking};
use super::render::{MESSAGE, RESPONSE, THINK};
use super::tokenizer::{Names, Tokenizer};

/// What a completion says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The assistant's message. Nothing is trimmed; bytes that are no text are U+FFFD.
    pub message: Message,
    /// The end id.
    pub end: u32,
    /// Whether the message, rendered anew, gives these very ids up to the end id. A model may spell a word with
    /// other tokens than the tokenizer does: such a turn is kept all the same, and only its own ids are what the
    /// model has read.
    pub canonical: bool,
}

/// Why ids are not a turn.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The think channel is never closed and followed by the response channel.
    #[error("the turn has no boundary between think and response")]
    NoBoundary,
    /// The response channel and the message are never closed.
    #[error("the turn does not close its response and its message")]
    NotClosed,
    /// The closing tags are not followed by an end id and nothing else.
    #[error("the closed turn is not followed by one end id and nothing else")]
    NoEnd,
    /// A special token inside a channel; rendered anew it would be text.
    #[error("the {channel} channel of the turn has the special token {name}")]
    Special {
        /// `think` or `response`.
        channel: &'static str,
        /// The name of the token.
        name: String,
    },
    /// An id that is none.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Reads the ids of a whole completion, its end id included, that followed [`super::render::opening`].
///
/// The first boundary ends the reasoning, the first closing after it ends the answer. Tags must be the ids that the
/// tokenizer gives them.
///
/// # Errors
/// The ids are not a complete turn of this mode, or call tools.
pub fn parse(
    tokenizer: &Tokenizer,
    markers: &Markers,
    thinking: Thinking,
    ids: &[u32],
) -> Result<Turn, TurnError> {
    let tag = |marker, name| {
        let mut tag = vec![markers.id(marker)];
        tag.extend(tokenizer.encode(name, Names::AsText));
        tag.push(markers.id(Marker::Sep));
        tag
    };
    let mut rest = ids;
    let mut canonical = true;
    let mut reasoning = None;
    if thinking.is_on() {
        let boundary = [tag(Marker::Close, THINK), tag(Marker::Open, RESPONSE)].concat();
        let (before, after) = split(rest, &boundary).ok_or(TurnError::NoBoundary)?;
        reasoning = Some(channel(tokenizer, THINK, before, &mut canonical)?);
        rest = after;
    }
    let closing = [tag(Marker::Close, RESPONSE), tag(Marker::Close, MESSAGE)].concat();
    let (answer, after) = split(rest, &closing).ok_or(TurnError::NotClosed)?;
    let &[end] = after else {
        return Err(TurnError::NoEnd);
    };
    if !markers.ends().contains(&end) {
        return Err(TurnError::NoEnd);
    }
    let content = channel(tokenizer, RESPONSE, answer, &mut canonical)?;
    Ok(Turn {
        message: Message::assistant(reasoning, content),
        end,
        canonical,
    })
}

/// What stands before and behind the first `pattern` in `ids`.
fn split<'i>(ids: &'i [u32], pattern: &[u32]) -> Option<(&'i [u32], &'i [u32])> {
    let at = ids
        .windows(pattern.len())
        .position(|window| window == pattern)?;
    Some((&ids[..at], &ids[at + pattern.len()..]))
}

/// The text of a channel.
fn channel(
    tokenizer: &Tokenizer,
    channel: &'static str,
    ids: &[u32],
    canonical: &mut bool,
) -> Result<String, TurnError> {
    if let Some(name) = ids.iter().find_map(|&id| tokenizer.special_name(id)) {
        return Err(TurnError::Special {
            channel,
            name: name.to_owned(),
        });
    }
    let text = tokenizer.decode(ids)?;
    *canonical &= tokenizer.encode(&text, Names::AsText) == ids;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::render;

    const ON: Thinking = Thinking::On(None);
    const TO_RESPONSE: &str = "<|close|>think<|sep|><|open|>response<|sep|>";
    const TO_END: &str = "<|close|>response<|sep|><|close|>message<|sep|>";

    fn parse_ids(thinking: Thinking, ids: &[u32]) -> Result<Turn, TurnError> {
        let tokenizer = Tokenizer::small();
        parse(
            &tokenizer,
            &Markers::find(&tokenizer).unwrap(),
            thinking,
            ids,
        )
    }

    /// A completion given as text, in which the names of special tokens are special tokens.
    fn parse_text(thinking: Thinking, completion: &str) -> Result<Turn, TurnError> {
        parse_ids(
            thinking,
            &Tokenizer::small().encode(completion, Names::Allowed),
        )
    }

    #[test]
    fn nothing_is_trimmed() {
        let end = Tokenizer::small().base() + 1;
        let turn = parse_text(ON, &format!(" hm \n{TO_RESPONSE}\n 中 {TO_END}[EOS]")).unwrap();
        assert_eq!(
            turn,
            Turn {
                message: Message::assistant(Some(" hm \n".into()), "\n 中 "),
                end,
                canonical: true
            }
        );
        let turn = parse_text(Thinking::Off, &format!("{TO_END}<|end_of_msg|>")).unwrap();
        assert_eq!(
            turn,
            Turn {
                message: Message::assistant(None, ""),
                end: end + 1,
                canonical: true
            }
        );
        let turn = parse_text(ON, &format!("{TO_RESPONSE}{TO_END}[EOS]")).unwrap();
        assert_eq!(turn.message.reasoning_content.as_deref(), Some(""));
    }

    #[test]
    fn what_is_not_a_turn_of_this_mode_is_refused() {
        type Check = fn(&TurnError) -> bool;
        let no_boundary: Check = |error| matches!(error, TurnError::NoBoundary);
        let not_closed: Check = |error| matches!(error, TurnError::NotClosed);
        let no_end: Check = |error| matches!(error, TurnError::NoEnd);
        let special: Check = |error| matches!(error, TurnError::Special { .. });
        for (thinking, completion, check) in [
            (ON, String::new(), no_boundary),
            (ON, "hm[EOS]".into(), no_boundary),
            (ON, format!("yes{TO_END}[EOS]"), no_boundary),
            (ON, format!("hm<|close|>think<|sep|>\n<|open|>response<|sep|>yes{TO_END}[EOS]"), no_boundary),
            (ON, format!("hm{TO_RESPONSE}yes"), not_closed),
            (ON, format!("hm{TO_RESPONSE}yes[EOS]"), not_closed),
            (ON, format!("{TO_END}{TO_RESPONSE}[EOS]"), special),
            (ON, format!("hm{TO_RESPONSE}yes{TO_END}"), no_end),
            (ON, format!("hm{TO_RESPONSE}yes{TO_END}a"), no_end),
            (ON, format!("hm{TO_RESPONSE}yes{TO_END}[EOS][EOS]"), no_end),
            (ON, format!("hm{TO_RESPONSE}yes{TO_END}[PAD]"), no_end),
            (ON, format!("hm<|sep|>{TO_RESPONSE}yes{TO_END}[EOS]"), special),
            (ON, format!("hm{TO_RESPONSE}a{TO_RESPONSE}yes{TO_END}[EOS]"), special),
            (ON, format!("hm{TO_RESPONSE}[PAD]{TO_END}[EOS]"), special),
            (ON, format!("hm{TO_RESPONSE}<|reserved_token_400|>{TO_END}[EOS]"), special),
            (Thinking::Off, format!("hm{TO_RESPONSE}yes{TO_END}[EOS]"), special),
            (
                Thinking::Off,
                "a<|close|>response<|sep|><|open|>tools<|sep|><|close|>tools<|sep|><|close|>message<|sep|>[EOS]".into(),
                not_closed,
            ),
        ] {
            let error = parse_text(thinking, &completion).expect_err(&completion);
            assert!(check(&error), "{completion}: {error}");
        }
        let message = parse_text(ON, &format!("a[PAD]{TO_RESPONSE}{TO_END}[EOS]"))
            .expect_err("special")
            .to_string();
        assert_eq!(
            message,
            "the think channel of the turn has the special token [PAD]"
        );
    }

    #[test]
    fn other_tokens_than_the_tokenizers_are_kept_and_told() {
        let tokenizer = Tokenizer::small();
        let mut ids = tokenizer.encode(&format!("the{TO_END}[EOS]"), Names::Allowed);
        let spelled: Vec<u32> = ["t", "h", "e"]
            .iter()
            .flat_map(|byte| tokenizer.encode(byte, Names::AsText))
            .collect();
        ids.splice(0..1, spelled);
        let turn = parse_ids(Thinking::Off, &ids).unwrap();
        assert_eq!(
            (turn.message.content.as_str(), turn.canonical),
            ("the", false)
        );
        // Bytes that are no text.
        ids.splice(
            0..3,
            [tokenizer.encode("😀", Names::AsText), vec![94]].concat(),
        );
        let turn = parse_ids(Thinking::Off, &ids).unwrap();
        assert_eq!(
            (turn.message.content.as_str(), turn.canonical),
            ("😀\u{fffd}", false)
        );
        // Tags are not forgiven.
        let mut ids = tokenizer.encode(&format!("a{TO_END}[EOS]"), Names::Allowed);
        let message = tokenizer.encode("message", Names::AsText);
        let at = ids.iter().position(|id| *id == message[0]).unwrap();
        ids.splice(
            at..at + message.len(),
            "message"
                .chars()
                .flat_map(|c| tokenizer.encode(&c.to_string(), Names::AsText)),
        );
        assert!(matches!(
            parse_ids(Thinking::Off, &ids),
            Err(TurnError::NotClosed)
        ));
    }

    #[test]
    fn an_opening_a_turn_and_the_end_of_a_message_are_the_message() {
        let tokenizer = Tokenizer::small();
        let markers = Markers::find(&tokenizer).unwrap();
        for (thinking, reasoning) in [(ON, Some("hm, 中".to_owned())), (Thinking::Off, None)] {
            let message = Message::assistant(reasoning, "the <|open|> answer");
            let rendered =
                render::encode(&tokenizer, &markers, &render::message(&message, thinking));
            let opening = render::encode(&tokenizer, &markers, &render::opening(thinking));
            let completion = rendered.strip_prefix(opening.as_slice()).unwrap();
            let turn = parse(&tokenizer, &markers, thinking, completion).unwrap();
            assert_eq!(
                turn,
                Turn {
                    message,
                    end: markers.id(Marker::EndOfMessage),
                    canonical: true
                }
            );
        }
    }
}
