//! Another memory plan for the network of a conversation.

use super::Error;
use crate::model::{self, Network};
use crate::stream::{self, Machine, Plan, Preset, Request, plan};

/// Takes the memory of another preset on this machine, with context and threads as they were asked for at the start. Between
/// two passes only: states and results stay as they are.
///
/// # Errors
/// The plan cannot be had; the old one is in force then.
pub fn replan(network: &mut Network, asked: &Request, preset: Preset) -> Result<Plan, Error> {
    let closed = || model::Error::from(stream::Error::Closed);
    let shape = network.shape().ok_or_else(closed)?;
    let request = Request {
        preset,
        trunk: None,
        cache: None,
        ..asked.clone()
    };
    let plan = plan(shape, &request, &Machine::detect()?)?;
    network.replan_to(&plan)?;
    Ok(plan)
}
