//! How tokens are chosen: the settings. Choosing is the sampler's.

use serde::{Deserialize, Serialize};

/// Temperature where none is given.
pub const TEMPERATURE: f64 = 1.0;
/// Share of probability that is drawn from where none is given.
pub const TOP_P: f64 = 0.95;

/// How the next token is chosen from its logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// The most probable one.
    #[default]
    Greedy,
    /// Drawn by probability.
    Draw(Draw),
}

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// What logits are divided by; finite and above 0.
    pub temperature: f64,
    /// The most probable tokens that together reach this share are drawn from; above 0, at most 1.
    pub top_p: f64,
    /// At most so many of them; none or 0 for all.
    pub top_k: Option<usize>,
    /// Where the generator begins, together with the turn.
    pub seed: u64,
}

impl Draw {
    /// The default settings with this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            temperature: TEMPERATURE,
            top_p: TOP_P,
            top_k: None,
            seed,
        }
    }

    /// Whether these settings can be drawn with.
    ///
    /// # Errors
    /// A temperature or share outside its bounds, or none at all (NaN).
    pub fn check(&self) -> Result<(), SamplingError> {
        let Self {
            temperature, top_p, ..
        } = *self;
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(SamplingError::Temperature(temperature));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(SamplingError::TopP(top_p));
        }
        Ok(())
    }
}

/// Why no token can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A temperature that nothing can be divided by.
    #[error("the temperature is {0}: it must be a number above 0")]
    Temperature(f64),
    /// A share that is none.
    #[error("top-p is {0}: it must be above 0 and at most 1")]
    TopP(f64),
    /// No logits to choose from.
    #[error("there are no logits to choose a token from")]
    NoLogits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_bounds() {
        let draw = Draw::new(1);
        assert_eq!(draw.check(), Ok(()));
        for temperature in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
            let draw = Draw {
                temperature,
                ..draw
            };
            let message = draw.check().unwrap_err().to_string();
            assert!(message.contains("above 0"), "{message}");
        }
        for top_p in [0.0, -0.5, 1.5, f64::NAN] {
            let message = Draw { top_p, ..draw }.check().unwrap_err().to_string();
            assert!(message.contains("at most 1"), "{message}");
        }
        let edges = Draw {
            temperature: f64::MIN_POSITIVE,
            top_p: 1.0,
            ..draw
        };
        assert_eq!(edges.check(), Ok(()));
    }
}
