//! Memory plans to choose from or to make, over everything: what they take, what they would cost, what was measured.

use super::super::figures::{UNKNOWN, brief, share, size, taking};
use super::super::state::State;
use super::super::theme::Role;
use super::super::tune::{Pace, Planned, Slider, Tune};
use crate::stream::Plan;

/// The row of the chosen preset or slider, below the heading.
pub fn row(tune: &Tune) -> usize {
    1 + match tune.slider() {
        // A gap stands between presets and sliders.
        Some(_) => tune.row + 1,
        None => tune.row,
    }
}

/// A row for each preset and slider, what they make, then what was measured.
pub fn lines(state: &State, tune: &Tune, width: u16) -> Vec<(String, Role)> {
    let any = tune.presets.iter().find_map(|(_, plan)| plan.as_ref().ok());
    let disk = state.instruments.samples.pace();
    let pace = any.and_then(|plan| Pace::measured(&state.telemetry, disk, plan.per_token));
    let costs = Costs { tune, pace };
    let head = "  preset         memory      read s a token".to_owned();
    let mut lines = vec![(head, Role::Quiet)];
    for (index, (preset, plan)) in tune.presets.iter().enumerate() {
        let (sign, role) = sign(index == tune.row);
        let name = preset.name();
        let text = match plan {
            Ok(plan) => {
                let memory = size(plan.total());
                let (read, about) = (costs.read(plan), costs.seconds(plan));
                format!("{sign} {name:11} {memory:>9} {read:>9} {about:>8}")
            }
            Err(why) => format!("{sign} {name:11} {why}"),
        };
        lines.push((text, role));
    }
    lines.push((String::new(), Role::Plain));
    let columns = usize::from(width.saturating_sub(40)).clamp(8, 40);
    for slider in Slider::ALL {
        let chosen = tune.slider() == Some(slider);
        lines.push((self::slider(tune, slider, chosen, columns), sign(chosen).1));
    }
    lines.push((made(&costs, &tune.made), Role::Strong));
    lines.push((String::new(), Role::Plain));
    lines.extend(said(state, &costs));
    lines.extend(measured(state));
    lines
}

fn sign(chosen: bool) -> (&'static str, Role) {
    match chosen {
        true => ("▸", Role::Chosen),
        false => (" ", Role::Plain),
    }
}

/// What plans cost, as far as that is known.
struct Costs<'a> {
    tune: &'a Tune,
    pace: Option<Pace>,
}

impl Costs<'_> {
    /// The share of experts that is taken to be retained.
    fn retained(&self, plan: &Plan) -> Option<f64> {
        let now = self.pace?.retained();
        Some(self.tune.retained(plan, now).unwrap_or(now))
    }

    fn seconds_of(&self, plan: &Plan) -> Option<f64> {
        let now = self.tune.now.as_ref().ok();
        let unwaited = now.map_or(0.0, |now| {
            Pace::reads(now.per_token, self.retained(now).unwrap_or(0.0))
        });
        self.pace?
            .seconds(plan.per_token, self.retained(plan)?, unwaited)
    }

    fn seconds(&self, plan: &Plan) -> String {
        self.seconds_of(plan)
            .map_or_else(|| UNKNOWN.to_owned(), taking)
    }

    /// What a token reads.
    fn read(&self, plan: &Plan) -> String {
        let token = plan.per_token;
        let left = 1.0 - self.retained(plan).unwrap_or(0.0);
        let experts = token.experts_read as f64 * left;
        size(token.trunk_read + experts as u64)
    }
}

/// A bar up to where the slider stands, and a mark where the plan in force does.
fn slider(tune: &Tune, slider: Slider, chosen: bool, columns: usize) -> String {
    let (value, most) = tune.value(slider);
    let column = |value: u64| {
        let share = value as f64 / most.max(1) as f64;
        ((share * columns as f64).round() as usize).min(columns)
    };
    let now = tune.now.as_ref().ok();
    let now = now.map(|plan| column(Tune::of_plan(slider, plan)).min(columns - 1));
    let bar: String = (0..columns)
        .map(|at| match (Some(at) == now, at < column(value)) {
            (true, _) => '│',
            (false, true) => '█',
            (false, false) => '░',
        })
        .collect();
    let name = match slider {
        Slider::Trunk => "trunk",
        Slider::Cache => "experts",
        Slider::Ring => "ring",
    };
    let figures = match slider {
        Slider::Ring => format!("{value} slots"),
        _ => format!("{} of {}", size(value), size(most)),
    };
    format!("{} {name:9} {bar} {figures}", sign(chosen).0)
}

