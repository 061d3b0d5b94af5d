//! Reasoning and answer, apart: as the server separates them, or by the marks of the chat format where it leaves those in the
//! text. Which of the two it does is found out as the text comes.

use crate::text::markers::Piece;
use crate::text::{Channel, CompletionParser, Ending, Event, Marker, Place, Thinking};

/// Text of a channel, or a finding about what came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// More of a channel.
    Text(Channel, String),
    /// All that was given as the answer so far is reasoning: the server does not separate it.
    WasReasoning,
}

/// The markers that can stand in a text.
const MARKERS: [Marker; 4] = [
    Marker::Open,
    Marker::Close,
    Marker::Sep,
    Marker::EndOfMessage,
];

/// Bytes of the longest tag between its markers; anything longer is text.
const LONGEST_TAG: usize = 16;

/// An answer's text on its way into channels.
#[derive(Debug)]
pub(super) struct Channels {
    thinking: Thinking,
    /// What may be the beginning of a marker, or a tag whose end is missing.
    held: String,
    /// The reader of marks, once it is known that there are some.
    parser: Option<CompletionParser>,
    /// Whether the server separates reasoning.
    separated: bool,
    /// Whether there was text of the answer.
    spoke: bool,
}

impl Channels {
    /// For an answer with this much thinking. `marked` says that the server was found to leave marks in the text before.
    pub fn new(thinking: Thinking, marked: bool) -> Self {
        Self {
            thinking,
            held: String::new(),
            parser: (marked && thinking.is_on()).then(|| CompletionParser::new(thinking)),
            separated: false,
            spoke: false,
        }
    }

    /// Whether marks were read.
    pub fn marked(&self) -> bool {
        let place = self.parser.as_ref().map(CompletionParser::place);
        place.is_some_and(|place| place != Place::In(Channel::Think))
    }

    /// How the marks say that the answer ended, if they do.
    pub fn ending(&self) -> Option<&Ending> {
        self.parser.as_ref()?.ending()
    }

    /// Reasoning that the server separated.
    pub fn reasoning(&mut self, text: &str) -> Vec<Spoken> {
        self.separated = true;
        // A server that was found to leave marks has been started anew.
        if !self.spoke {
            self.parser = None;
        }
        vec![Spoken::Text(Channel::Think, text.to_owned())]
    }

    /// Text that may have marks.
    pub fn content(&mut self, text: &str) -> Vec<Spoken> {
        self.held.push_str(text);
        let mut spoken = Vec::new();
        while let Some(step) = self.next() {
            self.take(step, &mut spoken);
        }
        spoken
    }

    /// No more comes: what was held is text after all.
    pub fn finish(&mut self) -> Vec<Spoken> {
        let mut spoken = Vec::new();
        let held = std::mem::take(&mut self.held);
        match &mut self.parser {
            Some(parser) => {
                if !held.is_empty() {
                    speak(parser.push_piece(Piece::Text(held.as_bytes())), &mut spoken);
                }
                speak(parser.finish(), &mut spoken);
            }
            None => self.plain(held, &mut spoken),
        }
        spoken
    }

    /// The next text before a marker, or the next marker, as far as it is certain.
    fn next(&mut self) -> Option<Step> {
        let found = MARKERS
            .into_iter()
            .filter_map(|marker| Some((self.held.find(marker.name())?, marker)))
            .min_by_key(|(at, _)| *at);
        match found {
            Some((0, marker)) if self.parser.is_some() => {
                self.held.drain(..marker.name().len());
                Some(Step::Marker(marker))
            }
            Some((0, marker)) => self.tag(marker),
            Some((at, _)) => Some(Step::Text(self.held.drain(..at).collect())),
            None => {
                let certain = self.held.len() - beginning(&self.held);
                (certain > 0).then(|| Step::Text(self.held.drain(..certain).collect()))
            }
        }
    }

