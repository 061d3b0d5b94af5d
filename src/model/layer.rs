//! One decoder layer: attention and feed-forward, each behind a norm and an attention residual.

use super::dense::{Dense, DenseStages};
use super::kda::{Kda, KdaInputs, KdaStages};
use super::mla::{Mla, MlaStages};
use super::moe::{Moe, MoeStages};
use super::residual::{Residual, norm_rows, vector};
use super::{Compute, Error, LayerState, Sources};
use crate::checkpoint::config::{Attention, Config};
use crate::checkpoint::names;
use crate::kernels::{self, Choice};
use crate::stream::{Trunk, Walk};

/// Where a layer's matrices stand in the walk.
#[derive(Clone, Copy, Debug)]
pub struct LayerStages {
    attention: AttentionStages,
    feed_forward: FeedForwardStages,
}

#[derive(Clone, Copy, Debug)]
enum AttentionStages {
    Kda(KdaStages),
    Mla(MlaStages),
}

#[derive(Clone, Copy, Debug)]
enum FeedForwardStages {
    Dense(DenseStages),
    Moe(MoeStages),
}

/// A layer's attention.
pub enum Attend {
    /// Recurrent.
    Kda(Kda),
    /// Over a cache.
    Mla(Mla),
}

/// A layer's feed-forward network.
pub enum FeedForward {
    /// One network for all.
    Dense(Dense),
    /// A mixture of experts.
    Moe(Moe),
}

/// One decoder layer.
pub struct Layer {
    index: usize,
    attention: Attend,
    feed_forward: FeedForward,
    input_norm: Vec<f32>,
    post_norm: Vec<f32>,
    attention_residual: Residual,
    feed_forward_residual: Residual,
}

/// A chunk of tokens between two layers.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The residual stream, `[tokens][hidden]`.
    pub stream: Vec<f32>,
    /// Its snapshots at block borders, oldest first; they live within a pass only.
    pub blocks: Vec<Vec<f32>>,
    /// What the recurrent layers took in, one after the other, if it is not known yet how many of the tokens stand. Their
    /// states are not moved then, see [`Kda::forward`].
    pub draft: Option<Vec<KdaInputs>>,
}

impl Flow {
    /// Drops the first tokens, so that the last `values` of each place are left.
    pub fn keep_last(&mut self, values: usize) {
        for rows in self.blocks.iter_mut().chain([&mut self.stream]) {
            rows.drain(..rows.len().saturating_sub(values));
        }
    }
}

impl LayerStages {
    /// Appends a layer's matrices to the walk, in order of use.
    pub fn plan(walk: &mut Walk, config: &Config, layer: usize) -> Self {
        let attention = match config.attention[layer] {
            Attention::Kda => AttentionStages::Kda(KdaStages::plan(walk, config, layer)),
            Attention::Mla => AttentionStages::Mla(MlaStages::plan(walk, config, layer)),
        };
        let feed_forward = match config.is_dense(layer) {
            true => FeedForwardStages::Dense(DenseStages::plan(walk, config, layer)),
            false => FeedForwardStages::Moe(MoeStages::plan(walk, config, layer)),
        };
        Self {
            attention,
            feed_forward,
        }
    }
}

impl Layer {
    /// Reads the layer's small vectors.
    ///
    /// # Errors
    /// A vector is missing, cannot be read or has another length.
    pub fn load(
        stages: LayerStages,
        config: &Config,
        index: usize,
        trunk: &mut dyn Trunk,
    ) -> Result<Self, Error> {
        let attention = match stages.attention {
            AttentionStages::Kda(stages) => Attend::Kda(Kda::load(stages, config, index, trunk)?),
            AttentionStages::Mla(stages) => Attend::Mla(Mla::load(stages, config, index, trunk)?),
        };
        let feed_forward = match stages.feed_forward {
            FeedForwardStages::Dense(stages) => FeedForward::Dense(Dense::new(stages, config)),
            FeedForwardStages::Moe(stages) => {
                FeedForward::Moe(Moe::load(stages, config, index, trunk)?)
            }
        };
        let (width, eps) = (config.hidden, config.norm_eps);
        let name = |suffix| names::in_layer(index, suffix);
        let mut residual = |norm, proj| Residual::load(trunk, &name(norm), &name(proj), width, eps);
        let attention_residual = residual(names::ATTN_RES_NORM, names::ATTN_RES_PROJ)?;
        let feed_forward_residual = residual(names::MLP_RES_NORM, names::MLP_RES_PROJ)?;
        Ok(Self {
            index,
            attention,
            feed_forward,
            input_norm: vector(trunk, &name(names::INPUT_NORM), width)?,
            post_norm: vector(trunk, &name(names::POST_NORM), width)?,
            attention_residual,
            feed_forward_residual,
        })
    }

    /// Moves a chunk of tokens through the layer. At a block border a snapshot of the stream is added, and the stream starts
    /// anew from the attention's output. Only the last `wanted` tokens go all the way, and the others leave the flow: what
    /// they put into the state is all that they are good for in the last layer. Gives the experts that each of these tokens
    /// chose, best first; nothing of a dense layer.
    ///
    /// # Errors
    /// Trunk or experts fail; the state is torn then.
    pub fn forward(
        &self,
        compute: &Compute,
        sources: &mut Sources<'_>,
        config: &Config,
        state: &mut LayerState,
        flow: &mut Flow,
        wanted: usize,
    ) -> Result<Vec<Vec<Choice>>, Error> {
        let Flow {
            stream,
            blocks,
            draft,
        } = flow;
        let norm = |x: &[f32], weight| norm_rows(compute, x, weight, config.norm_eps);
        let mut x = match blocks.is_empty() {
            true => norm(stream, &self.input_norm)?,
            false => {
                let mixed = self.attention_residual.mix(compute, blocks, stream)?;
                norm(&mixed, &self.input_norm)?
            }
        };
        let border = self.index.is_multiple_of(config.block);
        if border {
            // The raw stream, not what was mixed for the attention.
            blocks.push(std::mem::take(stream));
        }
        let attended = match (&self.attention, state) {
            (Attend::Kda(kda), LayerState::Kda(state)) => {
                kda.forward(compute, sources, state, &x, wanted, draft.as_mut())?
            }
            (Attend::Mla(mla), LayerState::Mla(cache)) => {
                mla.forward(compute, sources, cache, &x, wanted)?
            }
            // A state of another model.
            _ => return Err(Error::Torn),
        };
        flow.keep_last(attended.len());
        let Flow { stream, blocks, .. } = flow;
        if border {
            *stream = attended.to_vec();
        } else {
            kernels::add(compute.isa, stream, &attended);
        }
        drop(attended);
        x = self.feed_forward_residual.mix(compute, blocks, stream)?;
        x = norm(&x, &self.post_norm)?;
        let (output, choices) = match &self.feed_forward {
            FeedForward::Dense(dense) => (dense.forward(compute, sources, &x)?, Vec::new()),
            FeedForward::Moe(moe) => {
                let routed = moe.forward(compute, sources, config, &x)?;
                (routed.output, routed.choices)
            }
        };
        kernels::add(compute.isa, stream, &output);
        Ok(choices)
    }

    /// What moves the layer's state if it is recurrent.
    pub fn recurrent(&self) -> Option<&Kda> {
        match &self.attention {
            Attend::Kda(kda) => Some(kda),
            Attend::Mla(_) => None,
        }
    }
}
