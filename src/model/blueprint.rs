//! The plan of a network: which layers run, and the walk over their weights.

use super::LayerStages;
use crate::checkpoint::config::Config;
use crate::checkpoint::names;
use crate::stream::{StageId, Walk, WalkTensor};

/// Everything about a network that follows from its configuration alone.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// The model's configuration.
    pub config: Config,
    /// Every matrix outside the experts in order of use, the lm_head last.
    pub walk: Walk,
    pub(super) layers: Vec<LayerStages>,
    pub(super) head: StageId,
}

impl Blueprint {
    /// The plan for the first `layers` layers; more than there are means all.
    pub fn new(config: Config, layers: usize) -> Self {
        let mut walk = Walk::default();
        let layers = (0..layers.min(config.layers()))
            .map(|layer| LayerStages::plan(&mut walk, &config, layer))
            .collect();
        let (rows, columns) = (config.vocab, config.hidden);
        let head = walk.push(vec![WalkTensor {
            name: names::LM_HEAD.to_owned(),
            rows,
            columns,
            unit: 1,
        }]);
        Self {
            config,
            walk,
            layers,
            head,
        }
    }

    /// Layers that run.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }
}
