//! All that a memory plan is made from, as it is at one moment, so that whoever asks can try plans without asking again. Not
//! the plan in force.

use std::sync::Arc;

use crate::chat::{Change, Error, Session};
use crate::model;
use crate::stream::recent::{Choices, step};
use crate::stream::{self, Machine, Meters, Plan, Preset, Refusal, Request, Shape, plan, simulate};

/// What plans are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    /// The sizes of the model.
    pub shape: Shape,
    /// What is asked of the plan now.
    pub asked: Request,
    /// What the machine can give.
    pub machine: Machine,
    /// The experts that the last tokens chose.
    pub recent: Vec<Choices>,
}

/// Sizes of caches between which shares are drawn as straight lines.
const SIZES: u32 = 10;

impl Offers {
    /// The plan that a change leads to.
    ///
    /// # Errors
    /// The machine cannot hold it.
    pub fn plan(&self, change: Change) -> Result<Plan, Refusal> {
        plan(&self.shape, &change.of(&self.asked), &self.machine)
    }

    /// The plan in force, as it would be made now.
    ///
    /// # Errors
    /// The machine has not the memory for it any more.
    pub fn in_force(&self) -> Result<Plan, Refusal> {
        plan(&self.shape, &self.asked, &self.machine)
    }

    /// The plan of every preset.
    pub fn presets(&self) -> Vec<(Preset, Result<Plan, Refusal>)> {
        let planned = |preset| (preset, self.plan(Change::Preset(preset)));
        Preset::ALL.map(planned).into()
    }

    /// The share of experts that caches of several sizes, in experts, would have retained of the last tokens. It takes a
    /// second; empty before there were enough tokens.
    pub fn retained(&self) -> Vec<(usize, f64)> {
        let steps: Vec<_> = self.recent.iter().map(|token| step(token)).collect();
        let all = usize::try_from(self.shape.experts).unwrap_or(usize::MAX);
        let smallest = (stream::EXPERT_SLOTS as usize).min(all);
        // In equal ratios: a slot counts for less the more there are.
        let ratio = (all as f64 / smallest.max(1) as f64).powf(1.0 / f64::from(SIZES));
        let mut sizes: Vec<usize> = (0..=SIZES)
            .map(|n| (smallest as f64 * ratio.powf(f64::from(n))) as usize)
            .collect();
        sizes.dedup();
        simulate::curve(&steps, &sizes)
    }
}

/// Where offers come from while a turn has the network.
#[derive(Clone, Debug)]
pub(super) struct Source {
    shape: Option<Shape>,
    meters: Arc<Meters>,
}

impl Source {
    pub fn of(session: &Session) -> Self {
        let network = session.network();
        Self {
            shape: network.shape().cloned(),
            meters: Arc::clone(network.meters()),
        }
    }

    /// What can be had now.
    ///
    /// # Errors
    /// The weights are not a checkpoint's, or the machine's accounts cannot be understood.
    pub fn offers(&self, asked: &Request) -> Result<Arc<Offers>, Error> {
        let closed = || model::Error::from(stream::Error::Closed);
        Ok(Arc::new(Offers {
            shape: self.shape.clone().ok_or_else(closed)?,
            asked: asked.clone(),
            machine: Machine::detect()?,
            recent: self.meters.recent().all(),
        }))
    }
}
