//! Another memory plan for the network of a conversation.

use super::Error;
use crate::model::{self, Network};
use crate::stream::{self, Machine, Plan, Preset, Request, plan};

/// A change of what is asked of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The budgets of this preset, in place of all that were asked for.
    Preset(Preset),
    /// So many bytes for the trunk, pins and ring together.
    Trunk(u64),
    /// So many bytes for experts.
    Cache(u64),
    /// So many slots in the ring; at least one.
    Ring(usize),
    /// All three at once.
    Parts {
        /// Bytes for pins and ring together.
        trunk: u64,
        /// Bytes for experts.
        cache: u64,
        /// Slots of the ring; at least one.
        ring: usize,
    },
}

impl Change {
    /// What is asked then. Context and threads stay.
    pub fn of(self, asked: &Request) -> Request {
        let asked = asked.clone();
        match self {
            Self::Preset(preset) => Request {
                preset,
                trunk: None,
                cache: None,
                ..asked
            },
            Self::Trunk(bytes) => Request {
                trunk: Some(bytes),
                ..asked
            },
            Self::Cache(bytes) => Request {
                cache: Some(bytes),
                ..asked
            },
            Self::Ring(slots) => Request {
                ring: Some(slots),
                ..asked
            },
            Self::Parts { trunk, cache, ring } => Request {
                trunk: Some(trunk),
                cache: Some(cache),
                ring: Some(ring),
                ..asked
            },
        }
    }
}

/// Takes the memory that is asked for on this machine. Between two passes only: states and results stay as they are.
///
/// # Errors
/// The plan cannot be had; the old one is in force then.
pub fn replan(network: &mut Network, request: &Request) -> Result<Plan, Error> {
    let closed = || model::Error::from(stream::Error::Closed);
    let shape = network.shape().ok_or_else(closed)?;
    let plan = plan(shape, request, &Machine::detect()?)?;
    network.replan_to(&plan)?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_takes_the_place_of_budgets_and_a_budget_that_of_one() {
        let asked = Request {
            preset: Preset::Auto,
            trunk: Some(1),
            cache: Some(2),
            ring: Some(3),
            context: 99,
            threads: 1,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        };
        let laptop = Change::Preset(Preset::Laptop).of(&asked);
        assert_eq!(
            (laptop.trunk, laptop.cache, laptop.ring, laptop.context),
            (None, None, Some(3), 99)
        );
        let trunk = Change::Trunk(7).of(&asked);
        assert_eq!(
            (trunk.trunk, trunk.cache, trunk.preset),
            (Some(7), Some(2), Preset::Auto)
        );
        assert_eq!(Change::Cache(7).of(&asked).cache, Some(7));
        assert_eq!(Change::Ring(7).of(&asked).ring, Some(7));
        let parts = Change::Parts {
            trunk: 4,
            cache: 5,
            ring: 6,
        };
        let parts = parts.of(&asked);
        assert_eq!(
            (parts.trunk, parts.cache, parts.ring),
            (Some(4), Some(5), Some(6))
        );
    }
}
