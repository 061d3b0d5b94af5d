//! Why a plan is refused, and what would not be.

use super::machine::Limit;
use super::plan::{Plan, Request, gb, lay_out};
use super::preset::Budgets;
use super::shape::Shape;

/// A plan that the machine cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this plan needs {} of memory, {} may be used ({}), {} too little; {}, or {}",
    gb(.plan.total()), gb(*.available), limit(&.plan.limited_by), gb(.plan.total() - .available),
    .ways[0], .ways[1])]
pub struct Refusal {
    /// The plan, with what limits it.
    pub plan: Box<Plan>,
    /// What the process may take.
    pub available: u64,
    /// Two ways out.
    pub ways: [String; 2],
}

fn limit(limit: &Limit) -> String {
    match limit {
        Limit::ControlGroup(path) => format!(
            "the limit of the control group {}, less a margin for the system",
            path.display()
        ),
        _ => "what the system says is available".to_owned(),
    }
}

/// The refusal of a plan that takes more than `available`.
pub(super) fn refuse(shape: &Shape, request: &Request, plan: Plan, available: u64) -> Refusal {
    let (trunk, cache) = (0, 0);
    let smallest = lay_out(shape, request, Budgets { trunk, cache });
    // What is left for the cache of positions beside the smallest plan's other parts.
    let room = available.saturating_sub(smallest.total() - smallest.parts.kv);
    let positions = room / shape.kv_per_position.max(1);
    let first = if smallest.total() <= available {
        format!(
            "take the smallest plan, which needs {} (--preset ultra, without --trunk-gb and --cache-gb)",
            gb(smallest.total())
        )
    } else if positions >= 2 && positions < request.context as u64 {
        format!("plan for fewer positions (--preset ultra --context {positions})")
    } else {
        format!(
            "use a machine with more memory: even the smallest plan needs {}",
            gb(smallest.total())
        )
    };
    let short = gb(plan.total() - available);
    let second = match plan.limited_by {
        Limit::ControlGroup(_) => format!("raise the group's limit by {short}"),
        _ => format!("close programs that hold {short}"),
    };
    Refusal {
        plan: Box::new(plan),
        available,
        ways: [first, second],
    }
}
