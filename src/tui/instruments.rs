//! How a person looks at the telemetry: held still, over which time, one part alone, counted since when. Not what it shows.

use std::time::Duration;

use super::samples::{Samples, Span};
use crate::engine::Telemetry;
use crate::engine::telemetry::ExpertFigures;

/// A part of the telemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Widget {
    /// Where the token in the making is, and when it will be through.
    #[default]
    Clock,
    /// What comes from disk.
    Disk,
    /// The ring, slot by slot.
    Ring,
    /// Experts: retained, dropped.
    Experts,
    /// Memory.
    Memory,
    /// Where the time of the last token went.
    Token,
    /// Layer by layer.
    Layers,
    /// Sums since the model was opened.
    Sums,
}

impl Widget {
    /// All of them, from above.
    pub const ALL: [Self; 8] = [
        Self::Clock,
        Self::Disk,
        Self::Ring,
        Self::Experts,
        Self::Memory,
        Self::Token,
        Self::Layers,
        Self::Sums,
    ];

    /// The one so many below, or above; round and round.
    pub fn step(self, steps: isize) -> Self {
        let at = Self::ALL.iter().position(|widget| *widget == self);
        let at = at.unwrap_or(0) as isize + steps;
        Self::ALL[at.rem_euclid(Self::ALL.len() as isize) as usize]
    }
}

/// How it is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instruments {
    /// What was seen so far.
    pub samples: Samples,
    /// How far back the charts go.
    pub span: Span,
    /// What it was when it was held still, and when.
    held: Option<(Duration, Telemetry)>,
    /// What sums were when they were set back, and when.
    since: Option<(Duration, Telemetry)>,
    /// The part that the keys are for.
    pub chosen: Widget,
    /// Whether it has all the room; rows above the visible part.
    pub alone: Option<usize>,
}

impl Instruments {
    /// Holds everything still, or lets it go on. What is told meanwhile is kept all the same.
    pub fn hold(&mut self, telemetry: &Telemetry) {
        self.held = match self.held {
            Some(_) => None,
            None => Some((self.samples.last(), telemetry.clone())),
        };
    }

    /// Whether it is held.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Counts from now on.
    pub fn set_back(&mut self, now: Duration, telemetry: &Telemetry) {
        self.since = Some((now, telemetry.clone()));
        self.samples.forget_most();
    }

    /// Since when is counted; none: since the model was opened.
    pub fn since(&self) -> Option<Duration> {
        self.since.as_ref().map(|since| since.0)
    }

    /// When charts end.
    pub fn until(&self) -> Duration {
        self.held
            .as_ref()
            .map_or_else(|| self.samples.last(), |held| held.0)
    }

    /// What is to be shown: `telemetry`, or what was held, with sums as they were set back. Drops are never set back.
    pub fn shown(&self, telemetry: &Telemetry) -> Telemetry {
        let mut shown = self
            .held
            .as_ref()
            .map_or_else(|| telemetry.clone(), |held| held.1.clone());
        let Some((_, before)) = &self.since else {
            return shown;
        };
        if let (Some(now), Some(then)) = (&mut shown.waits, before.waits) {
            *now = now.since(&then);
        }
        if let (Some(now), Some(then)) = (shown.expert_figures, before.expert_figures) {
            let less =
                |a: (u64, u64), b: (u64, u64)| (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1));
            let left = ExpertFigures {
                requested: less(now.requested, then.requested),
                retained: less(now.retained, then.retained),
                read: less(now.read, then.read),
            };
            // Nothing asked for since is nothing known.
            shown.expert_figures = (left.requested.0 > 0).then_some(left);
        }
        if let (Some(now), Some(then)) = (&mut shown.remote, before.remote) {
            now.all = now.all.since(&then.all);
            now.again = now.again.saturating_sub(then.again);
        }
        if let (Some(now), Some(then)) = (&mut shown.trunk_bytes, before.trunk_bytes) {
            now.read = now.read.saturating_sub(then.read);
            now.owed = now.owed.saturating_sub(then.owed);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Activity;
    use crate::engine::telemetry::{TrunkBytes, Waits};

    fn telemetry(n: u64) -> Telemetry {
        Telemetry {
            activity: Activity::Decode,
            waits: Some(Waits {
                trunk: Duration::from_secs(n),
                ..Waits::default()
            }),
            expert_figures: Some(ExpertFigures {
                requested: (10 * n, 1000 * n),
                retained: (n, 100 * n),
                read: (9 * n, 900 * n),
            }),
            trunk_bytes: Some(TrunkBytes {
                read: 7 * n,
                owed: 6 * n,
                pinned: 5,
            }),
            drops: n,
            ..Telemetry::default()
        }
    }

    #[test]
    fn sums_are_counted_from_where_they_were_set_back() {
        let mut instruments = Instruments::default();
        assert_eq!(instruments.shown(&telemetry(3)), telemetry(3));
        instruments.set_back(Duration::from_secs(9), &telemetry(3));
        let shown = instruments.shown(&telemetry(5));
        let want = Telemetry {
            drops: 5,
            ..telemetry(2)
        };
        assert_eq!(shown, want);
        let none = instruments.shown(&telemetry(3));
        assert_eq!(none.expert_figures, None, "no zero");
        assert_eq!(instruments.since(), Some(Duration::from_secs(9)));
    }

    #[test]
    fn what_is_held_stays_while_looks_are_still_kept() {
        let mut instruments = Instruments::default();
        instruments
            .samples
            .take(Duration::from_secs(1), &telemetry(1));
        instruments.hold(&telemetry(1));
        instruments
            .samples
            .take(Duration::from_secs(2), &telemetry(2));
        assert_eq!(instruments.shown(&telemetry(2)), telemetry(1));
        assert_eq!(instruments.until(), Duration::from_secs(1));
        instruments.hold(&telemetry(2));
        assert_eq!(instruments.shown(&telemetry(2)), telemetry(2));
        assert_eq!(instruments.until(), Duration::from_secs(2));
    }

    #[test]
    fn parts_go_round() {
        assert_eq!(Widget::Clock.step(-1), Widget::Sums);
        assert_eq!(Widget::Sums.step(1), Widget::Clock);
    }
}
