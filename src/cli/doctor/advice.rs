//! Which plan to take on this machine, how long a token will take, what holds it back, and what would change that. The
//! plan and the prediction are the library's.

use serde_json::{Value, json};

use super::drive::Drive;
use super::files::Files;
use super::host::Host;
use crate::cli::Exit;
use crate::cli::budget::{BudgetArgs, CONTEXT};
use crate::cli::plan::parts;
use crate::cli::plan_report::{self, RateArgs};
use crate::model::Blueprint;
use crate::stream::measure::Pattern;
use crate::stream::{
    Binding, Machine, Plan, Prediction, Preset, Refusal, Request, Shape, Speeds, plan, predict,
};

/// A plan, and what would change its speed.
pub(super) struct Advice {
    pub plan: Plan,
    pub shape: Shape,
    /// Why even the smallest plan does not fit.
    pub refusal: Option<Refusal>,
    pub speeds: Speeds,
    /// Which of the rates are assumptions.
    pub assumed: Vec<&'static str>,
    pub prediction: Prediction,
    pub changes: Vec<Change>,
    /// Positions that would be planned for unless memory is short.
    usual_context: usize,
}

/// What something else would bring.
pub(super) struct Change {
    pub what: &'static str,
    pub seconds_per_token: f64,
}

/// What is planned for.
///
/// # Errors
/// More positions than the model has.
pub(super) fn request(files: &Files, context: Option<usize>) -> Result<Request, Exit> {
    let flags = BudgetArgs {
        context,
        ..BudgetArgs::default()
    };
    flags.request(&files.config, CONTEXT)
}

/// Fewer positions are no chat.
const FEWEST: usize = 256;

/// What another gigabyte of memory is.
const GIGABYTE: u64 = 1_000_000_000;

impl Advice {
    /// None where the memory of the machine cannot be understood.
    pub(super) fn give(
        files: &Files,
        host: &Host,
        drives: &[Drive],
        request: &Request,
        packed: bool,
        warnings: &mut Vec<String>,
    ) -> Option<Self> {
        let machine = host.machine.as_ref()?;
        let layers = files.config.layers();
        let shape = Blueprint::new(files.config.clone(), layers).shape();
        let (plan, refusal) = recommend(&shape, request, machine);
        warnings.extend(plan.notices.iter().cloned());
        warnings.extend(refusal.as_ref().map(Refusal::to_string));
        let (speeds, assumed) = speeds(host, drives, packed);
        let prediction = predict(&plan, &shape, &speeds);
        let mut advice = Self {
            plan,
            shape,
            refusal,
            speeds,
            assumed,
            prediction,
            changes: Vec::new(),
            usual_context: request.context,
        };
        advice.changes = advice.changes(request, machine);
        Some(advice)
    }

    /// Whether the machine can hold it.
    pub(super) fn fits(&self) -> bool {
        self.refusal.is_none()
    }

    /// What to add to a command, beginning with a blank. Positions are named where they were asked for, or are fewer than is
    /// usual.
    pub(super) fn flags(&self, context_was_asked: bool) -> String {
        let mut flags = format!(" --preset {}", self.plan.preset);
        if context_was_asked || self.plan.context < self.usual_context {
            flags += &format!(" --context {}", self.plan.context);
        }
        flags
    }

