//! A completion as it comes, id by id: which channel the model is in and what it says there. Nothing is judged that
//! is not there yet; a finished turn is judged by [`super::turn`].

use std::fmt;

use super::error::Result;
use super::markers::{Marker, Markers, Piece};
use super::message::Thinking;
use super::render::{MESSAGE, RESPONSE, THINK};
use super::tokenizer::Tokenizer;
use super::utf8::Utf8Stream;

/// The tag of the tools channel.
const TOOLS: &str = "tools";

/// A part of a completion that has text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The reasoning.
    Think,
    /// The answer.
    Response,
    /// Calls of tools. Its text is raw, the tags inside it spelled out: nothing here calls tools.
    Tools,
}

/// Where in its completion the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Inside a channel.
    In(Channel),
    /// Behind a channel.
    After(Channel),
    /// Behind the closing tag of the message, where only an end id is missing.
    AfterMessage,
}

impl Place {
    /// The tags that may stand here: whether they close, their name, and where they lead.
    pub(super) fn tags(self) -> &'static [(bool, &'static str, Place)] {
        use Channel::{Response, Think, Tools};
        match self {
            Self::In(Think) => &[(true, THINK, Self::After(Think))],
            Self::After(Think) => &[(false, RESPONSE, Self::In(Response))],
            Self::In(Response) => &[(true, RESPONSE, Self::After(Response))],
            Self::After(Response) => &[
                (true, MESSAGE, Self::AfterMessage),
                (false, TOOLS, Self::In(Tools)),
            ],
            Self::In(Tools) => &[(true, TOOLS, Self::After(Tools))],
            Self::After(Tools) => &[(true, MESSAGE, Self::AfterMessage)],
            Self::AfterMessage => &[],
        }
    }

    /// Whether a tag whose name begins with `start` may stand here. The tags inside the tools channel are not read.
    fn may_begin(self, closes: bool, start: &[u8]) -> bool {
        self == Self::In(Channel::Tools)
            || self.tags().iter().any(|&(tag_closes, name, _)| {
                tag_closes == closes && name.as_bytes().starts_with(start)
            })
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Think => THINK,
            Self::Response => RESPONSE,
            Self::Tools => TOOLS,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(channel) => write!(f, "in the {channel} channel"),
            Self::After(channel) => write!(f, "after the {channel} channel"),
            Self::AfterMessage => f.write_str("after the message"),
        }
    }
}

/// How a completion ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it should, with this end id.
    Complete(u32),
    /// With an end id inside a channel: what the channel says is cut.
    Truncated(Channel),
    /// Without an end id: the limit of tokens was reached, or someone stopped it, here.
    Stopped(Place),
    /// With something that cannot stand where it stood.
    Malformed {
        /// Where it stood.
        place: Place,
        /// What it was: the name of a special token, or a tag or text.
        found: String,
    },
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(id) => write!(f, "complete, ended by {id}"),
            Self::Truncated(channel) => {
                write!(f, "the model ended its turn {}", Place::In(*channel))
            }
            Self::Stopped(place) => {
                write!(f, "stopped {place}, before the model had ended its turn")
            }
            Self::Malformed { place, found } => write!(f, "the model wrote {found} {place}"),
        }
    }
}

/// What an id of a completion says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A channel begins. The first one of a completion has begun before it.
    Opened(Channel),
    /// More text of a channel; whole characters, never empty.
    Text(Channel, String),
    /// A channel has its closing tag.
    Closed(Channel),
    /// The completion has ended. Nothing follows.
    Ended(Ending),
}

/// A tag being read.
#[derive(Clone, Debug)]
struct Tag {
    closes: bool,
    name: Vec<u8>,
}

/// Reads a completion id by id. Tags are compared by the bytes of their names, however the model spells them.
#[derive(Clone, Debug)]
pub struct CompletionParser {
    place: Place,
    tag: Option<Tag>,
    text: Utf8Stream,
    ending: Option<Ending>,
}

impl CompletionParser {
    /// For a completion that follows [`super::render::opening`] of the same `thinking`.
    pub fn new(thinking: Thinking) -> Self {
        let channel = if thinking.is_on() {
            Channel::Think
        } else {
            Channel::Response
        };
        Self {
            place: Place::In(channel),
            tag: None,
            text: Utf8Stream::default(),
            ending: None,
        }
    }

    /// Takes the next id. Once the completion has ended, whatever may follow is ignored.
    ///
    /// # Errors
    /// The tokenizer has no such id.
    pub fn push(
        &mut self,
        tokenizer: &Tokenizer,
        markers: &Markers,
        id: u32,
    ) -> Result<Vec<Event>> {
        Ok(self.push_piece(markers.piece(tokenizer, id)?))
    }

