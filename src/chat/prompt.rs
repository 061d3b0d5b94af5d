//! What the model reads: a conversation's ids. Where the very ids of an answer are known they are used, since a model may
//! spell a word with other tokens than the tokenizer would; else its text is encoded anew.

use super::Words;
use crate::text::{
    Channel, CompletionParser, Ending, Event, Marker, Message, Place, Role, Thinking, render,
};

/// An answer as the model made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken<'a> {
    /// The ids that were made, with the end id if it came to one.
    pub ids: &'a [u32],
    /// Whether a think channel was opened for it.
    pub thought: bool,
}

/// The ids of a conversation, without the opening of the next answer. `spoken` has one entry a message: the ids of an
/// answer where they are known.
pub fn conversation<'a>(
    words: &Words,
    messages: &'a [Message],
    spoken: impl IntoIterator<Item = Option<Spoken<'a>>>,
    thinking: Thinking,
) -> Vec<u32> {
    let encode =
        |segments: &[render::Segment]| render::encode(&words.tokenizer, &words.markers, segments);
    // The effort's message alone.
    let mut ids = encode(&render::conversation(&[], thinking));
    for (message, spoken) in messages.iter().zip(spoken) {
        let body = spoken
            .filter(|spoken| spoken.thought == thinking.is_on())
            .and_then(|spoken| body(words, message, spoken));
        match body {
            Some(body) => {
                ids.extend(opening(words, thinking));
                ids.extend(body);
                ids.push(words.markers.id(Marker::EndOfMessage));
            }
            None => ids.extend(encode(&render::message(message, thinking))),
        }
    }
    ids
}

/// The ids that an answer begins after.
pub fn opening(words: &Words, thinking: Thinking) -> Vec<u32> {
    render::encode(&words.tokenizer, &words.markers, &render::opening(thinking))
}

/// The ids of an answer, closed if it was cut; nothing if they do not say what the message says.
fn body(words: &Words, message: &Message, spoken: Spoken) -> Option<Vec<u32>> {
    if message.role != Role::Assistant {
        return None;
    }
    let heard = hear(words, spoken)?;
    let reasoning = message.reasoning_content.as_deref().unwrap_or_default();
    if heard.think != reasoning || heard.response != message.content {
        return None;
    }
    let mut body = spoken.ids[..heard.kept].to_vec();
    body.extend(render::encode(
        &words.tokenizer,
        &words.markers,
        &render::closing(heard.place),
    ));
    Some(body)
}

/// The message that ids say, however far they came, and how it ends if it does; nothing if they are no answer.
pub(super) fn read_back(words: &Words, spoken: Spoken) -> Option<(Message, Option<Ending>)> {
    let heard = hear(words, spoken)?;
    let reasoning = spoken.thought.then_some(heard.think);
    let message = Message::assistant(reasoning, heard.response);
    Some((message, heard.ending))
}

/// What ids say.
struct Heard {
    think: String,
    response: String,
    /// Ids before the end id, or before a tag that was never ended.
    kept: usize,
    place: Place,
    ending: Option<Ending>,
}

/// Nothing if they are no answer, or one that cannot be closed.
fn hear(words: &Words, spoken: Spoken) -> Option<Heard> {
    let thinking = match spoken.thought {
        true => Thinking::On(None),
        false => Thinking::Off,
    };
    let mut parser = CompletionParser::new(thinking);
    let mut heard = Heard {
        think: String::new(),
        response: String::new(),
        kept: 0,
        place: parser.place(),
        ending: None,
    };
    for (at, &id) in spoken.ids.iter().enumerate() {
        let events = parser.push(&words.tokenizer, &words.markers, id).ok()?;
        heard.note(events)?;
        if parser.ending().is_none() && !parser.in_tag() {
            (heard.kept, heard.place) = (at + 1, parser.place());
        }
    }
    // What ends here only because there are no more ids has no ending of its own.
    heard.ending = parser.ending().cloned();
    heard.note(parser.finish())?;
    Some(heard)
}

/// A model's text as it is kept and told: a NUL, which no history can hold, is shown like a byte that is no character.
pub(crate) fn writable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl Heard {
    fn note(&mut self, events: Vec<Event>) -> Option<()> {
        for event in events {
            match event {
                Event::Text(Channel::Think, text) => self.think += &writable(&text),
                Event::Text(Channel::Response, text) => self.response += &writable(&text),
                // No message holds it.
                Event::Text(Channel::Tools, _) => return None,
                Event::Opened(_) | Event::Closed(_) | Event::Ended(_) => {}
            }
        }
        Some(())
    }
}