    /// What one more gigabyte, a drive twice as fast, or a second drive would bring.
    fn changes(&self, request: &Request, machine: &Machine) -> Vec<Change> {
        let Speeds { trunk, experts, .. } = self.speeds;
        let with = |speeds: Speeds| predict(&self.plan, &self.shape, &speeds).seconds_per_token;
        let mut changes = vec![Change {
            what: "one more GB of memory",
            seconds_per_token: {
                let (plan, _) = recommend(&self.shape, request, &larger(machine));
                predict(&plan, &self.shape, &self.speeds).seconds_per_token
            },
        }];
        let mut change = |what, speeds| {
            changes.push(Change {
                what,
                seconds_per_token: with(speeds),
            });
        };
        let twice = |trunk, experts| Speeds {
            trunk,
            experts,
            ..self.speeds
        };
        if self.speeds.two_drives {
            change(
                "a drive of the trunk that is twice as fast",
                twice(2.0 * trunk, experts),
            );
            change(
                "a drive of the experts that is twice as fast",
                twice(trunk, 2.0 * experts),
            );
        } else {
            change(
                "a drive that is twice as fast",
                twice(2.0 * trunk, 2.0 * experts),
            );
            if self.plan.per_token.trunk_read > 0 && self.plan.per_token.experts_read > 0 {
                let two_drives = Speeds {
                    two_drives: true,
                    ..self.speeds
                };
                change(
                    "the trunk packed on a second drive as fast as this (k3 pack)",
                    two_drives,
                );
            }
        }
        changes
    }

    /// What a token waits for most, in words.
    pub(super) fn limit(&self) -> &'static str {
        match self.prediction.limit {
            Binding::Drive => "the drive",
            Binding::TrunkDrive => "the drive of the trunk",
            Binding::ExpertDrive => "the drive of the experts",
            Binding::Memory => "memory, which gives the processor its weights",
            Binding::Processor => "the processor",
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut plan = plan_report::json(&self.plan, &self.shape, RateArgs::default());
        // Those are of rates that were not measured here.
        for assumed in ["seconds_per_token", "disk_gb_per_s", "memory_gb_per_s"] {
            plan.remove(assumed);
        }
        let change = |change: &Change| {
            json!({
                "what": change.what,
                "seconds_per_token": change.seconds_per_token,
                "seconds_saved": self.prediction.seconds_per_token - change.seconds_per_token,
            })
        };
        json!({
            "fits": self.fits(),
            "refusal": self.refusal.as_ref().map(Refusal::to_string),
            "preset": self.plan.preset.name(),
            "context_was_cut": self.plan.context < self.usual_context,
            "plan": plan,
            "speeds": self.speeds,
            "assumed": self.assumed,
            "prediction": self.prediction,
            "changes": self.changes.iter().map(change).collect::<Vec<_>>(),
        })
    }
}

/// The plan `auto`; where it does not fit, the smallest, and that with as many positions as fit.
fn recommend(shape: &Shape, request: &Request, machine: &Machine) -> (Plan, Option<Refusal>) {
    let made = |preset, context| {
        let request = Request {
            preset,
            context,
            kept_states: preset.kept_states(),
            ..request.clone()
        };
        parts(plan(shape, &request, machine))
    };
    let (auto, refusal) = made(Preset::Auto, request.context);
    if refusal.is_none() {
        return (auto, None);
    }
    let mut context = request.context;
    loop {
        let (smallest, refusal) = made(Preset::Ultra, context);
        if refusal.is_none() || context / 2 < FEWEST {
            return (smallest, refusal);
        }
        context /= 2;
    }
}

/// The machine with a gigabyte more, wherever it is limited.
fn larger(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    if let Some(memory) = &mut machine.memory {
        memory.total += GIGABYTE;
        memory.available += GIGABYTE;
    }
    if let Some(group) = &mut machine.group {
        group.limit = group.limit.saturating_add(GIGABYTE);
    }
    machine
}

