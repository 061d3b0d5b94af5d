//! What memory plans would cost, by the rates that were measured, and what they did cost; and the plan that a person is
//! making. Not how that is shown.

use std::sync::Arc;
use std::time::Duration;

use crate::chat::Change;
use crate::engine::telemetry::Telemetry;
use crate::engine::{Command, Offers};
use crate::stream::{PerToken, Plan, Preset, Refusal, Request};

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
    /// Bytes a second from disk, where it was ever waited for.
    disk: Option<f64>,
    /// Bytes of weights a second through the processor.
    compute: f64,
    /// Share of the expert bytes that need not be read.
    retained: f64,
}

impl Pace {
    /// From what the engine told, the GB/s that the disk gives, and what a token moves under any plan. None before there was a
    /// token.
    pub fn measured(telemetry: &Telemetry, disk: Option<f64>, any: PerToken) -> Option<Self> {
        let split = telemetry.last_token.filter(|split| split.positions == 1)?;
        let computed = split.computed.as_secs_f64();
        (computed > 0.0).then(|| Self {
            disk: disk.filter(|rate| *rate > 0.0).map(|rate| rate * 1e9),
            compute: any.weights as f64 / computed,
            retained: telemetry.retained().unwrap_or(0.0),
        })
    }

    /// The share of the expert bytes that is retained now.
    pub fn retained(&self) -> f64 {
        self.retained
    }

    /// Whether it is known what the disk gives.
    pub fn knows_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Bytes that a token reads with this share of the experts retained.
    pub fn reads(token: PerToken, retained: f64) -> f64 {
        token.trunk_read as f64 + token.experts_read as f64 * (1.0 - retained)
    }

    /// Seconds a token would take with this share of the experts retained: reads overlap the computation, so the longer of
    /// the two counts. `unwaited` bytes a token are known to come while it computes. None where more is read and nobody knows
    /// how fast.
    pub fn seconds(&self, token: PerToken, retained: f64, unwaited: f64) -> Option<f64> {
        let read = Self::reads(token, retained);
        let computing = token.weights as f64 / self.compute;
        match self.disk {
            Some(disk) => Some((read / disk).max(computing)),
            None => (read <= unwaited).then_some(computing),
        }
    }
}

/// Steps of a slider from one end to the other.
const STEPS: u64 = 40;

/// Slots that the slider of the ring goes to.
const RING_MOST: usize = 16;

/// What a row of the list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slider {
    /// Memory for pins and ring.
    Trunk,
    /// Memory for experts.
    Cache,
    /// Slots of the ring.
    Ring,
}

impl Slider {
    /// All of them, from above.
    pub const ALL: [Self; 3] = [Self::Trunk, Self::Cache, Self::Ring];
}

/// A plan, or why it cannot be had.
pub type Planned = Result<Plan, String>;

/// A memory plan that is being made: from a preset, or by sliders.
#[derive(Clone, Debug, PartialEq)]
pub struct Tune {
    offers: Arc<Offers>,
    /// The presets and their plans.
    pub presets: Vec<(Preset, Planned)>,
    /// The plan in force.
    pub now: Planned,
    /// The plan that the sliders make.
    pub made: Planned,
    /// The row that the keys are for: presets, then sliders.
    pub row: usize,
    /// Bytes, bytes and slots, as the sliders stand.
    asked: (u64, u64, usize),
    /// What caches of several sizes would have retained; none while that is being found out.
    curve: Option<Vec<(usize, f64)>>,
}

impl Tune {
    /// Begins with the plan in force.
    pub fn new(offers: Arc<Offers>) -> Self {
        let named = |(preset, plan): (Preset, Result<Plan, Refusal>)| {
            (preset, plan.map_err(|why| why.to_string()))
        };
        let presets: Vec<_> = offers.presets().into_iter().map(named).collect();
        let now = offers.in_force().map_err(|why| why.to_string());
        let preset = |(preset, _): &(Preset, Planned)| *preset == offers.asked.preset;
        let row = match offers.asked {
            Request {
                trunk: None,
                cache: None,
                ring: None,
                ..
            } => presets.iter().position(preset).unwrap_or(0),
            _ => presets.len(),
        };
        let mut tune = Self {
            asked: (0, 0, 1),
            offers,
            presets,
            made: now.clone(),
            now,
            row,
            curve: None,
        };
        tune.take_from(&tune.now.clone());
        tune
    }

    /// The slider that the keys are for.
    pub fn slider(&self) -> Option<Slider> {
        let at = self.row.checked_sub(self.presets.len())?;
        Slider::ALL.get(at).copied()
    }

    /// Where a slider stands, and how far it goes: bytes, or slots.
    pub fn value(&self, slider: Slider) -> (u64, u64) {
        let (trunk, cache, ring) = self.asked;
        let Offers { shape, machine, .. } = self.offers.as_ref();
        // Nothing can take more than there is.
        let memory = machine.available().map_or(u64::MAX, |most| most.0);
        let experts = shape.store(shape.experts);
        match slider {
            Slider::Trunk => (trunk, shape.walk().min(memory).max(trunk)),
            Slider::Cache => (cache, experts.min(memory).max(cache)),
            Slider::Ring => (ring as u64, RING_MOST as u64),
        }
    }

