//! One answer as it comes: its channels, its counts and times, and how it ended. Time is given, never taken.

use std::time::{Duration, Instant};

use super::Fault;
use super::channels::{Channels, Spoken};
use super::chunk::{Finish, Piece};
use super::figures::Counted;
use crate::chat::{Ended, Limits, TurnFacts};
use crate::text::{Channel, Ending, Place, Thinking};

/// Seconds that an answer must take for a pace.
const SHORTEST: f64 = 0.2;

/// An answer that is coming.
#[derive(Debug)]
pub(super) struct Answer {
    channels: Channels,
    /// Reasoning so far.
    pub think: String,
    /// The response so far.
    pub response: String,
    /// Pieces of each: about as many tokens.
    pieces: [usize; 2],
    finish: Option<Finish>,
    tool: bool,
    /// What the server counted.
    pub counted: Option<Counted>,
    asked: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Answer {
    /// One that was asked for now. `marked` says that the server was found to leave the marks of channels in the text before.
    pub fn new(thinking: Thinking, marked: bool, now: Instant) -> Self {
        Self {
            channels: Channels::new(thinking, marked),
            think: String::new(),
            response: String::new(),
            pieces: [0, 0],
            finish: None,
            tool: false,
            counted: None,
            asked: now,
            first: None,
            last: None,
            longest_gap: Duration::ZERO,
        }
    }

    /// Whether anything was said.
    pub fn is_begun(&self) -> bool {
        self.first.is_some()
    }

    /// Whether the server leaves the marks of channels in the text.
    pub fn marked(&self) -> bool {
        self.channels.marked()
    }

    /// Takes what a chunk says; what is to be told of it.
    pub fn take(&mut self, piece: Piece, now: Instant) -> Vec<Spoken> {
        let spoken = match piece {
            Piece::Reasoning(text) => {
                self.count(now);
                self.channels.reasoning(&text)
            }
            Piece::Content(text) => {
                self.count(now);
                self.channels.content(&text)
            }
            Piece::Tool => {
                self.tool = true;
                Vec::new()
            }
            Piece::Finish(finish) => {
                self.finish = Some(finish);
                Vec::new()
            }
            Piece::Usage(counted) => {
                self.counted = Some(counted);
                Vec::new()
            }
            // The call ends with it.
            Piece::Failed(_) => Vec::new(),
        };
        self.keep(spoken)
    }

    /// No more comes; what is to be told yet.
    pub fn finish(&mut self) -> Vec<Spoken> {
        let spoken = self.channels.finish();
        self.keep(spoken)
    }

    fn count(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        if let Some(last) = self.last {
            self.longest_gap = self.longest_gap.max(now.saturating_duration_since(last));
        }
        self.last = Some(now);
    }

    fn keep(&mut self, spoken: Vec<Spoken>) -> Vec<Spoken> {
        let writable = crate::chat::prompt::writable;
        let mut kept = Vec::new();
        for spoken in spoken {
            kept.push(match spoken {
                Spoken::WasReasoning => {
                    self.think.push_str(&std::mem::take(&mut self.response));
                    self.pieces = [self.pieces[0] + self.pieces[1], 0];
                    Spoken::WasReasoning
                }
                Spoken::Text(channel, text) => {
                    let text = writable(&text);
                    let thinks = channel == Channel::Think;
                    match thinks {
                        true => self.think.push_str(&text),
                        false => self.response.push_str(&text),
                    }
                    self.pieces[usize::from(!thinks)] += 1;
                    Spoken::Text(channel, text)
                }
            });
        }
        kept
    }

    /// From asking to the first token.
    pub fn first_token(&self) -> Option<Duration> {
        Some(self.first?.saturating_duration_since(self.asked))
    }

    /// The longest time between two tokens; none before the second.
    pub fn longest_gap(&self) -> Option<Duration> {
        (self.first != self.last).then_some(self.longest_gap)
    }

    /// Tokens that came: those that the server counted, else the pieces.
    pub fn tokens(&self) -> u64 {
        let pieces = self.pieces.iter().sum::<usize>() as u64;
        self.counted.map_or(pieces, |counted| counted.made.max(1))
    }

    /// Tokens a second from the first on.
    pub fn pace(&self) -> Option<f64> {
        let seconds = self
            .last?
            .saturating_duration_since(self.first?)
            .as_secs_f64();
        let tokens = self.tokens().saturating_sub(1);
        // What comes at once was made before: that is no pace.
        (seconds >= SHORTEST && tokens > 0).then(|| tokens as f64 / seconds)
    }

    /// How it ended, as the server and the marks in it say; it came to its end.
    pub fn ended(&self, limits: &Limits) -> Ended {
        let Some(finish) = &self.finish else {
            return Ended::Failed("the server ended the answer without saying why".to_owned());
        };
        let tool = "it called a tool, and there are none here".to_owned();
        match finish.reason.as_str() {
            "tool_calls" | "function_call" => Ended::Malformed(tool),
            "stop" if self.tool && self.response.is_empty() => Ended::Malformed(tool),
            "stop" => match (finish.stop_id, self.channels.ending()) {
                (Some(id), _) if limits.stop_ids.contains(&id) => Ended::StopId(id),
                (_, Some(ending)) => by_marks(ending),
                (_, None) => Ended::Finished,
            },
            "length" => {
                let reached = |most: usize| self.counted.is_none_or(|c| c.made >= most as u64);
                match limits.tokens.is_some_and(reached) {
                    true => Ended::Limit,
                    false => Ended::Length,
                }
            }
            "content_filter" => Ended::Failed("a filter of the server cut it".to_owned()),
            "abort" => Ended::Failed("the server gave it up".to_owned()),
            other => {
                let word = super::discreet::discreet(other, None, &[]);
                Ended::Failed(format!("the server ended it: {word}"))
            }
        }
    }

    /// Its figures.
    pub fn facts(&self, ended: Ended, now: Instant) -> TurnFacts {
        let [think, response] = self.split();
        let first = self.first.unwrap_or(now);
        let last = self.last.unwrap_or(first);
        let (prompt, made) = self.counted.map_or((0, 0), |c| (c.prompt, c.made));
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        TurnFacts {
            think_tokens: think,
            response_tokens: response,
            fed: number(prompt),
            passes: (think + response).saturating_sub(1),
            seconds_prefill: first.saturating_duration_since(self.asked).as_secs_f64(),
            seconds_decode: last.saturating_duration_since(first).as_secs_f64(),
            positions: number(prompt + made),
            ..TurnFacts::nothing(ended)
        }
    }

    /// Tokens of reasoning and of response. What the server counted together is shared out by the pieces that came, where it
    /// does not do so itself.
    fn split(&self) -> [usize; 2] {
        let Some(counted) = self.counted else {
            return self.pieces;
        };
        let made = usize::try_from(counted.made).unwrap_or(usize::MAX);
        let pieces = self.pieces[0] + self.pieces[1];
        let told = counted
            .reasoning
            .filter(|told| *told > 0 || self.pieces[0] == 0);
        let think = match told.and_then(|told| usize::try_from(told).ok()) {
            Some(told) => told.min(made),
            None if pieces == 0 => 0,
            None => (made as f64 * self.pieces[0] as f64 / pieces as f64).round() as usize,
        };
        [think, made - think.min(made)]
    }
}

/// What the marks of channels say of an answer that the server calls complete.
fn by_marks(ending: &Ending) -> Ended {
    match ending {
        // The server takes away the end of the message, and may stop before it is written out.
        Ending::Complete(_) | Ending::Truncated(Channel::Response) => Ended::Finished,
        Ending::Stopped(place) if *place != Place::In(Channel::Think) => Ended::Finished,
        other => Ended::Malformed(other.to_string()),
    }
}

/// How an answer ended that was broken off.
pub(super) fn cut(fault: &Fault) -> Ended {
    Ended::Failed(fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Effort;

    const ON: Thinking = Thinking::On(Some(Effort::Max));

    fn finish(reason: &str, stop_id: Option<u32>) -> Piece {
        Piece::Finish(Finish {
            reason: reason.to_owned(),
            stop_id,
        })
    }

    fn answer(pieces: &[(u64, Piece)]) -> Answer {
        let start = Instant::now();
        let mut answer = Answer::new(ON, false, start);
        for (ms, piece) in pieces {
            answer.take(piece.clone(), start + Duration::from_millis(*ms));
        }
        answer.finish();
        answer
    }

    #[test]
    fn times_and_counts_are_those_of_what_came() {
        let counted = Counted {
            prompt: 100,
            cached: None,
            made: 20,
            reasoning: None,
        };
        let text = |text: &str| Piece::Content(text.to_owned());
        let answer = answer(&[
            (500, Piece::Reasoning("a\0".into())),
            (1000, text("b")),
            (2500, text("c")),
            (2500, finish("stop", None)),
            (2600, Piece::Usage(counted)),
        ]);
        assert_eq!(answer.first_token(), Some(Duration::from_millis(500)));
        assert_eq!(answer.longest_gap(), Some(Duration::from_millis(1500)));
        assert_eq!(answer.pace(), Some(9.5));
        let facts = answer.facts(Ended::Finished, Instant::now());
        assert_eq!((facts.think_tokens, facts.response_tokens), (7, 13));
        assert_eq!((facts.fed, facts.positions), (100, 120));
        assert_eq!((facts.seconds_prefill, facts.seconds_decode), (0.5, 2.0));
        assert_eq!(
            (answer.think.as_str(), answer.response.as_str()),
            ("a\u{fffd}", "bc")
        );
    }

    #[test]
    fn the_ends_of_servers_are_those_of_the_chat() {
        let limits = Limits {
            tokens: Some(5),
            stop_ids: vec![7],
        };
        let ended = |pieces: &[(u64, Piece)]| answer(pieces).ended(&limits);
        assert_eq!(ended(&[(0, finish("stop", None))]), Ended::Finished);
        assert_eq!(ended(&[(0, finish("stop", Some(7)))]), Ended::StopId(7));
        assert_eq!(ended(&[(0, finish("stop", Some(8)))]), Ended::Finished);
        assert_eq!(ended(&[(0, finish("length", None))]), Ended::Limit);
        let made = |made| {
            let counted = Counted {
                made,
                ..Counted::default()
            };
            ended(&[(0, finish("length", None)), (0, Piece::Usage(counted))])
        };
        assert_eq!((made(5), made(4)), (Ended::Limit, Ended::Length));
        for reason in ["tool_calls", "stop"] {
            let tool = ended(&[(0, Piece::Tool), (0, finish(reason, None))]);
            assert!(matches!(tool, Ended::Malformed(_)), "{reason}");
        }
        for reason in ["abort", "content_filter", "else"] {
            let failed = ended(&[(0, finish(reason, None))]);
            assert!(matches!(failed, Ended::Failed(_)), "{reason}");
        }
        assert!(matches!(ended(&[]), Ended::Failed(_)));
    }
}