/// The measured rates, and the names of those that had to be assumed.
fn speeds(host: &Host, drives: &[Drive], packed: bool) -> (Speeds, Vec<&'static str>) {
    let mut assumed = Vec::new();
    let mut known = |rate: Option<f64>, what, otherwise| {
        rate.filter(|rate| *rate > 0.0).unwrap_or_else(|| {
            assumed.push(what);
            otherwise
        })
    };
    let (disk, memory) = RateArgs::default().bytes_per_s();
    let experts = drives.first();
    // Without a pack that can be used, the trunk comes from the shards.
    let trunk = if packed { drives.last() } else { experts };
    let rates = host.rates();
    let memory = known(rates.map(|rates| rates.memory), "memory", memory);
    let speeds = Speeds {
        trunk: known(
            trunk.and_then(|d| d.rate(Pattern::Sequential)),
            "trunk",
            disk,
        ),
        experts: known(
            experts.and_then(|d| d.rate(Pattern::Random)),
            "experts",
            disk,
        ),
        two_drives: packed && drives.len() > 1,
        memory,
        bf16: known(rates.map(|rates| rates.bf16), "bf16", memory),
        mxfp4: known(rates.map(|rates| rates.mxfp4), "mxfp4", memory / 2.0),
    };
    (speeds, assumed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Config;
    use crate::stream::Memory;

    fn machine(gigabytes: u64) -> Machine {
        Machine {
            memory: Some(Memory {
                total: gigabytes * GIGABYTE,
                available: gigabytes * GIGABYTE,
                ..Memory::default()
            }),
            group: None,
        }
    }

    fn advice(gigabytes: u64, speeds: Speeds) -> Advice {
        let config = Config::released();
        let shape = Blueprint::new(config.clone(), config.layers()).shape();
        let request = BudgetArgs::default().request(&config, CONTEXT).unwrap();
        let machine = machine(gigabytes);
        let (plan, refusal) = recommend(&shape, &request, &machine);
        let prediction = predict(&plan, &shape, &speeds);
        let mut advice = Advice {
            plan,
            shape,
            refusal,
            speeds,
            assumed: Vec::new(),
            prediction,
            changes: Vec::new(),
            usual_context: CONTEXT,
        };
        advice.changes = advice.changes(&request, &machine);
        advice
    }

    const SPEEDS: Speeds = Speeds {
        trunk: 3e9,
        experts: 3e9,
        two_drives: false,
        memory: 20e9,
        bf16: 18e9,
        mxfp4: 10e9,
    };

    #[test]
    fn a_gigabyte_more_pins_what_it_may_and_a_faster_drive_halves_the_reading() {
        let advice = advice(32, SPEEDS);
        assert!(advice.fits());
        assert_eq!(advice.plan.preset, Preset::Auto);
        let now = advice.prediction.seconds_per_token;
        let saved = |i: usize| now - advice.changes[i].seconds_per_token;
        // 55 % of it, at 3 GB/s, and a segment's rounding.
        assert!((0.16..0.2).contains(&saved(0)), "{}", saved(0));
        assert!((saved(1) - now / 2.0).abs() < 1e-9);
        let larger = advice
            .prediction
            .trunk_seconds
            .max(advice.prediction.expert_seconds);
        assert!((advice.changes[2].seconds_per_token - larger).abs() < 1e-9);
    }

    #[test]
    fn two_drives_are_weighed_apart() {
        let advice = advice(
            32,
            Speeds {
                two_drives: true,
                ..SPEEDS
            },
        );
        assert_eq!(advice.prediction.limit, Binding::TrunkDrive);
        let now = advice.prediction.seconds_per_token;
        assert!(advice.changes[1].seconds_per_token < now);
        assert!(
            (advice.changes[2].seconds_per_token - now).abs() < 1e-9,
            "the experts are not waited for"
        );
    }

    #[test]
    fn a_small_machine_gets_the_smallest_plan_and_fewer_positions() {
        let two = advice(2, SPEEDS);
        assert!(two.fits());
        let one = advice(1, SPEEDS);
        assert!(one.fits(), "{:?}", one.refusal);
        assert!(one.plan.preset == Preset::Ultra && one.plan.context < CONTEXT);
        assert!(
            one.flags(false).contains("--preset ultra --context "),
            "{}",
            one.flags(false)
        );
        let none = advice(0, SPEEDS);
        assert!(!none.fits());
    }
}
