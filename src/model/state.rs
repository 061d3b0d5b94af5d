//! What the network carries from token to token.

use super::Error;
use crate::checkpoint::config::{Attention, Config, KdaShape};

/// The recurrent state of a KDA layer.
#[derive(Clone, Debug, PartialEq)]
pub struct KdaState {
    /// `[heads][keys][values]`.
    pub recurrent: Vec<f32>,
    /// Past raw inputs of the convolutions of q, k and v: `[kernel - 1][width]` each, oldest first.
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
    /// `[positions][latent + shared part]`. Capacity is reserved; pages become resident as positions are used.
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

/// What cannot be rolled back of a state, as it was after some positions: 464.6 MB on the release.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    recurrent: Vec<KdaState>,
    positions: usize,
}

impl Kept {
    /// Positions that the state had seen.
    pub fn positions(&self) -> usize {
        self.positions
    }
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

    /// Takes the last `tokens` positions back out of the caches, of a pass that is through all layers and not committed.
    pub(super) fn forget(&mut self, tokens: usize) {
        let width = self.width;
        for cache in self.caches() {
            let kept = cache.rows.len().saturating_sub(tokens * width);
            cache.rows.truncate(kept);
        }
    }

    fn caches(&mut self) -> impl Iterator<Item = &mut LatentCache> {
        self.layers.iter_mut().filter_map(|layer| match layer {
            LayerState::Mla(cache) => Some(cache),
            LayerState::Kda(_) => None,
        })
    }

    /// A copy to come back to. Only what cannot be rolled back is copied: the recurrent states. Cached positions are cut off
    /// again, which asks that the state has gone on from here ever since.
    ///
    /// # Errors
    /// The state is torn.
    pub fn keep(&self) -> Result<Kept, Error> {
        if !self.whole {
            return Err(Error::Torn);
        }
        let recurrent = self.layers.iter().filter_map(|layer| match layer {
            LayerState::Kda(state) => Some(state.clone()),
            LayerState::Mla(_) => None,
        });
        Ok(Kept {
            recurrent: recurrent.collect(),
            positions: self.positions,
        })
    }

    /// Goes back to `kept`, which must be a copy of this state from before its last positions. A torn state is whole then.
    ///
    /// # Errors
    /// [`Error::Torn`] if it is another network's, or lies ahead; the state is as it was.
    pub fn return_to(&mut self, kept: &Kept) -> Result<(), Error> {
        let width = self.width;
        let fits = self
            .caches()
            .all(|c| c.rows.len() >= kept.positions * width);
        let recurrent = self
            .layers
            .iter_mut()
            .filter_map(|layer| match layer {
                LayerState::Kda(state) => Some(state),
                LayerState::Mla(_) => None,
            })
            .collect::<Vec<_>>();
        if !fits || recurrent.len() != kept.recurrent.len() || self.positions < kept.positions {
            return Err(Error::Torn);
        }
        for (state, kept) in recurrent.into_iter().zip(&kept.recurrent) {
            state.clone_from(kept);
        }
        for cache in self.caches() {
            cache.rows.truncate(kept.positions * width);
        }
        (self.positions, self.whole) = (kept.positions, true);
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