    /// What stands at the front and begins with a marker, where it is not known whether there are marks.
    fn tag(&mut self, marker: Marker) -> Option<Step> {
        let name = &self.held[marker.name().len()..];
        let sep = Marker::Sep.name();
        let end = match marker {
            Marker::Open | Marker::Close => name.find(sep),
            Marker::Sep | Marker::EndOfMessage => None,
        };
        match end {
            Some(end) if end <= LONGEST_TAG => {
                let name = name[..end].to_owned();
                let length = marker.name().len() + end + sep.len();
                let whole: String = self.held.drain(..length).collect();
                Some(Step::Tag {
                    closes: marker == Marker::Close,
                    name,
                    whole,
                })
            }
            None if matches!(marker, Marker::Open | Marker::Close)
                && name.len() < LONGEST_TAG + sep.len() =>
            {
                None
            }
            // Somebody writes about markers.
            _ => Some(Step::Text(self.held.drain(..marker.name().len()).collect())),
        }
    }

    fn take(&mut self, step: Step, spoken: &mut Vec<Spoken>) {
        match (step, &mut self.parser) {
            (Step::Text(text), Some(parser)) => {
                speak(parser.push_piece(Piece::Text(text.as_bytes())), spoken);
            }
            (Step::Text(text), None) => self.plain(text, spoken),
            (Step::Marker(marker), Some(parser)) => {
                let piece = match marker {
                    // Its id is not known here, and nothing hangs on it.
                    Marker::EndOfMessage => Piece::End(0),
                    marker => Piece::Marker(marker),
                };
                speak(parser.push_piece(piece), spoken);
            }
            (Step::Marker(marker), None) => self.plain(marker.name().to_owned(), spoken),
            (
                Step::Tag {
                    closes,
                    name,
                    whole,
                },
                _,
            ) => match self.begun(closes, &name) {
                Some((parser, was_reasoning)) => {
                    if was_reasoning && self.spoke {
                        spoken.push(Spoken::WasReasoning);
                    }
                    self.parser = Some(parser);
                }
                None => self.plain(whole, spoken),
            },
        }
    }

    /// A reader behind this tag, if the tag can stand here; and whether what came before it was reasoning.
    fn begun(&self, closes: bool, name: &str) -> Option<(CompletionParser, bool)> {
        let thinks = self.thinking.is_on();
        let on = Thinking::On(None);
        let behind = |thinking, tags: &[(bool, &str)]| {
            let mut parser = CompletionParser::new(thinking);
            for (closes, name) in tags {
                let marker = match closes {
                    true => Marker::Close,
                    false => Marker::Open,
                };
                parser.push_piece(Piece::Marker(marker));
                parser.push_piece(Piece::Text(name.as_bytes()));
                parser.push_piece(Piece::Marker(Marker::Sep));
            }
            parser
        };
        match (closes, name) {
            (true, "think") if thinks && !self.separated => {
                Some((behind(on, &[(true, "think")]), true))
            }
            (false, "think") if thinks && !self.spoke => Some((behind(on, &[]), false)),
            (false, "response") if !self.spoke => {
                Some((behind(on, &[(true, "think"), (false, "response")]), false))
            }
            (true, "response") if !thinks && !self.separated => {
                Some((behind(Thinking::Off, &[(true, "response")]), false))
            }
            _ => None,
        }
    }

    /// Text of a server that separates, as far as is known.
    fn plain(&mut self, text: String, spoken: &mut Vec<Spoken>) {
        if !text.is_empty() {
            self.spoke = true;
            spoken.push(Spoken::Text(Channel::Response, text));
        }
    }
}

/// A certain part of a text.
enum Step {
    Text(String),
    Marker(Marker),
    Tag {
        closes: bool,
        name: String,
        whole: String,
    },
}

/// Bytes at the end that may be the beginning of a marker.
fn beginning(text: &str) -> usize {
    let could = |length: &usize| {
        let end = &text.as_bytes()[text.len() - length..];
        let begins = |marker: Marker| marker.name().as_bytes().starts_with(end);
        MARKERS.into_iter().any(begins)
    };
    let longest = MARKERS.map(|marker| marker.name().len() - 1);
    let longest = longest.into_iter().max().unwrap_or(0).min(text.len());
    (1..=longest).rev().find(could).unwrap_or(0)
}

