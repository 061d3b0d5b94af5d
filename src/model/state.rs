//! What the network carries from token to token.

use super::Error;
use crate::checkpoint::config::{Attention, Config, KdaShape};

/// The recurrent state of a KDA layer.
#[derive(Clone, Debug, PartialEq)]
pub struct KdaState {
    /// [heads][keys][values].
    pub recurrent: Vec<f32>,
    /// Past raw inputs of the convolutions of q, k and v: [kernel - 1][width] each, oldest first.
    pub history: [Vec<f32>; 3],
}

impl KdaState {
    /// Values of one layer's state.
    pub fn values(shape: &KdaShape) -> usize {
        shape.heads * shape.head_dim.pow(2) + 3 * (shape.conv_kernel - 1) * shape.width()
    }

    /// The state before the first token.
    pub fn new(shape: &KdaShape) -> Self {
        let history = vec![0.0; (shape.conv_kernel - 1) * shape.width()];
        Self {
            recurrent: vec![0.0; shape.heads * shape.head_dim * shape.head_dim],
            history: [history.clone(), history.clone(), history],
        }
    }
}

/// The cache of an MLA layer: a compressed latent and the shared key part, one row a position.
#[derive(Clone, Debug, PartialEq)]
pub struct LatentCache {
    /// [positions][latent + shared part]. Capacity is reserved; pages become resident as positions are used.
    pub rows: Vec<f32>,
}

/// The state of one layer.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerState {
    /// Of a fixed size.
    Kda(KdaState),
    /// Grows with the context.
    Mla(LatentCache),
}

/// The state of the whole network after some positions.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// One for each layer that runs.
    pub layers: Vec<LayerState>,
    /// Values of a cached position.
    width: usize,
    positions: usize,
    capacity: usize,
    whole: bool,
}

impl State {
    /// The state before the first token of a context of at most `capacity` positions, for the first `layers` layers.
    ///
    /// # Errors
    /// There is no room for the cache in the address space.
    pub fn new(config: &Config, layers: usize, capacity: usize) -> Result<Self, Error> {
        let width = config.mla.cache_width();
        let layers = config.attention[..layers]
            .iter()
            .map(|kind| match kind {
                Attention::Kda => Ok(LayerState::Kda(KdaState::new(&config.kda))),
                Attention::Mla => {
                    let mut rows = Vec::new();
                    let values = capacity.saturating_mul(width);
                    rows.try_reserve_exact(values).map_err(|_| Error::NoRoom {
                        positions: capacity,
                    })?;
                    Ok(LayerState::Mla(LatentCache { rows }))
                }
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            layers,
            width,
            positions: 0,
            capacity,
            whole: true,
        })
    }

    /// Bytes that the caches grow by with each position.
    pub fn bytes_per_position(&self) -> usize {
        let caches = self
            .layers
            .iter()
            .filter(|layer| matches!(layer, LayerState::Mla(_)));
        caches.count() * self.width * size_of::<f32>()
    }

    /// Positions that were fed.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Positions it was made for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether every layer has seen the same positions. A torn state can be neither fed nor saved.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Takes the state apart for a pass of `tokens` more positions.
    pub(super) fn tear(&mut self, tokens: usize) -> Result<(), Error> {
        if !self.whole {
            return Err(Error::Torn);
        }
        let needed = self.positions + tokens;
        if needed > self.capacity {
            return Err(Error::ContextFull {
                positions: self.capacity,
                needed,
            });
        }
        self.whole = false;
        Ok(())
    }

    /// Begins after so many positions, at most the capacity, whose values are about to be filled in.
    pub(super) fn restart(&mut self, positions: usize) {
        for layer in &mut self.layers {
            if let LayerState::Mla(cache) = layer {
                cache.rows.clear();
                cache.rows.resize(positions * self.width, 0.0);
            }
        }
        self.positions = positions;
    }

    /// The pass is through all layers.
    pub(super) fn mend(&mut self, tokens: usize) {
        self.positions += tokens;
        self.whole = true;
    }
}