    /// What a plan has of it.
    pub fn of_plan(slider: Slider, plan: &Plan) -> u64 {
        match slider {
            Slider::Trunk => plan.parts.ring + plan.parts.pinned,
            Slider::Cache => plan.parts.experts,
            Slider::Ring => plan.ring_slots as u64,
        }
    }

    /// Goes so many rows down. On a preset the sliders stand as it has them.
    pub fn go(&mut self, rows: isize) {
        let last = self.presets.len() + Slider::ALL.len() - 1;
        self.row = self.row.saturating_add_signed(rows).min(last);
        if let Some((_, plan)) = self.presets.get(self.row) {
            let plan = plan.clone();
            self.take_from(&plan);
            self.made = plan;
        }
    }

    /// Moves the slider so many steps.
    pub fn slide(&mut self, steps: i64) {
        let Some(slider) = self.slider() else {
            return;
        };
        let (value, most) = self.value(slider);
        let step = match slider {
            Slider::Ring => 1,
            _ => (most / STEPS).max(1),
        };
        // To the next mark, so that both ends can be reached from anywhere.
        let moved = match steps < 0 {
            true => value.saturating_sub(1) / step * step,
            false => (value / step + 1) * step,
        };
        let moved = moved.min(most);
        match slider {
            Slider::Trunk => self.asked.0 = moved,
            Slider::Cache => self.asked.1 = moved,
            Slider::Ring => self.asked.2 = usize::try_from(moved).unwrap_or(1).max(1),
        }
        let made = self.offers.plan(self.change());
        self.made = made.map_err(|why| why.to_string());
        // Smaller than the smallest is raised by the plan: there it stands.
        if let Ok(plan) = &self.made {
            match slider {
                Slider::Trunk => self.asked.0 = Self::of_plan(slider, plan).max(moved),
                Slider::Cache => self.asked.1 = Self::of_plan(slider, plan).max(moved),
                Slider::Ring => {}
            }
        }
    }

    /// What is to be asked of the engine.
    pub fn command(&self) -> Command {
        match self.presets.get(self.row) {
            Some((preset, _)) => Command::Preset(*preset),
            None => Command::Budget(self.change()),
        }
    }

    /// Says what caches of several sizes would have retained.
    pub fn simulated(&mut self, curve: Vec<(usize, f64)>) {
        self.curve = Some(curve);
    }

    /// The share of experts that a plan retains: what is retained now, and the difference that the other size made for the
    /// last tokens. None where there were too few, or it is still being found out.
    pub fn retained(&self, plan: &Plan, now: f64) -> Option<f64> {
        if plan.per_token.experts_read == 0 {
            return Some(1.0);
        }
        let curve = self.curve.as_ref().filter(|curve| !curve.is_empty())?;
        let before = self.now.as_ref().ok()?;
        let other = between(curve, plan.expert_slots) - between(curve, before.expert_slots);
        Some((now + other).clamp(0.0, 1.0))
    }

    /// Tokens that this was found out with.
    pub fn replayed(&self) -> usize {
        self.offers.recent.len()
    }

    fn change(&self) -> Change {
        let (trunk, cache, ring) = self.asked;
        Change::Parts { trunk, cache, ring }
    }

    /// The sliders stand as a plan has them.
    fn take_from(&mut self, plan: &Planned) {
        if let Ok(plan) = plan {
            self.asked = (
                Self::of_plan(Slider::Trunk, plan),
                Self::of_plan(Slider::Cache, plan),
                match plan.ring_slots {
                    // Wholly pinned; with less memory there would be a ring again.
                    0 => crate::stream::RING_SLOTS,
                    slots => slots,
                },
            );
        }
    }
}

/// The share at a size between those that were tried: shares grow with the logarithm of sizes.
fn between(curve: &[(usize, f64)], slots: usize) -> f64 {
    let at = |slots: usize| (slots.max(1) as f64).ln();
    let after = curve.iter().position(|(size, _)| *size >= slots);
    match after {
        None => curve.last().map_or(0.0, |point| point.1),
        Some(0) => curve[0].1,
        Some(index) => {
            let ((left, low), (right, high)) = (curve[index - 1], curve[index]);
            let part = (at(slots) - at(left)) / (at(right) - at(left));
            low + (high - low) * part
        }
    }
}

