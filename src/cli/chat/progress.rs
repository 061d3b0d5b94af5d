//! How far a slow turn is, in words. What is fast is not talked about; where the words go is not known here.

use std::time::{Duration, Instant};

use crate::engine::{Activity, Telemetry};

/// What takes longer is told.
const SLOW: Duration = Duration::from_secs(2);

/// Watches the clock over one turn after the other.
pub(super) struct Progress {
    /// How long nothing new is said about a prompt that is being read.
    every: Duration,
    /// Tokens of a prompt that go through the layers together.
    chunk: usize,
    began: Instant,
    /// When the last token came, or the turn began.
    last: Instant,
    told: Option<Instant>,
    tokens: usize,
}

impl Progress {
    pub fn new(every: Duration, chunk: usize, now: Instant) -> Self {
        Self {
            every,
            chunk,
            began: now,
            last: now,
            told: None,
            tokens: 0,
        }
    }

    /// A turn begins.
    pub fn begin(&mut self, now: Instant) {
        *self = Self::new(self.every, self.chunk, now);
    }

    /// What is to be said of a prompt that is being read, if it is time to.
    pub fn reading(&mut self, telemetry: &Telemetry, now: Instant) -> Option<String> {
        let Activity::Prefill { done, of } = telemetry.activity else {
            return None;
        };
        let elapsed = now.duration_since(self.began);
        let said = self.told.is_some_and(|told| now - told < self.every);
        if elapsed < SLOW || said {
            return None;
        }
        self.told = Some(now);
        let mut line = format!("reading: {done} of {of} tokens");
        let mut through = done as f64;
        if let Some((layer, layers)) = telemetry.layer {
            line += &format!(", layer {layer} of {layers}");
            // A part of the chunk that is on its way.
            let chunk = of.saturating_sub(done).min(self.chunk);
            through += (chunk * layer) as f64 / layers.max(1) as f64;
        }
        if through > 0.0 {
            let left = elapsed.as_secs_f64() * (of as f64 / through - 1.0);
            line += &format!(", about {:.0} s left", left.max(0.0));
        }
        Some(line)
    }

    /// A token came: what is to be said of it, if it was slow. The first one ends the reading and counts as that.
    pub fn token(&mut self, now: Instant) -> Option<String> {
        let took = now.duration_since(self.last);
        self.last = now;
        self.tokens += 1;
        (took > SLOW).then(|| format!("token {}, {:.1} s", self.tokens, took.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(done: usize, layer: Option<(usize, usize)>) -> Telemetry {
        Telemetry {
            activity: Activity::Prefill { done, of: 200 },
            layer,
            ..Telemetry::default()
        }
    }

    #[test]
    fn a_long_prompt_is_told_with_an_estimate_and_not_too_often() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut progress = Progress::new(Duration::from_secs(10), 64, at(0));
        // 32 of the 64 tokens that are on their way.
        let look = reading(68, Some((50, 100)));
        assert_eq!(progress.reading(&look, at(1)), None);
        assert_eq!(
            progress.reading(&look, at(30)).unwrap(),
            "reading: 68 of 200 tokens, layer 50 of 100, about 30 s left"
        );
        assert_eq!(progress.reading(&look, at(39)), None);
        assert!(progress.reading(&look, at(40)).is_some());
        // Where nothing is through, nothing is known.
        progress.begin(at(50));
        assert_eq!(progress.reading(&look, at(51)), None);
        assert_eq!(
            progress.reading(&reading(0, None), at(60)).unwrap(),
            "reading: 0 of 200 tokens"
        );
        let idle = Telemetry::default();
        assert_eq!(progress.reading(&idle, at(90)), None);
    }

    #[test]
    fn only_slow_tokens_are_told() {
        let start = Instant::now();
        let mut progress = Progress::new(Duration::from_secs(10), 64, start);
        let mut token = |millis| progress.token(start + Duration::from_millis(millis));
        assert_eq!(token(2000), None);
        assert_eq!(token(6500).unwrap(), "token 2, 4.5 s");
        assert_eq!(token(6600), None);
    }
}
