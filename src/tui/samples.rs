//! What the telemetry was, look by look: for charts, and to be written to a file. Times are those of the screen's clock.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::engine::telemetry::Metrics;
use crate::engine::{Activity, Rates, Telemetry};

/// Looks that are kept: an hour of work at four a second.
const KEPT: usize = 14_400;

/// Between two looks further apart than this nobody watched.
const UNWATCHED: Duration = Duration::from_secs(3);

/// How far back a chart goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// The last second.
    Second,
    /// The last ten.
    Ten,
    /// The last minute.
    #[default]
    Minute,
    /// The last five minutes.
    Five,
}

impl Span {
    /// All of them, shortest first.
    pub const ALL: [Self; 4] = [Self::Second, Self::Ten, Self::Minute, Self::Five];

    /// Its length.
    pub fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Ten => 10,
            Self::Minute => 60,
            Self::Five => 300,
        })
    }

    /// Its name, as it is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "1s",
            Self::Ten => "10s",
            Self::Minute => "60s",
            Self::Five => "5min",
        }
    }

    /// The one so many steps longer, or shorter.
    pub fn step(self, steps: isize) -> Self {
        let at = Self::ALL.iter().position(|span| *span == self);
        let at = at.unwrap_or(0).saturating_add_signed(steps);
        Self::ALL[at.min(Self::ALL.len() - 1)]
    }
}

/// Two rates together, where one of them is known.
pub fn both(trunk: Option<f64>, experts: Option<f64>) -> Option<f64> {
    match (trunk, experts) {
        (None, None) => None,
        (trunk, experts) => Some(trunk.unwrap_or(0.0) + experts.unwrap_or(0.0)),
    }
}

/// Whether the last token spent a tenth of its time on waiting for reads, or more.
fn waits_for_drive(telemetry: &Telemetry) -> bool {
    let split = telemetry.last_token.as_ref();
    split.is_some_and(|split| 10 * split.waited.total() >= split.wall())
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The trunk, through the ring.
    Trunk,
    /// Experts.
    Experts,
    /// Tokens that come from a server.
    Tokens,
}

impl Flow {
    /// What a rate of it counts by: GB, or single tokens.
    fn unit(self) -> f64 {
        match self {
            Self::Trunk | Self::Experts => 1e9,
            Self::Tokens => 1.0,
        }
    }
}

/// One look.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    at: Duration,
    /// Bytes, or tokens, so far of each flow, while it is measured.
    read: [Option<u64>; 3],
    told: Telemetry,
}

impl Sample {
    fn of(&self, flow: Flow) -> Option<u64> {
        self.read[flow as usize]
    }
}

/// The looks, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    looks: VecDeque<Sample>,
    /// The most GB/s that came over one second, both flows together.
    most: Option<f64>,
    /// GB/s of both together, as they were told last while the drive was waited for: over ten seconds where that was known.
    pace: Option<f64>,
}

impl Samples {
    /// Takes a look. While nothing is computed one is enough.
    pub fn take(&mut self, at: Duration, telemetry: &Telemetry) {
        let computes = telemetry.activity.computes();
        let last = self.looks.back();
        if !computes && last.is_none_or(|last| !last.told.activity.computes()) {
            return;
        }
        let (trunk, experts) = (telemetry.trunk, telemetry.experts);
        if let Some(sum) = both(trunk.second, experts.second) {
            self.most = Some(self.most.map_or(sum, |most| most.max(sum)));
        }
        let longer = |rates: Rates| rates.ten.or(rates.second);
        if waits_for_drive(telemetry) {
            self.pace = both(longer(trunk), longer(experts)).or(self.pace);
        }
        let streams = computes && !telemetry.slots.is_empty();
        let trunk = telemetry.trunk_bytes.filter(|_| streams).map(|t| t.read);
        let experts = telemetry.expert_figures.filter(|_| computes);
        let remote = telemetry.remote.filter(|_| computes);
        if self.looks.len() == KEPT {
            self.looks.pop_front();
        }
        self.looks.push_back(Sample {
            at,
            read: [
                trunk,
                experts.map(|experts| experts.read.1),
                remote.map(|remote| remote.tokens),
            ],
            told: Telemetry {
                slots: Vec::new(),
                layers: Vec::new(),
                ..telemetry.clone()
            },
        });
    }

    /// The most GB/s that came over one second: what the disk can, as far as it was asked.
    pub fn most(&self) -> Option<f64> {
        self.most
    }

    /// GB/s of both flows together, as they were told last while the drive was waited for: what it gives. None before that: a
    /// rate at which nobody waits says how much was wanted.
    pub fn pace(&self) -> Option<f64> {
        self.pace
    }

    /// Forgets the most.
    pub fn forget_most(&mut self) {
        self.most = None;
    }

    /// When the last look was.
    pub fn last(&self) -> Duration {
        self.looks.back().map_or(Duration::ZERO, |look| look.at)
    }

    /// Looks that are kept.
    pub fn len(&self) -> usize {
        self.looks.len()
    }

