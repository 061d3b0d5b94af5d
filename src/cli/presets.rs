//! `k3 presets`: every preset's plan on this machine, of a model or of the released sizes.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::budget::{BudgetArgs, CONTEXT};
use super::plan::parts;
use super::synth::size;
use super::{open, plan_report};
use crate::checkpoint::Config;
use crate::model::Blueprint;
use crate::stream::{Machine, Plan, Preset, Refusal, Request, Shape, plan};
use crate::text::visible;

/// Arguments of `k3 presets`.
#[derive(Args)]
pub struct PresetsArgs {
    /// Checkpoint folder (default: the sizes of the released model)
    model: Option<PathBuf>,
    /// Positions to plan for (default: 8192)
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    #[command(flatten)]
    rates: plan_report::RateArgs,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The model cannot be indexed, or the machine not be understood.
pub fn run(arguments: &PresetsArgs) -> anyhow::Result<()> {
    let config = match &arguments.model {
        Some(model) => {
            let config = open::config(model, None)?;
            let layers = config.layers();
            open::checkpoint(model, config, layers)?.config().clone()
        }
        None => Config::released(),
    };
    let flags = BudgetArgs {
        context: arguments.context,
        ..BudgetArgs::default()
    };
    let request = flags.request(&config, CONTEXT)?;
    let layers = config.layers();
    let shape = Blueprint::new(config, layers).shape();
    let machine = Machine::detect()?;
    let plans: Vec<(Plan, Option<Refusal>)> = Preset::ALL
        .into_iter()
        .map(|preset| {
            let request = Request {
                preset,
                ..request.clone()
            };
            parts(plan(&shape, &request, &machine))
        })
        .collect();
    let report = match arguments.json {
        true => json(arguments, &shape, &plans),
        false => text(arguments, &plans),
    };
    std::io::stdout().write_all(visible(&report).as_bytes())?;
    Ok(())
}

fn json(arguments: &PresetsArgs, shape: &Shape, plans: &[(Plan, Option<Refusal>)]) -> String {
    let presets: Vec<Value> = plans
        .iter()
        .map(|(plan, refusal)| {
            let mut object = plan_report::json(plan, shape, arguments.rates);
            object.insert("fits".into(), refusal.is_none().into());
            object.insert(
                "refusal".into(),
                refusal.as_ref().map(Refusal::to_string).into(),
            );
            object.into()
        })
        .collect();
    let model = arguments
        .model
        .as_ref()
        .map(|path| path.display().to_string());
    format!("{:#}\n", json!({ "model": model, "presets": presets }))
}

fn text(arguments: &PresetsArgs, plans: &[(Plan, Option<Refusal>)]) -> String {
    let row = |cells: [&str; 7]| {
        let [name, total, pinned, experts, read, seconds, fits] = cells;
        format!(
            "{name:<12} {total:>10} {pinned:>10} {experts:>10} {read:>12} {seconds:>10}  {fits}\n"
        )
    };
    let mut out = row([
        "preset",
        "memory",
        "pinned",
        "experts",
        "read/token",
        "s/token",
        "here",
    ]);
    for (plan, refusal) in plans {
        out += &row([
            plan.preset.name(),
            &size(plan.total()),
            &size(plan.parts.pinned),
            &size(plan.parts.experts),
            &size(plan.per_token.read()),
            &format!("{:.2}", arguments.rates.seconds(plan)),
            if refusal.is_some() {
                "too large"
            } else {
                "fits"
            },
        ]);
    }
    let of = match &arguments.model {
        Some(model) => model.display().to_string(),
        None => "the released model".into(),
    };
    let context = plans.first().map_or(0, |(plan, _)| plan.context);
    let _ = writeln!(
        out,
        "{of}, {context} positions, at {}, no expert retained",
        arguments.rates.words()
    );
    if let Some((plan, _)) = plans.first() {
        let available = plan.available.map_or("not known".into(), size);
        let _ = writeln!(out, "memory that may be used here: {available}");
    }
    out
}
