//! What is known of a model that runs on a server, as the telemetry shows it. Not where it comes from.

use std::time::Duration;

/// Tokens that a server counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of the prompt.
    pub prompt: u64,
    /// Of them, those that it had in its cache; none where it does not say.
    pub cached: Option<u64>,
    /// Of the answer, the reasoning included.
    pub made: u64,
    /// Of them, reasoning; none where it does not say.
    pub reasoning: Option<u64>,
}

impl Counted {
    /// These and others together.
    pub fn and(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
        Self {
            prompt: self.prompt + other.prompt,
            cached: both(self.cached, other.cached),
            made: self.made + other.made,
            reasoning: both(self.reasoning, other.reasoning),
        }
    }

    /// What came since it was `before`.
    pub fn since(self, before: &Self) -> Self {
        let less = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.saturating_sub(then.unwrap_or(0)))
        };
        Self {
            prompt: self.prompt.saturating_sub(before.prompt),
            cached: less(self.cached, before.cached),
            made: self.made.saturating_sub(before.made),
            reasoning: less(self.reasoning, before.reasoning),
        }
    }
}

/// What a server says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerFigures {
    /// What it is.
    pub engine: &'static str,
    /// Requests that it works on, of everybody.
    pub running: Option<u64>,
    /// Requests that wait.
    pub waiting: Option<u64>,
    /// Share of its cache of positions that is in use, 0 to 1.
    pub cache: Option<f64>,
    /// Tokens a second that it makes, for everybody together.
    pub pace: Option<f64>,
}

/// Whether a server says anything about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Metrics {
    /// It was not asked yet.
    #[default]
    Unasked,
    /// It does not, or nothing that is understood here.
    NotOffered,
    /// It does.
    Known(ServerFigures),
}

/// A snapshot. A figure that is not known is `None`, never a zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RemoteFigures {
    /// From asking to the first token, of the running answer or the last.
    pub first_token: Option<Duration>,
    /// The longest time between two tokens of that answer.
    pub longest_gap: Option<Duration>,
    /// Tokens a second of that answer, from its first token on.
    pub pace: Option<f64>,
    /// Tokens that came since the backend was opened, of all answers.
    pub tokens: u64,
    /// What the server counted for the last answer.
    pub last: Option<Counted>,
    /// What it counted for all answers since the backend was opened.
    pub all: Counted,
    /// How often was asked again.
    pub again: u64,
    /// What the server says about itself.
    pub metrics: Metrics,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_are_set_back() {
        let one = Counted {
            prompt: 10,
            cached: None,
            made: 3,
            reasoning: Some(2),
        };
        let all = one.and(Counted {
            cached: Some(4),
            reasoning: None,
            ..one
        });
        let want = Counted {
            prompt: 20,
            cached: Some(4),
            made: 6,
            reasoning: Some(2),
        };
        assert_eq!(all, want);
        let since = Counted {
            cached: Some(4),
            reasoning: Some(0),
            ..one
        };
        assert_eq!(all.since(&one), since);
    }
}