/// Offers of a model with a trunk of 40 GB and as much of experts, on a machine with 60 GB, under the preset laptop.
#[cfg(test)]
pub(super) fn offers() -> Arc<Offers> {
    use crate::stream::{Machine, Memory, Shape};
    const GB: u64 = 1_000_000_000;
    let shape = Shape {
        segments: vec![GB; 40],
        runs: 1,
        vectors: 0,
        index: 0,
        expert: GB / 100,
        experts: 4000,
        expert_layers: 10,
        top_k: 8,
        state: 0,
        kv_per_position: 0,
        attention_per_position: 0,
        activations: Default::default(),
        chunk: 64,
    };
    let memory = Memory {
        total: 64 * GB,
        available: 60 * GB,
        ..Memory::default()
    };
    Arc::new(Offers {
        shape,
        asked: Request {
            preset: Preset::Laptop,
            trunk: None,
            cache: None,
            ring: None,
            context: 100,
            threads: 2,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        },
        machine: Machine {
            memory: Some(memory),
            group: None,
        },
        recent: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn tune() -> Tune {
        Tune::new(offers())
    }

    #[test]
    fn sliders_stand_as_the_preset_has_them_and_move_in_steps() {
        let mut tune = tune();
        assert_eq!(tune.command(), Command::Preset(Preset::Laptop));
        let now = tune.now.clone().unwrap();
        assert_eq!(tune.value(Slider::Cache).0, now.parts.experts);
        tune.slide(1);
        assert_eq!(tune.command(), Command::Preset(Preset::Laptop), "no slider");
        tune.go(1);
        assert_eq!(tune.command(), Command::Preset(Preset::Desktop));
        let desktop = tune.made.clone().unwrap();
        assert_eq!(
            tune.value(Slider::Trunk).0,
            desktop.parts.ring + desktop.parts.pinned
        );
        while tune.slider() != Some(Slider::Cache) {
            tune.go(1);
        }
        let before = tune.value(Slider::Cache);
        tune.slide(1);
        let after = tune.value(Slider::Cache).0;
        assert!(after > before.0 && after - before.0 <= before.1 / STEPS);
        for _ in 0..STEPS {
            tune.slide(-1);
        }
        let least = tune.made.clone().unwrap();
        assert_eq!(least.expert_slots, 4, "the smallest plan");
        tune.go(1);
        for _ in 0..2 * RING_MOST {
            tune.slide(1);
        }
        assert_eq!(tune.value(Slider::Ring), (16, 16));
        for _ in 0..2 * RING_MOST {
            tune.slide(-1);
        }
        assert_eq!(tune.value(Slider::Ring).0, 1);
        assert!(matches!(
            tune.command(),
            Command::Budget(Change::Parts { ring: 1, .. })
        ));
    }

    #[test]
    fn what_the_machine_cannot_hold_is_said_and_not_forgotten() {
        let mut tune = tune();
        while tune.slider() != Some(Slider::Cache) {
            tune.go(1);
        }
        for _ in 0..STEPS {
            tune.slide(1);
        }
        tune.go(-1);
        for _ in 0..STEPS {
            tune.slide(1);
        }
        assert!(tune.made.is_err());
        tune.slide(-1);
        assert!(tune.value(Slider::Trunk).0 < tune.value(Slider::Trunk).1);
    }

    #[test]
    fn what_another_cache_would_retain_comes_from_the_last_tokens() {
        let mut tune = tune();
        let now = tune.now.clone().unwrap();
        assert_eq!(tune.retained(&now, 0.3), None, "not known yet");
        let slots = now.expert_slots;
        tune.simulated(vec![(slots / 4, 0.1), (4 * slots, 0.5), (4000, 0.9)]);
        assert!((tune.retained(&now, 0.35).unwrap() - 0.35).abs() < 1e-9);
        let larger = Plan {
            expert_slots: 4 * slots,
            ..now.clone()
        };
        let retained = tune.retained(&larger, 0.35).unwrap();
        assert!((retained - 0.55).abs() < 0.01, "{retained}");
        let mut all = now;
        all.per_token.experts_read = 0;
        assert_eq!(tune.retained(&all, 0.35), Some(1.0));
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
        assert_eq!(Pace::measured(&telemetry, Some(4.0), token), None);
        telemetry.last_token = Some(Split {
            positions: 1,
            waited: Waits::default(),
            computed: Duration::from_secs(12),
            kernels: crate::stream::Kernels::default(),
            rest: Duration::ZERO,
        });
        let pace = Pace::measured(&telemetry, Some(4.0), token).unwrap();
        let seconds = |token, retained| pace.seconds(token, retained, 0.0).unwrap();
        assert!((seconds(token, 0.0) - 25.0).abs() < 1e-9);
        assert!((seconds(token, 0.4) - 23.0).abs() < 1e-9);
        let pinned = PerToken {
            trunk_read: 0,
            ..token
        };
        assert!(
            (seconds(pinned, 0.0) - 12.0).abs() < 1e-9,
            "computing is left"
        );
        // Nobody ever waited for the disk: what comes meanwhile costs nothing, and of more nothing is known.
        let pace = Pace::measured(&telemetry, None, token).unwrap();
        assert!(!pace.knows_disk());
        assert_eq!(pace.seconds(pinned, 0.0, 20e9), Some(12.0));
        assert_eq!(pace.seconds(token, 0.0, 20e9), None);
    }
}
