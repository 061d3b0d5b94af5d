//! Counts and times of one session of the screen. Not those of a running turn.

use std::time::Duration;

use crate::engine::TurnFacts;

/// What has come together since the screen opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Turns that have ended, however.
    pub turns: usize,
    /// Positions that were read before first tokens.
    pub read: usize,
    /// Tokens of the think channel.
    pub think: usize,
    /// Tokens of the response channel.
    pub response: usize,
    /// Time until first tokens.
    pub reading: Duration,
    /// Time from first tokens on.
    pub making: Duration,
    /// Experts that could not be read.
    pub drops: u64,
    /// Seconds that reading a position took last.
    pace: Option<f64>,
    /// Seconds that a token took last.
    token: Option<f64>,
}

impl Totals {
    /// Counts a turn.
    pub fn count(&mut self, facts: &TurnFacts) {
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.turns += 1;
        self.read += facts.fed;
        self.think += facts.think_tokens;
        self.response += facts.response_tokens;
        self.reading += time(facts.seconds_prefill);
        self.making += time(facts.seconds_decode);
        self.drops += facts.drops;
        if facts.fed > 0 && facts.seconds_prefill > 0.0 {
            self.pace = Some(facts.seconds_prefill / facts.fed as f64);
        }
        if facts.passes > 0 && facts.seconds_decode > 0.0 {
            self.token = Some(facts.seconds_decode / facts.passes as f64);
        }
    }

    /// Tokens of both channels.
    pub fn tokens(&self) -> usize {
        self.think + self.response
    }

    /// About how long so many positions take to read, if any were read before.
    pub fn to_read(&self, positions: usize) -> Option<Duration> {
        let seconds = self.pace? * positions as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Seconds a token of the last turn.
    pub fn seconds_a_token(&self) -> Option<f64> {
        self.token
    }
}

/// Characters that make a token, about: text in Latin letters has three to four. The engine alone could count.
const CHARACTERS_A_TOKEN: f64 = 3.5;

/// Tokens around a message: who says it, where it ends, whose turn comes.
const AROUND: usize = 8;

/// About how many positions a message takes.
pub fn about_tokens(text: &str) -> usize {
    // A character of East Asian scripts is about a token of its own.
    let wide = text.chars().filter(|c| *c >= '\u{1100}').count();
    let narrow = text.chars().count() - wide;
    (narrow as f64 / CHARACTERS_A_TOKEN).ceil() as usize + wide + AROUND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Ended;

    #[test]
    fn turns_add_up_and_the_last_one_tells_the_pace() {
        let mut totals = Totals::default();
        assert_eq!(totals.to_read(10), None);
        for seconds in [1.0, 4.0] {
            totals.count(&TurnFacts {
                fed: 10,
                passes: 4,
                seconds_prefill: seconds,
                seconds_decode: 2.0,
                think_tokens: 2,
                response_tokens: 3,
                ..TurnFacts::nothing(Ended::Finished)
            });
        }
        assert_eq!((totals.turns, totals.tokens(), totals.read), (2, 10, 20));
        assert_eq!(totals.to_read(20), Some(Duration::from_secs(8)));
        assert_eq!(totals.seconds_a_token(), Some(0.5));
        assert_eq!(totals.reading, Duration::from_secs(5));
    }

    #[test]
    fn a_message_is_about_so_many_tokens() {
        assert_eq!(about_tokens(""), AROUND);
        assert_eq!(about_tokens(&"x".repeat(35)), 10 + AROUND);
        assert_eq!(about_tokens("漢字"), 2 + AROUND);
    }
}