fn speak(events: Vec<Event>, spoken: &mut Vec<Spoken>) {
    for event in events {
        if let Event::Text(channel, text) = event {
            spoken.push(Spoken::Text(channel, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Effort;
    use proptest::prelude::*;

    const ON: Thinking = Thinking::On(Some(Effort::Max));

    /// Reasoning and answer in the end, and whether there were marks.
    fn heard<'a>(
        mut channels: Channels,
        pieces: impl IntoIterator<Item = &'a str>,
    ) -> (String, String, bool) {
        let (mut think, mut response) = (String::new(), String::new());
        let mut spoken: Vec<Spoken> = Vec::new();
        for piece in pieces {
            spoken.extend(match piece.strip_prefix("R:") {
                Some(reasoning) => channels.reasoning(reasoning),
                None => channels.content(piece),
            });
        }
        spoken.extend(channels.finish());
        for spoken in spoken {
            match spoken {
                Spoken::Text(Channel::Think, text) => think += &text,
                Spoken::Text(_, text) => response += &text,
                Spoken::WasReasoning => think += &std::mem::take(&mut response),
            }
        }
        (think, response, channels.marked())
    }

    fn of(think: &str, response: &str, marked: bool) -> (String, String, bool) {
        (think.to_owned(), response.to_owned(), marked)
    }

    const RAW: &str = "They greet.<|close|>think<|sep|><|open|>response<|sep|>Hi < you<|close|>response<|sep|><|close|>message<|sep|>";

    #[test]
    fn a_server_that_separates_is_taken_as_it_is() {
        let channels = || Channels::new(ON, false);
        assert_eq!(
            heard(channels(), ["R:They", "R: greet.", "Hi <", "| x"]),
            of("They greet.", "Hi <| x", false)
        );
        // Somebody asked about the marks.
        let about =
            "It is <|close|>think<|sep|> or <|sep|> or <|open|>a long name that is no tag<|sep|>.";
        assert_eq!(heard(channels(), ["R:a", about]), of("a", about, false));
        assert_eq!(heard(channels(), ["<|op"]), of("", "<|op", false));
    }

    #[test]
    fn marks_are_found_as_they_come_and_known_the_next_time() {
        assert_eq!(
            heard(Channels::new(ON, false), [RAW]),
            of("They greet.", "Hi < you", true)
        );
        let mut known = Channels::new(ON, true);
        let first = known.content("They");
        assert_eq!(first, [Spoken::Text(Channel::Think, "They".into())]);
        assert_eq!(
            heard(Channels::new(ON, true), [RAW, "<|end_of_msg|>"]),
            of("They greet.", "Hi < you", true)
        );
        // Started anew, it separates.
        assert_eq!(
            heard(Channels::new(ON, true), ["R:a", "b"]),
            of("a", "b", false)
        );
    }

    #[test]
    fn marks_that_are_left_over_are_taken_away() {
        let off = || Channels::new(Thinking::Off, false);
        let tail = "Hi<|close|>response<|sep|><|close|>message<|sep|>";
        assert_eq!(heard(off(), [tail]), of("", "Hi", true));
        let with = format!("<|open|>response<|sep|>{tail}");
        assert_eq!(
            heard(Channels::new(ON, false), ["R:hm", &with]),
            of("hm", "Hi", true)
        );
        let whole = format!("<|open|>think<|sep|>{RAW}");
        assert_eq!(
            heard(Channels::new(ON, false), [whole.as_str()]),
            of("They greet.", "Hi < you", true)
        );
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(cuts in prop::collection::vec(0..RAW.len(), 0..6), known: bool) {
            let mut cuts = cuts;
            cuts.extend([0, RAW.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &RAW[pair[0]..pair[1]]).collect();
            let heard = heard(Channels::new(ON, known), pieces);
            prop_assert_eq!(heard, of("They greet.", "Hi < you", true));
        }
    }
}
