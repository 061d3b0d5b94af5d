//! The parts of the telemetry as rows: of each first what is always shown, then what is shown where there is room.

use std::time::Duration;

use super::super::super::figures::{UNKNOWN, brief, count, decimal, gigabytes, pace, share};
use super::super::super::instruments::Widget;
use super::super::super::samples::{Flow, both};
use super::super::super::state::State;
use super::super::super::theme::{Role, Theme};
use super::chart::{self, Ink};
use super::row::Row;
use super::{Figures, drops, strip};
use crate::engine::telemetry::{ExpertFigures, SlotState, Split};
use crate::engine::{Rates, Telemetry};

/// What all of them are made from.
pub struct Dials<'a> {
    pub state: &'a State,
    /// What is shown: held or not, set back or not.
    pub shown: &'a Telemetry,
    pub figures: &'a Figures,
    /// Columns of a row.
    pub columns: usize,
}

impl Dials<'_> {
    /// What bars are made of.
    fn ink(&self) -> Ink {
        match self.state.ascii || self.state.theme == Theme::Mono {
            true => Ink::Digits,
            false => Ink::Blocks,
        }
    }

    /// What is always shown of a part.
    pub fn head(&self, widget: Widget) -> Vec<Row> {
        let (shown, figures) = (self.shown, self.figures);
        match widget {
            Widget::Clock => vec![
                Row::figure("layer", &figures.layer),
                Row::figure("tokens a minute", pace(shown.tokens_per_minute)),
            ],
            Widget::Disk => vec![
                Row::figure("trunk GB/s", rates(shown.trunk)),
                Row::figure("expert GB/s", rates(shown.experts)),
            ],
            Widget::Ring => vec![Row::figure("ring slots in flight", &figures.ring)],
            Widget::Experts => vec![
                Row::figure("experts retained", &figures.retained),
                Row::alarming("expert drops", &figures.drops, drops(self.state)),
            ],
            Widget::Memory => self.memory(),
            Widget::Token | Widget::Layers | Widget::Sums => Vec::new(),
        }
    }

    /// All of it, for where there is room.
    pub fn whole(&self, widget: Widget) -> Vec<Row> {
        match widget {
            Widget::Disk => self.disk(1),
            _ => [self.head(widget), self.more(widget)].concat(),
        }
    }

    /// What stands below the head.
    fn more(&self, widget: Widget) -> Vec<Row> {
        let shown = self.shown;
        match widget {
            Widget::Disk => Vec::new(),
            Widget::Clock => self.clock(),
            Widget::Ring => slots(&shown.slots, shown.activity.computes()),
            Widget::Experts => self.experts(),
            Widget::Memory => vec![
                Row::figure("  peak so far GB", gigabytes(shown.peak_rss_bytes)),
                Row::figure("  still free GB", gigabytes(shown.free_bytes)),
            ],
            Widget::Token => self.token(),
            Widget::Layers => strip::rows(&shown.layers, self.ink(), self.columns),
            Widget::Sums => self.sums(),
        }
    }

    /// All of a part that has all the room of `height` rows.
    pub fn alone(&self, widget: Widget, height: usize) -> Vec<Row> {
        match widget {
            Widget::Layers => strip::table(&self.shown.layers),
            // Of each flow its figures, below both the scale.
            Widget::Disk => self.disk((height.saturating_sub(3) / 2).clamp(1, 16)),
            Widget::Token => [self.token(), self.computed()].concat(),
            _ => self.whole(widget),
        }
    }

    fn rates(&self, flow: Flow) -> Vec<Option<f64>> {
        let instruments = &self.state.instruments;
        let (span, until) = (instruments.span, instruments.until());
        instruments.samples.rates(flow, span, until, self.columns)
    }

    /// What the top of a chart stands for.
    fn most(&self) -> f64 {
        let all = [Flow::Trunk, Flow::Experts]
            .map(|flow| self.rates(flow))
            .concat();
        let most = self.state.instruments.samples.most();
        all.into_iter().flatten().chain(most).fold(0.0, f64::max)
    }

    /// Of each flow its figures and a chart of so many rows, then both together.
    fn disk(&self, tall: usize) -> Vec<Row> {
        let (most, ink) = (self.most(), self.ink());
        let mut rows = Vec::new();
        let heads = self.head(Widget::Disk);
        for (flow, head) in [Flow::Trunk, Flow::Experts].into_iter().zip(heads) {
            let rates = self.rates(flow);
            rows.push(head);
            match tall {
                1 => rows.push(chart::line(&rates, most, ink)),
                _ => rows.extend(chart::tall(&rates, most, ink, tall)),
            }
        }
        rows.push(self.scale());
        rows
    }

    /// How much of what the disk can is asked of it.
    fn scale(&self) -> Row {
        let now = both(self.shown.trunk.second, self.shown.experts.second);
        let value = match (now, self.state.instruments.samples.most()) {
            (Some(now), Some(most)) if most > 0.0 => format!(
                "{} of {}, {:.0} %",
                decimal(Some(now)),
                decimal(Some(most)),
                now / most * 100.0
            ),
            (_, most) => decimal(most),
        };
        Row::figure("disk, of most", value)
    }

    /// Where the token in the making is, and when it will be through.
    fn clock(&self) -> Vec<Row> {
        let shown = self.shown;
        let through = shown.layer.filter(|(_, of)| *of > 0);
        let bar = match through {
            Some((layer, of)) => {
                let bar = chart::filled(layer as f64 / of as f64, self.columns);
                Row::text(bar, Role::Plain)
            }
            None => Row::text(chart::GAP.to_string().repeat(self.columns), Role::Quiet),
        };
        let measured = self.state.measured.last();
        let quartiles = measured.and_then(|measured| measured.quartiles());
        let expected = match quartiles {
            Some(times) => spread(times),
            None => UNKNOWN.to_owned(),
        };
        let each = quartiles.map(|[_, middle, _]| middle.as_secs_f64());
        let left = match (shown.left, each) {
            (Some(left), Some(each)) => {
                let left = Duration::try_from_secs_f64(each * left as f64).ok();
                left.map_or_else(|| UNKNOWN.to_owned(), super::super::super::figures::time)
            }
            _ => UNKNOWN.to_owned(),
        };
        vec![
            bar,
            Row::figure("a token takes", expected),
            Row::figure("time left, at most", left),
        ]
    }

    fn memory(&self) -> Vec<Row> {
        let resident = gigabytes(self.shown.rss_bytes);
        let memory = match self.shown.planned_bytes {
            Some(planned) => format!("{resident} of {} planned", gigabytes(Some(planned))),
            None => resident,
        };
        let mut rows = vec![Row::figure("memory GB", memory)];
        if let Some(swapped) = self.shown.swapped_bytes.filter(|bytes| *bytes > 0) {
            let value = format!("{} !!", gigabytes(Some(swapped)));
            rows.push(Row::alarming("in swap GB: reads twice", value, Role::Alarm));
        }
        rows
    }

    /// Where the time of the last token went, and how much of it.
    fn token(&self) -> Vec<Row> {
        let split = self.shown.last_token;
        let name = match split.map(|split| split.positions) {
            Some(2..) => "last token, with its prompt",
            _ => "last token",
        };
        let wall = split.map_or_else(|| UNKNOWN.to_owned(), |split| brief(split.wall()));
        let mut rows = vec![Row::figure(name, wall)];
        if let Some(split) = split {
            let parts =
                PARTS.map(|part| ((part.time)(&split).as_secs_f64(), part.letter, part.role));
            rows.push(chart::parts(&parts, self.columns));
        }
        rows.extend(PARTS.map(|part| {
            let value = split.map(|split| {
                let time = (part.time)(&split);
                let share = time.as_secs_f64() / split.wall().as_secs_f64().max(1e-9);
                format!("{} {:>3.0} %", brief(time), share * 100.0)
            });
            let name = format!("{} {}", part.letter, part.name);
            Row::figure(&name, value.unwrap_or_else(|| UNKNOWN.to_owned()))
        }));
        rows
    }

    /// What of the last token's computing was which kind of kernel.
    fn computed(&self) -> Vec<Row> {
        let part = |name, time: fn(&Split) -> Duration| {
            let time = self.shown.last_token.map(|split| brief(time(&split)));
            Row::figure(name, time.unwrap_or_else(|| UNKNOWN.to_owned()))
        };
        vec![
            Row::gap(),
            Row::text("of what was computed", Role::Quiet),
            part("  products of the trunk", |split| split.kernels.trunk),
            part("  products of experts", |split| split.kernels.experts),
            part("  attention, recurrence", |split| split.kernels.attention),
            part("  the rest", Split::other_kernels),
        ]
    }

    fn experts(&self) -> Vec<Row> {
        let shown = self.shown;
        let row = |name, pick: fn(ExpertFigures) -> (u64, u64)| {
            let value = shown.expert_figures.map(pick).map(|(n, bytes)| {
                let n = count(usize::try_from(n).unwrap_or(usize::MAX));
                format!("{n}  {:>9} GB", gigabytes(Some(bytes)))
            });
            Row::figure(name, value.unwrap_or_else(|| UNKNOWN.to_owned()))
        };
        let mut rows = vec![
            row("  asked", |f| f.requested),
            row("  retained", |f| f.retained),
            row("  read", |f| f.read),
        ];
        if let Some(verdict) = verdict(shown) {
            rows.insert(0, Row::text(format!("  {verdict}"), Role::Strong));
        }
        rows
    }

    fn sums(&self) -> Vec<Row> {
        let shown = self.shown;
        let wait = |name, time: Option<Duration>| {
            Row::figure(name, time.map_or_else(|| UNKNOWN.to_owned(), brief))
        };
        let (waits, trunk) = (shown.waits, shown.trunk_bytes);
        let since = match self.state.instruments.since() {
            Some(then) => {
                let ago = self.state.now.saturating_sub(then);
                format!("since {} ago", super::super::super::figures::time(ago))
            }
            None => "since the model was opened".to_owned(),
        };
        vec![
            Row::text(since, Role::Quiet),
            wait("waits for the trunk", waits.map(|w| w.trunk)),
            wait("waits for experts", waits.map(|w| w.experts)),
            wait("waits for embedding", waits.map(|w| w.embedding)),
            Row::figure("trunk read GB", gigabytes(trunk.map(|t| t.read))),
            Row::figure("trunk owed GB", gigabytes(trunk.map(|t| t.owed))),
            Row::figure("trunk pinned GB", gigabytes(trunk.map(|t| t.pinned))),
        ]
    }
}

