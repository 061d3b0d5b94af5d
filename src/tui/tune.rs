//! What memory plans would cost, by the rates that were measured, and what they did cost. Not how that is shown.

use std::time::Duration;

use crate::engine::telemetry::Telemetry;
use crate::stream::PerToken;

/// Tokens of a plan before anything is said about it.
const ENOUGH: usize = 5;

/// Tokens of a plan that are remembered.
const KEPT: usize = 400;

/// How long tokens took under one plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// What the plan is called.
    pub plan: String,
    /// In the order of their making.
    times: Vec<Duration>,
}

impl Measured {
    /// Of a plan under which nothing was made yet.
    pub fn new(plan: impl Into<String>) -> Self {
        Self {
            plan: plan.into(),
            times: Vec::new(),
        }
    }

    /// Counts a token.
    pub fn count(&mut self, time: Duration) {
        if self.times.len() == KEPT {
            self.times.remove(0);
        }
        self.times.push(time);
    }

    /// How many tokens.
    pub fn tokens(&self) -> usize {
        self.times.len()
    }

    /// The quarter, the middle and the three quarters of the times; none before there are enough.
    pub fn quartiles(&self) -> Option<[Duration; 3]> {
        if self.times.len() < ENOUGH {
            return None;
        }
        let mut times = self.times.clone();
        times.sort();
        Some([1, 2, 3].map(|quarter| times[(times.len() - 1) * quarter / 4]))
    }

    /// Whether a token takes less here than under another plan, or more: only where the middle halves lie apart. None where
    /// that is within the noise.
    pub fn faster_than(&self, other: &Self) -> Option<bool> {
        let ([low, _, high], [other_low, _, other_high]) = (self.quartiles()?, other.quartiles()?);
        match () {
            () if high < other_low => Some(true),
            () if other_high < low => Some(false),
            () => None,
        }
    }
}

/// The rates that a prediction needs, measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Bytes a second from disk.
    disk: f64,
    /// Bytes of weights a second through the processor.
    compute: f64,
    /// Share of the expert bytes that need not be read.
    retained: f64,
}

impl Pace {
    /// From what the engine told, and what a token moves under any plan. None before there was a token, or where nothing
    /// is read.
    pub fn measured(telemetry: &Telemetry, any: PerToken) -> Option<Self> {
        let split = telemetry.last_token.filter(|split| split.positions == 1)?;
        let computed = split.computed.as_secs_f64();
        let disk =
            telemetry.trunk.ten.or(telemetry.trunk.second)? + telemetry.experts.ten.unwrap_or(0.0);
        (computed > 0.0 && disk > 0.0).then(|| Self {
            disk: disk * 1e9,
            compute: any.weights as f64 / computed,
            retained: telemetry.retained().unwrap_or(0.0),
        })
    }

    /// Seconds a token would take: reads overlap the computation, so the longer of the two counts. Experts are taken to be
    /// retained as they are now, whatever the plan has for them.
    pub fn seconds(&self, token: PerToken) -> f64 {
        let read = token.trunk_read as f64 + token.experts_read as f64 * (1.0 - self.retained);
        (read / self.disk).max(token.weights as f64 / self.compute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rates;
    use crate::engine::telemetry::{Split, Waits};

    fn measured(plan: &str, times: &[u64]) -> Measured {
        let mut measured = Measured::new(plan);
        for &time in times {
            measured.count(Duration::from_millis(time));
        }
        measured
    }

    #[test]
    fn nothing_is_claimed_inside_the_noise() {
        let slow = measured("laptop", &[1000, 1100, 1200, 1300, 1400]);
        let fast = measured("server", &[500, 600, 550, 580, 590]);
        let near = measured("desktop", &[1150, 900, 1250, 1300, 1000]);
        let few = measured("max", &[1, 1]);
        assert_eq!(fast.faster_than(&slow), Some(true));
        assert_eq!(slow.faster_than(&fast), Some(false));
        assert_eq!(near.faster_than(&slow), None);
        assert_eq!(few.faster_than(&slow), None);
        assert_eq!(
            slow.quartiles().map(|[_, median, _]| median),
            Some(Duration::from_millis(1200))
        );
    }

    #[test]
    fn a_prediction_comes_from_what_was_measured() {
        let token = PerToken {
            trunk_read: 80_000_000_000,
            experts_read: 20_000_000_000,
            weights: 120_000_000_000,
            attention: 0,
        };
        let mut telemetry = Telemetry::default();
        assert_eq!(Pace::measured(&telemetry, token), None);
        telemetry.trunk = Rates {
            second: None,
            ten: Some(3.0),
        };
        telemetry.experts = Rates {
            second: None,
            ten: Some(1.0),
        };
        telemetry.last_token = Some(Split {
            positions: 1,
            waited: Waits::default(),
            computed: Duration::from_secs(12),
            kernels: crate::stream::Kernels::default(),
            rest: Duration::ZERO,
        });
        let pace = Pace::measured(&telemetry, token).unwrap();
        assert!((pace.seconds(token) - 25.0).abs() < 1e-9);
        let pinned = PerToken {
            trunk_read: 0,
            ..token
        };
        assert!(
            (pace.seconds(pinned) - 12.0).abs() < 1e-9,
            "computing is left"
        );
    }
}