    /// [`Self::push`] for what an id has been found to be.
    pub fn push_piece(&mut self, piece: Piece) -> Vec<Event> {
        let mut events = Vec::new();
        if self.ending.is_some() {
            return events;
        }
        match (self.tag.take(), piece) {
            (Some(tag), Piece::Text(bytes)) => self.tag_goes_on(tag, bytes, &mut events),
            (Some(tag), Piece::Marker(Marker::Sep)) => self.tag_ends(&tag, &mut events),
            (None, Piece::Text(bytes)) => match self.place {
                Place::In(channel) => say(channel, self.text.push(bytes), &mut events),
                _ => self.malformed(&String::from_utf8_lossy(bytes), &mut events),
            },
            (None, Piece::Marker(marker @ (Marker::Open | Marker::Close)))
                if self.place.may_begin(marker == Marker::Close, b"") =>
            {
                self.flush(&mut events);
                self.tag = Some(Tag {
                    closes: marker == Marker::Close,
                    name: Vec::new(),
                });
            }
            (None, Piece::End(id)) if self.place == Place::AfterMessage => {
                self.end(Ending::Complete(id), &mut events);
            }
            (None, Piece::End(_)) if let Place::In(channel) = self.place => {
                self.end(Ending::Truncated(channel), &mut events);
            }
            (_, Piece::Marker(marker)) => self.malformed(marker.name(), &mut events),
            (_, Piece::End(_)) => self.malformed("the end of its turn", &mut events),
            (_, Piece::Special(name)) => self.malformed(name, &mut events),
        }
        events
    }

    /// No more ids come: the completion ended before the model ended it, unless it has ended already.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.ending.is_none() {
            self.end(Ending::Stopped(self.place), &mut events);
        }
        events
    }

    /// Where the completion is, or where it was when it ended.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The channel that the next token of text belongs to; none inside a tag, between channels, or at the end.
    pub fn speaking(&self) -> Option<Channel> {
        match self.place {
            Place::In(channel) if self.tag.is_none() && self.ending.is_none() => Some(channel),
            _ => None,
        }
    }

    /// Whether a tag has begun and not ended.
    pub fn in_tag(&self) -> bool {
        self.tag.is_some()
    }

    /// How the completion ended, if it has.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    fn tag_goes_on(&mut self, mut tag: Tag, bytes: &[u8], events: &mut Vec<Event>) {
        tag.name.extend_from_slice(bytes);
        // Said as soon as no tag can come of it: a model that has lost its way may never end its tag.
        if self.place.may_begin(tag.closes, &tag.name) {
            self.tag = Some(tag);
        } else {
            self.malformed(&spelled(&tag), events);
        }
    }

    fn tag_ends(&mut self, tag: &Tag, events: &mut Vec<Event>) {
        let next = self
            .place
            .tags()
            .iter()
            .find(|(closes, name, _)| *closes == tag.closes && name.as_bytes() == tag.name);
        match (next, self.place) {
            (Some(&(_, _, next)), place) => {
                self.place = next;
                match (place, next) {
                    (Place::In(channel), _) => events.push(Event::Closed(channel)),
                    (_, Place::In(channel)) => events.push(Event::Opened(channel)),
                    _ => {}
                }
            }
            (None, Place::In(Channel::Tools)) => {
                say(Channel::Tools, spelled(tag) + Marker::Sep.name(), events);
            }
            (None, _) => self.malformed(&(spelled(tag) + Marker::Sep.name()), events),
        }
    }

    /// Gives out what was held back of a character: nothing can finish it any more.
    fn flush(&mut self, events: &mut Vec<Event>) {
        let rest = self.text.finish();
        if let Place::In(channel) = self.place {
            say(channel, rest, events);
        }
    }

    fn malformed(&mut self, found: &str, events: &mut Vec<Event>) {
        self.end(
            Ending::Malformed {
                place: self.place,
                found: format!("{found:?}"),
            },
            events,
        );
    }

    fn end(&mut self, ending: Ending, events: &mut Vec<Event>) {
        self.flush(events);
        self.tag = None;
        self.ending = Some(ending.clone());
        events.push(Event::Ended(ending));
    }
}

/// A tag as text, without the marker that ends it.
fn spelled(tag: &Tag) -> String {
    let marker = if tag.closes {
        Marker::Close
    } else {
        Marker::Open
    };
    marker.name().to_owned() + &String::from_utf8_lossy(&tag.name)
}