/// A part of a token's time.
struct Part {
    letter: char,
    name: &'static str,
    role: Role,
    time: fn(&Split) -> Duration,
}

/// Waits, computing, rest: by letter, and by colour where there is one.
const PARTS: [Part; 5] = [
    Part {
        letter: 'T',
        name: "waited for the trunk",
        role: Role::Title,
        time: |split| split.waited.trunk,
    },
    Part {
        letter: 'E',
        name: "waited for experts",
        role: Role::User,
        time: |split| split.waited.experts,
    },
    Part {
        letter: 'M',
        name: "waited for embedding",
        role: Role::Plain,
        time: |split| split.waited.embedding,
    },
    Part {
        letter: 'C',
        name: "computed",
        role: Role::Code,
        time: |split| split.computed,
    },
    Part {
        letter: '-',
        name: "rest",
        role: Role::Quiet,
        time: |split| split.rest,
    },
];

fn rates(rates: Rates) -> String {
    format!(
        "1 s {:>5}  10 s {:>5}",
        decimal(rates.second),
        decimal(rates.ten)
    )
}

/// The middle of times, and where half of them lie.
fn spread(times: [Duration; 3]) -> String {
    let (unit, scale) = match times[1].as_secs_f64() {
        middle if middle < 1.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    };
    let [low, middle, high] = times.map(|time| match time.as_secs_f64() * scale {
        small if small < 10.0 => format!("{small:.1}"),
        large => format!("{large:.0}"),
    });
    format!("{middle} {unit}, half {low} to {high}")
}

