//! Server-sent events, as the HTML standard defines the stream (9.2.6): bytes in, events out. Not what an event says.

/// The most bytes that a line may have.
pub const LONGEST_LINE: usize = 1 << 20;

/// The most bytes that an event's data may have.
const LONGEST_DATA: usize = 4 << 20;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEvent {
    /// Its type; `message` where none was given.
    pub kind: String,
    /// Its lines of data, joined by line feeds.
    pub data: String,
}

/// A line or an event that is longer than any that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of more than {most} bytes, which nothing needs")]
pub struct TooLong {
    what: &'static str,
    most: usize,
}

/// A stream of events that comes in pieces. What is held is bounded: an unfinished line and an unfinished event.
#[derive(Debug, Default)]
pub struct Events {
    /// The unfinished line.
    line: Vec<u8>,
    /// Whether the first line is behind: only before it a byte-order mark is skipped.
    begun: bool,
    /// Whether the last byte was a CR, whose LF belongs to it.
    after_cr: bool,
    kind: String,
    data: String,
    /// Whether there was a line of data, an empty one too.
    has_data: bool,
}

impl Events {
    /// Takes bytes, cut anywhere, and gives the events that they complete. An event that the end of the stream cuts is none.
    ///
    /// # Errors
    /// A line or an event is too long; nothing may be pushed after that.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<ServerEvent>, TooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if std::mem::take(&mut self.after_cr) {
            match rest.first() {
                Some(b'\n') => rest = &rest[1..],
                Some(_) => {}
                None => self.after_cr = true,
            }
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            self.hold(&rest[..at])?;
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, &mut events)?;
            let cr = rest[at] == b'\r';
            rest = &rest[at + 1..];
            if cr {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.hold(rest)?;
        Ok(events)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + part.len() > LONGEST_LINE {
            return Err(TooLong {
                what: "a line",
                most: LONGEST_LINE,
            });
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<ServerEvent>) -> Result<(), TooLong> {
        let mut line = line;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        // No character has a CR or LF among its bytes, so a line at a time is the same as all at once.
        let line = String::from_utf8_lossy(line);
        if line.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.kind),
            "data" => {
                if self.data.len() + value.len() > LONGEST_DATA {
                    return Err(TooLong {
                        what: "an event",
                        most: LONGEST_DATA,
                    });
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            // A comment has no name. `id` and `retry` are for streams that are taken up again, which an answer is not;
            // others are to be ignored.
            _ => {}
        }
        Ok(())
    }

    /// An empty line ends an event. One without data is none.
    fn dispatch(&mut self, events: &mut Vec<ServerEvent>) {
        let (kind, data) = (
            std::mem::take(&mut self.kind),
            std::mem::take(&mut self.data),
        );
        // The standard looks at the data buffer after a line feed was put behind every line, so one empty line is data.
        if std::mem::take(&mut self.has_data) {
            let kind = match kind.as_str() {
                "" => "message".to_owned(),
                _ => kind,
            };
            events.push(ServerEvent { kind, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Vec<(String, String)> {
        let events = Events::default().push(bytes).unwrap();
        let pairs = events.into_iter().map(|event| (event.kind, event.data));
        pairs.collect()
    }

    fn data(text: &str) -> Vec<String> {
        all(text.as_bytes())
            .into_iter()
            .map(|event| event.1)
            .collect()
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(data("data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
        let text = ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
        assert_eq!(data(text), ["first event", "second event", " third event"]);
        assert_eq!(data("data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
        assert_eq!(data("data:test\n\ndata: test\n\n"), ["test", "test"]);
        assert_eq!(
            all(b"event: add\ndata: 1\n\nevent: none\n\ndata: 2\n\n"),
            [("add".into(), "1".into()), ("message".into(), "2".into())]
        );
    }

    #[test]
    fn lines_end_in_three_ways_and_a_mark_is_skipped_once() {
        for end in ["\n", "\r", "\r\n"] {
            let text =
                "data: a\ndata: b\n\n: c\nother: d\nretry: 10\ndata: e\n\n".replace('\n', end);
            assert_eq!(data(&text), ["a\nb", "e"], "{end:?}");
        }
        assert_eq!(data("\u{feff}data: a\n\n"), ["a"]);
        assert_eq!(data("\u{feff}\u{feff}data: a\n\n"), Vec::<String>::new());
        assert_eq!(data("data: a\n\n\u{feff}data: b\n\n"), ["a"]);
        assert_eq!(
            all(b"data: \xff\xe4\xb8\n\n"),
            [("message".into(), "\u{fffd}\u{fffd}".into())]
        );
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_kept() {
        let mut events = Events::default();
        let piece = vec![b'x'; LONGEST_LINE / 4];
        for _ in 0..4 {
            assert_eq!(events.push(&piece), Ok(Vec::new()));
        }
        let error = events.push(b"x").unwrap_err();
        assert!(error.to_string().starts_with("a line of more than"));
        assert!(events.line.capacity() <= 2 * LONGEST_LINE);
        let mut events = Events::default();
        let line = [&b"data:"[..], &piece, b"\n"].concat();
        let error = (0..100).find_map(|_| events.push(&line).err()).unwrap();
        assert!(error.to_string().starts_with("an event of more than"));
        assert!(events.data.len() <= LONGEST_DATA);
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            lines in prop::collection::vec("(data|event|id|x)?(:| |é|漢|data| ){0,4}", 0..12),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n"]), 12),
            cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            let text: String = lines.iter().zip(&ends).map(|(line, end)| format!("{line}{end}")).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut events = Events::default();
            let mut found = Vec::new();
            for pair in cuts.windows(2) {
                found.extend(events.push(&bytes[pair[0]..pair[1]]).unwrap());
            }
            prop_assert_eq!(found, Events::default().push(bytes).unwrap());
        }
    }
}