    /// Rates in GB/s, or tokens a second, of so many columns of equal length that end at `until`, or a little later so that a column stays what
    /// it is when time goes on. None where it was not watched, or nothing was there to be read.
    pub fn rates(
        &self,
        flow: Flow,
        span: Span,
        until: Duration,
        columns: usize,
    ) -> Vec<Option<f64>> {
        let width = span.length().as_secs_f64() / columns.max(1) as f64;
        let end = (until.as_secs_f64() / width).ceil() * width;
        let start = end - width * columns as f64;
        let mut sums = vec![(0.0, 0.0); columns];
        // From the newest back, as far as they reach into the span.
        let pairs = self.looks.iter().zip(self.looks.iter().skip(1)).rev();
        for (a, b) in pairs {
            let (from, to) = (a.at.as_secs_f64(), b.at.as_secs_f64());
            if to <= start {
                break;
            }
            let (Some(before), Some(after)) = (a.of(flow), b.of(flow)) else {
                continue;
            };
            if a.at >= until || b.at - a.at > UNWATCHED || to <= from {
                continue;
            }
            let rate = after.saturating_sub(before) as f64 / flow.unit() / (to - from);
            let column = |at: f64| ((at - start) / width).max(0.0) as usize;
            let last = column(to);
            let among = sums.iter_mut().enumerate().skip(column(from));
            for (index, (sum, covered)) in among.take_while(|(index, _)| *index <= last) {
                let left = start + width * index as f64;
                let overlap = (to.min(left + width) - from.max(left)).max(0.0);
                *sum += rate * overlap;
                *covered += overlap;
            }
        }
        let known = |(sum, covered): (f64, f64)| (covered > width * 1e-3).then(|| sum / covered);
        sums.into_iter().map(known).collect()
    }

