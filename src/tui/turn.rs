//! The turn that runs: what was counted and when. Not its text.

use std::time::Duration;

use crate::text::Channel;

/// A running turn, as far as the screen has seen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// When it began.
    pub began: Duration,
    /// Positions to read before the first token.
    pub prompt: usize,
    /// When the first token came.
    pub first: Option<Duration>,
    /// When the first token of the response came.
    pub answering: Option<Duration>,
    /// Tokens of the think channel.
    pub think: usize,
    /// Tokens of the response channel.
    pub response: usize,
    /// Whether it was asked to stop.
    pub cancelling: bool,
    /// Whether it is halted.
    pub paused: bool,
    /// Whether its reasoning has its heading already.
    pub heading: bool,
}

impl Turn {
    /// A turn that begins.
    pub fn new(began: Duration, prompt: usize) -> Self {
        Self {
            began,
            prompt,
            ..Self::default()
        }
    }

    /// Counts a token.
    pub fn count(&mut self, channel: Option<Channel>, now: Duration) {
        self.first.get_or_insert(now);
        match channel {
            Some(Channel::Think) => self.think += 1,
            Some(Channel::Response) => {
                self.response += 1;
                self.answering.get_or_insert(now);
            }
            Some(Channel::Tools) | None => {}
        }
    }

    /// How long the thinking took, or has taken.
    pub fn thinking(&self, now: Duration) -> Duration {
        let from = self.first.unwrap_or(now);
        self.answering.unwrap_or(now).saturating_sub(from)
    }

    /// How long the response has taken.
    pub fn responding(&self, now: Duration) -> Duration {
        now.saturating_sub(self.answering.unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_ends_where_answering_begins() {
        let at = Duration::from_secs;
        let mut turn = Turn::new(at(1), 9);
        assert_eq!(turn.thinking(at(2)), at(0), "still reading");
        turn.count(None, at(3));
        turn.count(Some(Channel::Think), at(4));
        assert_eq!(turn.thinking(at(6)), at(3));
        turn.count(Some(Channel::Response), at(8));
        turn.count(Some(Channel::Response), at(9));
        assert_eq!(turn.thinking(at(20)), at(5));
        assert_eq!(turn.responding(at(20)), at(12));
        assert_eq!((turn.think, turn.response), (1, 2));
    }
}