/// What the sliders make.
fn made(costs: &Costs<'_>, made: &Planned) -> String {
    match made {
        Ok(plan) => {
            let memory = size(plan.total());
            let retained = costs.retained(plan);
            format!(
                "  = {memory}; a token reads {}, takes {}; retained {}",
                costs.read(plan),
                costs.seconds(plan),
                share(retained)
            )
        }
        Err(why) => {
            let short = why.split(" (").next().unwrap_or(why);
            format!("  = not to be had: {short}")
        }
    }
}

/// Where the predictions come from, and whether the one that is being made says anything.
fn said(state: &State, costs: &Costs<'_>) -> Vec<(String, Role)> {
    let tune = costs.tune;
    let quiet = |text: String| (format!("  {text}"), Role::Quiet);
    let Some(pace) = costs.pace else {
        return vec![quiet("Predicted once a token was made.".to_owned())];
    };
    let simulated = tune
        .made
        .as_ref()
        .is_ok_and(|plan| tune.retained(plan, 0.0).is_some());
    let unknown = "Reads were not waited for yet, so what the drive gives is not known.";
    let mut lines = vec![quiet(match simulated {
        _ if !pace.knows_disk() => unknown.to_owned(),
        true => format!(
            "By the rates of the last seconds; experts as of the last {} tokens.",
            tune.replayed()
        ),
        false => "By the rates of the last seconds and the experts retained until now.".to_owned(),
    })];
    let quartiles = state.measured.last().and_then(|now| now.quartiles());
    let about = tune
        .made
        .as_ref()
        .ok()
        .and_then(|plan| costs.seconds_of(plan));
    if let (Some([low, _, high]), Some(about), false) = (quartiles, about, tune.made == tune.now) {
        let within = low.as_secs_f64() <= about && about <= high.as_secs_f64();
        if within {
            lines.push((
                "  That is within the noise of the plan in force: no gain to be expected."
                    .to_owned(),
                Role::Strong,
            ));
        }
    }
    // The same sum for the plan in force, beside what it takes: how far to trust it.
    let now = tune
        .now
        .as_ref()
        .ok()
        .and_then(|plan| costs.seconds_of(plan));
    if let (Some(now), Some([_, middle, _])) = (now, quartiles) {
        lines.push(quiet(format!(
            "For the plan in force that gives {}, measured {}.",
            taking(now),
            brief(middle)
        )));
    }
    lines
}

/// The middle of the times of each plan, with the quarter and three quarters; and what can be said about them.
fn measured(state: &State) -> Vec<(String, Role)> {
    let head = "  measured                    tokens  a token  half within";
    let mut lines = vec![(String::new(), Role::Plain), (head.to_owned(), Role::Quiet)];
    for measured in &state.measured {
        let (middle, half) = match measured.quartiles() {
            Some([low, middle, high]) => {
                (brief(middle), format!("{} to {}", brief(low), brief(high)))
            }
            None => (UNKNOWN.to_owned(), "too few to say".to_owned()),
        };
        let (plan, tokens) = (&measured.plan, measured.tokens());
        lines.push((
            format!("  {plan:26} {tokens:>7} {middle:>8}  {half}"),
            Role::Plain,
        ));
    }
    if let [.., before, now] = state.measured.as_slice() {
        let verdict = match now.faster_than(before) {
            Some(true) => format!("{} is faster than {}.", now.plan, before.plan),
            Some(false) => format!("{} is slower than {}.", now.plan, before.plan),
            None => "No difference beyond the noise yet.".to_owned(),
        };
        lines.push((format!("  {verdict}"), Role::Strong));
    }
    lines
}
