//! Which model a state belongs to.

use crate::checkpoint::config::{Attention, Config};
use crate::model::{KdaState, State};

/// What a state and a network must have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelKey {
    /// The checkpoint's identity: its configuration and every shard's header and size.
    pub identity: [u8; 32],
    /// The configuration's own hash, which tells another configuration from other weights.
    pub config: [u8; 32],
    /// Layers that run.
    pub layers: usize,
    /// Ids there are.
    pub vocab: usize,
    /// Values of all KDA layers.
    fixed: u64,
    /// Values of all MLA layers for one position.
    per_position: u64,
}

impl ModelKey {
    /// The first `layers` layers of a checkpoint with this identity and configuration.
    pub fn new(identity: [u8; 32], config: &Config, layers: usize) -> Self {
        let kinds = config.attention.iter().take(layers);
        let (mut fixed, mut per_position) = (0, 0);
        for kind in kinds {
            match kind {
                Attention::Kda => fixed += KdaState::values(&config.kda) as u64,
                Attention::Mla => per_position += config.mla.cache_width() as u64,
            }
        }
        Self {
            identity,
            config: config.hash(),
            layers: layers.min(config.layers()),
            vocab: config.vocab,
            fixed,
            per_position,
        }
    }

    /// Values of a state after so many positions; none where no number can hold it.
    pub(super) fn values(&self, positions: u64) -> Option<u64> {
        self.per_position
            .checked_mul(positions)?
            .checked_add(self.fixed)
    }

    /// Whether this state has as many values as it should.
    pub(super) fn fits(&self, state: &State) -> bool {
        let held: u64 = super::values(state).map(|part| part.len() as u64).sum();
        self.values(state.positions() as u64) == Some(held) && state.layers.len() == self.layers
    }
}