/// A bar for every slot of the ring. While nothing computes, the slot of what was computed last is still held.
fn slots(slots: &[SlotState], computes: bool) -> Vec<Row> {
    let row = |(index, slot): (usize, &SlotState)| {
        let (state, share) = match slot {
            SlotState::Empty => ("empty".to_owned(), 0.0),
            SlotState::Reading { percent } => (
                format!("reading {percent:>3} %"),
                f64::from(*percent) / 100.0,
            ),
            SlotState::Ready => ("ready".to_owned(), 1.0),
            SlotState::Computing if computes => ("computing".to_owned(), 1.0),
            SlotState::Computing => ("held".to_owned(), 1.0),
        };
        // A part of a tenth is not there yet.
        let bar = chart::filled((share * 10.0).floor() / 10.0, 10);
        Row::figure(&format!("  slot {}  {state}", index + 1), bar)
    };
    let mut rows: Vec<Row> = slots.iter().enumerate().map(row).collect();
    if let [_] = slots {
        rows.push(Row::text("  one slot: nothing is read ahead", Role::Strong));
    }
    rows
}

/// Waits for experts below this share of a token are not worth memory.
const NOT_WORTH: f64 = 0.05;

/// Why more room for experts would not help, where that is so.
fn verdict(shown: &Telemetry) -> Option<String> {
    let cache = shown.cache?;
    if cache.slots >= cache.all {
        return Some("all of them are in memory".to_owned());
    }
    if cache.slots < cache.layer {
        return Some(format!(
            "room for {}, a layer asks for {}: none stay",
            cache.slots, cache.layer
        ));
    }
    let split = shown.last_token.filter(|split| split.positions == 1)?;
    let waited = split.waited.experts.as_secs_f64() / split.wall().as_secs_f64().max(1e-9);
    (waited < NOT_WORTH).then(|| format!("more room cannot help: waits {}", share(Some(waited))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Cache;
    use crate::engine::telemetry::Waits;

    #[test]
    fn a_spread_has_one_unit() {
        let times = |ms: [u64; 3]| spread(ms.map(Duration::from_millis));
        assert_eq!(times([70_000, 75_000, 81_000]), "75 s, half 70 to 81");
        assert_eq!(times([3, 9, 1200]), "9.0 ms, half 3.0 to 1200");
    }

    #[test]
    fn the_verdict_is_given_only_where_it_is_true() {
        let cache = |slots| Telemetry {
            cache: Some(Cache {
                slots,
                layer: 16,
                all: 1000,
            }),
            ..Telemetry::default()
        };
        assert_eq!(verdict(&Telemetry::default()), None);
        assert!(verdict(&cache(1000)).unwrap().contains("all of them"));
        assert!(verdict(&cache(4)).unwrap().contains("none stay"));
        assert_eq!(verdict(&cache(100)), None, "no token yet");
        let token = |experts, computed| Telemetry {
            last_token: Some(Split {
                positions: 1,
                waited: Waits {
                    experts: Duration::from_secs(experts),
                    ..Waits::default()
                },
                computed: Duration::from_secs(computed),
                ..Split::default()
            }),
            ..cache(100)
        };
        assert_eq!(verdict(&token(1, 4)), None);
        assert!(verdict(&token(1, 99)).unwrap().contains("waits 1.0 %"));
    }
}