fn say(channel: Channel, text: String, events: &mut Vec<Event>) {
    if !text.is_empty() {
        events.push(Event::Text(channel, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Names;
    use Channel::{Response, Think, Tools};

    /// The events of a completion given as text, in which the names of special tokens are special tokens.
    fn parse(thinking: Thinking, completion: &str) -> Vec<Event> {
        let tokenizer = Tokenizer::small();
        let markers = Markers::find(&tokenizer).unwrap();
        let mut parser = CompletionParser::new(thinking);
        let ids = tokenizer.encode(completion, Names::Allowed);
        let mut events: Vec<Event> = ids
            .iter()
            .flat_map(|&id| parser.push(&tokenizer, &markers, id).unwrap())
            .collect();
        events.extend(parser.finish());
        joined(events)
    }

    /// Neighbouring texts of one channel made one.
    fn joined(events: Vec<Event>) -> Vec<Event> {
        let mut result: Vec<Event> = Vec::new();
        for event in events {
            match (result.last_mut(), event) {
                (Some(Event::Text(channel, text)), Event::Text(same, more)) if *channel == same => {
                    text.push_str(&more)
                }
                (_, event) => result.push(event),
            }
        }
        result
    }

    fn said(channel: Channel, text: &str) -> Event {
        Event::Text(channel, text.into())
    }

    fn ending(thinking: Thinking, completion: &str) -> Ending {
        match parse(thinking, completion).pop() {
            Some(Event::Ended(ending)) => ending,
            other => panic!("{completion} gave {other:?} last"),
        }
    }

    const ON: Thinking = Thinking::On(None);
    const TO_RESPONSE: &str = "<|close|>think<|sep|><|open|>response<|sep|>";
    const TO_END: &str = "<|close|>response<|sep|><|close|>message<|sep|>";

    #[test]
    fn a_turn_with_both_channels() {
        let end = Tokenizer::small().base();
        for (name, id) in [("<|end_of_msg|>", end + 2), ("[EOS]", end + 1)] {
            assert_eq!(
                parse(
                    ON,
                    &format!("hm, 中😀{TO_RESPONSE}the answer{TO_END}{name}")
                ),
                [
                    said(Think, "hm, 中😀"),
                    Event::Closed(Think),
                    Event::Opened(Response),
                    said(Response, "the answer"),
                    Event::Closed(Response),
                    Event::Ended(Ending::Complete(id)),
                ]
            );
        }
    }

    #[test]
    fn a_turn_without_thinking_and_empty_channels() {
        assert_eq!(
            parse(Thinking::Off, &format!("yes{TO_END}[EOS]"))[..2],
            [said(Response, "yes"), Event::Closed(Response)]
        );
        assert_eq!(
            parse(ON, &format!("{TO_RESPONSE}{TO_END}[EOS]"))[..3],
            [
                Event::Closed(Think),
                Event::Opened(Response),
                Event::Closed(Response)
            ]
        );
    }

    #[test]
    fn tools_are_raw_text() {
        let call = "<|open|>call tool=\"x\"<|sep|><|open|>argument<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>";
        let events = parse(
            Thinking::Off,
            &format!(
                "ok<|close|>response<|sep|><|open|>tools<|sep|>{call}<|close|>tools<|sep|><|close|>message<|sep|>[EOS]"
            ),
        );
        assert_eq!(
            events[1..5],
            [
                Event::Closed(Response),
                Event::Opened(Tools),
                said(Tools, call),
                Event::Closed(Tools)
            ]
        );
        assert!(matches!(events[5], Event::Ended(Ending::Complete(_))));
    }

    #[test]
    fn tags_are_compared_by_their_bytes() {
        let tokenizer = Tokenizer::small();
        let markers = Markers::find(&tokenizer).unwrap();
        let one_byte =
            |byte: u8| tokenizer.encode(std::str::from_utf8(&[byte]).unwrap(), Names::AsText);
        assert_eq!(tokenizer.encode("think", Names::AsText).len(), 1);
        let spelled_out: Vec<u32> = b"think".iter().flat_map(|&byte| one_byte(byte)).collect();
        let mut parser = CompletionParser::new(ON);
        let ids = [
            vec![markers.id(Marker::Close)],
            spelled_out,
            vec![markers.id(Marker::Sep)],
        ]
        .concat();
        let events: Vec<Event> = ids
            .iter()
            .flat_map(|&id| parser.push(&tokenizer, &markers, id).unwrap())
            .collect();
        assert_eq!(events, [Event::Closed(Think)]);
        assert_eq!(parser.place(), Place::After(Think));
        assert_eq!(parser.ending(), None);
    }

    #[test]
    fn what_was_held_back_comes_before_a_marker() {
        let mut parser = CompletionParser::new(ON);
        assert_eq!(
            parser.push_piece(Piece::Text(b"a\xf0\x9f")),
            [said(Think, "a")]
        );
        assert_eq!(
            parser.push_piece(Piece::Marker(Marker::Close)),
            [said(Think, "\u{fffd}")]
        );
        let mut parser = CompletionParser::new(ON);
        assert_eq!(parser.push_piece(Piece::Text(b"\xe4\xb8")), []);
        assert_eq!(
            parser.finish(),
            [
                said(Think, "\u{fffd}"),
                Event::Ended(Ending::Stopped(Place::In(Think)))
            ]
        );
        let mut parser = CompletionParser::new(Thinking::Off);
        assert_eq!(parser.push_piece(Piece::Text(b"\xe4\xb8")), []);
        assert_eq!(
            parser.push_piece(Piece::End(7)),
            [
                said(Response, "\u{fffd}"),
                Event::Ended(Ending::Truncated(Response))
            ]
        );
    }

    #[test]
    fn an_end_where_it_should_not_be() {
        assert_eq!(ending(ON, "hm[EOS]"), Ending::Truncated(Think));
        assert_eq!(
            ending(ON, &format!("hm{TO_RESPONSE}so<|end_of_msg|>")),
            Ending::Truncated(Response)
        );
        assert_eq!(ending(ON, "hm"), Ending::Stopped(Place::In(Think)));
        assert_eq!(
            ending(ON, "hm<|close|>thi"),
            Ending::Stopped(Place::In(Think))
        );
        assert_eq!(
            ending(ON, "hm<|close|>think<|sep|>"),
            Ending::Stopped(Place::After(Think))
        );
        assert_eq!(
            ending(Thinking::Off, &format!("so{TO_END}")),
            Ending::Stopped(Place::AfterMessage)
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let response_closed = "<|close|>response<|sep|>";
        for (thinking, completion, place, found) in [
            (ON, "a<|sep|>".to_owned(), Place::In(Think), "<|sep|>"),
            (ON, "a<|open|>".into(), Place::In(Think), "<|open|>"),
            (ON, "a[PAD]".into(), Place::In(Think), "[PAD]"),
            (
                ON,
                "<|close|>response<|sep|>".into(),
                Place::In(Think),
                "<|close|>response",
            ),
            (
                ON,
                "<|close|>thin<|sep|>".into(),
                Place::In(Think),
                "<|close|>thin<|sep|>",
            ),
            (
                ON,
                "<|close|>think <|sep|>".into(),
                Place::In(Think),
                "<|close|>think ",
            ),
            (
                ON,
                "<|close|><|close|>".into(),
                Place::In(Think),
                "<|close|>",
            ),
            (
                ON,
                "<|close|>think[EOS]".into(),
                Place::In(Think),
                "the end of its turn",
            ),
            (
                ON,
                "<|close|>think<|sep|>\n".into(),
                Place::After(Think),
                "\n",
            ),
            (
                ON,
                "<|close|>think<|sep|>[EOS]".into(),
                Place::After(Think),
                "the end of its turn",
            ),
            (
                ON,
                "<|close|>think<|sep|><|close|>".into(),
                Place::After(Think),
                "<|close|>",
            ),
            (
                Thinking::Off,
                TO_RESPONSE.into(),
                Place::In(Response),
                "<|close|>think",
            ),
            (
                Thinking::Off,
                format!("{response_closed}[EOS]"),
                Place::After(Response),
                "the end of its turn",
            ),
            (
                Thinking::Off,
                format!("{response_closed}<|open|>thi"),
                Place::After(Response),
                "<|open|>th",
            ),
            (
                Thinking::Off,
                format!("{TO_END}a"),
                Place::AfterMessage,
                "a",
            ),
            (
                Thinking::Off,
                format!("{TO_END}<|open|>"),
                Place::AfterMessage,
                "<|open|>",
            ),
        ] {
            let Ending::Malformed {
                place: at,
                found: what,
            } = ending(thinking, &completion)
            else {
                panic!("{completion} is not malformed");
            };
            assert_eq!(at, place, "{completion}");
            assert!(
                what.starts_with(&format!("{found:?}")[..found.escape_debug().count()]),
                "{completion}: {what}"
            );
        }
        let shown = ending(ON, "a<|sep|>").to_string();
        assert_eq!(shown, "the model wrote \"<|sep|>\" in the think channel");
    }

    #[test]
    fn nothing_follows_the_end() {
        let end = Tokenizer::small().base() + 1;
        let events = parse(Thinking::Off, &format!("a{TO_END}[EOS]<|end_of_msg|>more"));
        assert_eq!(events.last(), Some(&Event::Ended(Ending::Complete(end))));
        assert_eq!(events.len(), 3);
    }

    #[test]
    fn an_id_beyond_the_vocabulary_is_refused() {
        let tokenizer = Tokenizer::small();
        let markers = Markers::find(&tokenizer).unwrap();
        assert!(
            CompletionParser::new(ON)
                .push(&tokenizer, &markers, tokenizer.size())
                .is_err()
        );
    }
}
