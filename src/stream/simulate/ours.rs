//! The engine's own policy, driven as the expert store drives it.

use std::collections::VecDeque;

use super::super::Policy;
use super::super::trace::{Call, EXPERTS, LAYERS};
use super::Cache;

/// Experts that the store reads or computes with at once: a token's worth.
const WAVE: usize = 16;

/// A cache under [`Policy`].
pub(super) struct Ours {
    policy: Policy,
}

impl Ours {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            policy: Policy::new(slots, LAYERS, EXPERTS),
        }
    }
}

impl Cache for Ours {
    fn call(&mut self, call: &Call) -> u64 {
        let mut union = call.union();
        // The store asks and reads in the order of the file.
        union.wanted.sort_unstable_by_key(|wanted| wanted.expert);
        let resident = self.policy.request(union.layer, &union.wanted);
        let mut in_use: VecDeque<usize> = resident.iter().flatten().copied().collect();
        let mut reads = 0;
        for (wanted, _) in union
            .wanted
            .iter()
            .zip(&resident)
            .filter(|(_, r)| r.is_none())
        {
            while in_use.len() >= WAVE
                && let Some(slot) = in_use.pop_front()
            {
                self.policy.release(slot);
            }
            let slot = loop {
                match self.policy.admit(union.layer, wanted.expert) {
                    Some(slot) => break Some(slot),
                    None => match in_use.pop_front() {
                        Some(slot) => self.policy.release(slot),
                        None => break None,
                    },
                }
            };
            in_use.extend(slot);
            reads += 1;
        }
        for slot in in_use {
            self.policy.release(slot);
        }
        reads
    }
}