    /// All looks as comma-separated values, a head above; what is not known is empty.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        for (index, look) in self.looks.iter().enumerate() {
            let fields = fields(look);
            if index == 0 {
                let names: Vec<&str> = fields.iter().map(|field| field.0).collect();
                let _ = writeln!(text, "{}", names.join(","));
            }
            let values: Vec<String> = fields.iter().map(|field| plain(&field.1)).collect();
            let _ = writeln!(text, "{}", values.join(","));
        }
        text
    }

    /// All looks as lines of JSON; what is not known is null.
    pub fn json_lines(&self) -> String {
        let lines = self.looks.iter().map(|look| {
            let fields = fields(look).into_iter();
            let object: Map<String, Value> = fields
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            format!("{}\n", Value::Object(object))
        });
        lines.collect()
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A look as names and values: seconds, bytes, counts. Sums are those since the model was opened.
fn fields(look: &Sample) -> Vec<(&'static str, Value)> {
    let told = &look.told;
    let activity = match told.activity {
        Activity::Loading => "loading",
        Activity::Idle => "idle",
        Activity::Waiting => "waiting",
        Activity::Prefill { .. } => "reading",
        Activity::Decode => "making",
        Activity::Paused => "halted",
        Activity::Stopped => "stopped",
    };
    let seconds = |time: Option<Duration>| json!(time.map(|time| time.as_secs_f64()));
    let (experts, waits) = (told.expert_figures, told.waits);
    let remote = told.remote;
    let server = match remote.map(|remote| remote.metrics) {
        Some(Metrics::Known(server)) => Some(server),
        _ => None,
    };
    vec![
        ("seconds", json!(look.at.as_secs_f64())),
        ("activity", json!(activity)),
        ("positions", json!(told.positions.0)),
        ("layer", json!(told.layer.map(|layer| layer.0))),
        ("pass_seconds", seconds(told.elapsed)),
        ("tokens_per_minute", json!(told.tokens_per_minute)),
        ("trunk_gb_s", json!(told.trunk.second)),
        ("expert_gb_s", json!(told.experts.second)),
        ("trunk_bytes", json!(told.trunk_bytes.map(|t| t.read))),
        ("expert_bytes", json!(experts.map(|e| e.read.1))),
        ("experts_requested", json!(experts.map(|e| e.requested.0))),
        ("experts_retained", json!(experts.map(|e| e.retained.0))),
        ("expert_drops", json!(told.drops)),
        ("wait_trunk_seconds", seconds(waits.map(|w| w.trunk))),
        ("wait_experts_seconds", seconds(waits.map(|w| w.experts))),
        ("resident_bytes", json!(told.rss_bytes)),
        ("free_bytes", json!(told.free_bytes)),
        ("swapped_bytes", json!(told.swapped_bytes)),
        (
            "first_token_seconds",
            seconds(remote.and_then(|r| r.first_token)),
        ),
        ("tokens_per_second", json!(remote.and_then(|r| r.pace))),
        ("server_running", json!(server.and_then(|s| s.running))),
        ("server_waiting", json!(server.and_then(|s| s.waiting))),
        ("server_cache", json!(server.and_then(|s| s.cache))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::telemetry::{SlotState, Split, TrunkBytes, Waits};

    fn telemetry(activity: Activity, gigabytes: u64) -> Telemetry {
        Telemetry {
            activity,
            slots: vec![SlotState::Empty],
            trunk_bytes: Some(TrunkBytes {
                read: gigabytes * 1_000_000_000,
                ..TrunkBytes::default()
            }),
            ..Telemetry::default()
        }
    }

    fn taken(looks: &[(u64, Activity, u64)]) -> Samples {
        let mut samples = Samples::default();
        for &(at, activity, gigabytes) in looks {
            let telemetry = telemetry(activity, gigabytes);
            samples.take(Duration::from_millis(at), &telemetry);
        }
        samples
    }

    use Activity::{Decode, Idle};

    fn rates(samples: &Samples, columns: usize) -> Vec<Option<f64>> {
        samples.rates(Flow::Trunk, Span::Ten, samples.last(), columns)
    }

    #[test]
    fn a_column_is_the_mean_of_its_time_and_what_nobody_saw_is_a_gap() {
        // 2 GB/s for two seconds, nothing for two, then a pause of the engine, then 1 GB/s.
        let samples = taken(&[
            (0, Decode, 0),
            (2000, Decode, 4),
            (4000, Decode, 4),
            (4500, Idle, 4),
            (5500, Idle, 4),
            (8000, Decode, 4),
            (10_000, Decode, 6),
        ]);
        assert_eq!(samples.len(), 6, "idle looks are not kept");
        let known = [Some(2.0), Some(0.0), None, None, Some(1.0)];
        assert_eq!(rates(&samples, 5), known);
        // The column of a longer time is the mean of what was seen in it.
        assert_eq!(rates(&samples, 1), [Some(1.0)]);
        assert_eq!(
            samples.rates(Flow::Experts, Span::Ten, samples.last(), 2),
            [None, None]
        );
    }

    #[test]
    fn between_two_looks_far_apart_nothing_is_known() {
        let samples = taken(&[(0, Decode, 0), (4000, Decode, 8)]);
        assert_eq!(rates(&samples, 2), [None, None]);
    }

    #[test]
    fn a_column_stays_when_time_goes_on() {
        let looks: Vec<_> = (0..60).map(|n| (n * 250, Decode, n * n / 40)).collect();
        let samples = taken(&looks);
        let at = |ms| samples.rates(Flow::Trunk, Span::Ten, Duration::from_millis(ms), 10);
        assert_eq!(at(13_100)[..9], at(13_900)[..9]);
        assert_eq!(at(13_100)[1..9], at(14_100)[..8]);
    }

    #[test]
    fn a_rate_counts_as_the_drives_only_while_it_is_waited_for() {
        let mut samples = Samples::default();
        let look = |waited: u64, second: Option<f64>| Telemetry {
            trunk: Rates { second, ten: None },
            last_token: Some(Split {
                positions: 1,
                waited: Waits {
                    trunk: Duration::from_millis(waited),
                    ..Waits::default()
                },
                computed: Duration::from_millis(100 - waited),
                kernels: crate::stream::Kernels::default(),
                rest: Duration::ZERO,
            }),
            ..telemetry(Decode, 1)
        };
        let mut take = |at: u64, look: &Telemetry| {
            samples.take(Duration::from_millis(at), look);
            samples.pace()
        };
        assert_eq!(take(250, &look(9, Some(0.1))), None, "little was wanted");
        assert_eq!(take(500, &look(10, Some(3.0))), Some(3.0));
        assert_eq!(take(750, &look(9, Some(0.1))), Some(3.0));
        assert_eq!(
            take(1000, &look(50, None)),
            Some(3.0),
            "what was known last"
        );
    }

    #[test]
    fn what_is_kept_is_written_in_both_forms() {
        let mut samples = taken(&[(250, Decode, 3)]);
        let rates = Rates {
            second: Some(1.5),
            ten: None,
        };
        let telemetry = Telemetry {
            trunk: rates,
            experts: rates,
            ..telemetry(Decode, 5)
        };
        samples.take(Duration::from_millis(500), &telemetry);
        assert_eq!(samples.most(), Some(3.0));
        let idle = super::tests::telemetry(Idle, 5);
        samples.take(Duration::from_millis(750), &idle);
        samples.looks.pop_back();
        let csv = samples.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        let columns = |line: &str| line.split(',').count();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
        let json = samples.json_lines();
        let second: Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
        assert_eq!(second["trunk_gb_s"], 1.5);
        assert_eq!(second["trunk_bytes"], 5_000_000_000_u64);
        assert_eq!(second["layer"], Value::Null);
        let first = lines[1].split(',').zip(lines[0].split(','));
        for (value, name) in first {
            if name == "trunk_gb_s" || name == "layer" {
                assert_eq!(value, "", "{name}");
            }
        }
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let mut samples = Samples::default();
        for look in 0..KEPT as u64 + 10 {
            samples.take(Duration::from_millis(250 * look), &telemetry(Decode, look));
        }
        assert_eq!(samples.len(), KEPT);
    }

    #[test]
    fn spans_go_from_a_second_to_five_minutes() {
        assert_eq!(Span::default().step(1), Span::Five);
        assert_eq!(Span::Five.step(1), Span::Five);
        assert_eq!(Span::Second.step(-1), Span::Second);
    }
}
