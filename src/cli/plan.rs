//! `k3 plan`: what a run would take of this machine. The model is indexed, nothing of it is loaded.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::budget::{BudgetArgs, CONTEXT};
use super::{open, plan_report, say};
use crate::model::Blueprint;
use crate::stream::pack::Pack;
use crate::stream::{Machine, Plan, Refusal, plan};
use crate::text::visible;

/// Arguments of `k3 plan`.
#[derive(Args)]
pub struct PlanArgs {
    /// Checkpoint folder in the released layout
    model: PathBuf,
    /// The model's configuration (default: config.json in MODEL)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    rates: plan_report::RateArgs,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. A plan that is refused is shown all the same, before it is an error.
///
/// # Errors
/// The model cannot be indexed, the machine cannot be understood or cannot hold the plan.
pub fn run(arguments: &PlanArgs) -> anyhow::Result<()> {
    let config = open::config(&arguments.model, arguments.config.as_ref())?;
    let request = arguments.budget.request(&config, CONTEXT)?;
    let layers = config.layers();
    let checkpoint = open::checkpoint(&arguments.model, config, layers)?;
    // A pack changes what is read from where, not how much.
    if let Some(trunk) = &arguments.budget.trunk {
        Pack::open(trunk, &checkpoint)?;
    }
    let shape = Blueprint::new(checkpoint.config().clone(), layers).shape();
    let (made, refusal) = parts(plan(&shape, &request, &Machine::detect()?));
    for notice in &made.notices {
        say!("k3: {notice}");
    }
    let report = match arguments.json {
        true => {
            let mut object = plan_report::json(&made, &shape, arguments.rates);
            object.insert("fits".into(), refusal.is_none().into());
            format!("{:#}\n", Value::from(object))
        }
        false => plan_report::text(&made, &shape, arguments.rates),
    };
    std::io::stdout().write_all(visible(&report).as_bytes())?;
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// The plan, and why it is refused if it is.
pub(super) fn parts(made: Result<Plan, Refusal>) -> (Plan, Option<Refusal>) {
    match made {
        Ok(plan) => (plan, None),
        Err(refusal) => (Plan::clone(&refusal.plan), Some(refusal)),
    }
}
