//! The latent mixture of experts: a router, routed experts in a narrow latent, a shared expert at full width.

use rayon::prelude::*;

use super::dense::{matrix, situ};
use super::experts::Dispatch;
use super::residual::{norm_rows, vector};
use super::{Compute, Error, Sources};
use crate::checkpoint::config::Config;
use crate::checkpoint::names;
use crate::kernels::{self, Choice};
use crate::stream::{Space, StageId, Trunk, Walk};

/// Where a mixture's matrices stand in the walk.
#[derive(Clone, Copy, Debug)]
pub struct MoeStages {
    router: StageId,
    /// The latent down-projection and the shared expert's gate and up.
    input: StageId,
    shared_down: StageId,
    latent_up: StageId,
}

/// One mixture: its small weights.
pub struct Moe {
    stages: MoeStages,
    layer: usize,
    bias: Vec<f32>,
    /// Norm of the experts' sum, where the model has one.
    norm: Option<Vec<f32>>,
}

/// What a mixture gives: its output, and the choice made for each token, best first.
pub struct Routed {
    /// `[tokens][hidden]`.
    pub output: Space,
    /// One list a token.
    pub choices: Vec<Vec<Choice>>,
}

impl MoeStages {
    /// Appends a layer's matrices to the walk.
    pub fn plan(walk: &mut Walk, config: &Config, layer: usize) -> Self {
        let (hidden, moe) = (config.hidden, &config.moe);
        Self {
            router: walk.push(vec![matrix(layer, names::ROUTER, moe.experts, hidden)]),
            input: walk.push(vec![
                matrix(layer, names::LATENT_DOWN, moe.latent, hidden),
                matrix(layer, names::SHARED_GATE, moe.shared_inner(), hidden),
                matrix(layer, names::SHARED_UP, moe.shared_inner(), hidden),
            ]),
            shared_down: walk.push(vec![matrix(
                layer,
                names::SHARED_DOWN,
                hidden,
                moe.shared_inner(),
            )]),
            latent_up: walk.push(vec![matrix(layer, names::LATENT_UP, hidden, moe.latent)]),
        }
    }
}

impl Moe {
    /// Reads the layer's small vectors.
    ///
    /// # Errors
    /// A vector is missing, cannot be read or has another length.
    pub fn load(
        stages: MoeStages,
        config: &Config,
        layer: usize,
        trunk: &mut dyn Trunk,
    ) -> Result<Self, Error> {
        let bias = vector(
            trunk,
            &names::in_layer(layer, names::ROUTER_BIAS),
            config.moe.experts,
        )?;
        let norm = match config.moe.latent_norm {
            true => Some(vector(
                trunk,
                &names::in_layer(layer, names::LATENT_NORM),
                config.moe.latent,
            )?),
            false => None,
        };
        Ok(Self {
            stages,
            layer,
            bias,
            norm,
        })
    }

    /// Feeds `x`, `[tokens][hidden]` and already normalised. The experts are requested as soon as they are chosen; what
    /// needs none of them is computed meanwhile.
    ///
    /// # Errors
    /// Trunk or experts fail.
    pub fn forward(
        &self,
        compute: &Compute,
        sources: &mut Sources<'_>,
        config: &Config,
        x: &[f32],
    ) -> Result<Routed, Error> {
        let (hidden, moe) = (config.hidden, &config.moe);
        let tokens = x.len() / hidden;
        let space = |width| compute.space(tokens * width);

        let mut room = compute.room(x, hidden)?;
        let x = compute.tokens(x, hidden, &mut room);
        let mut logits = space(moe.experts)?;
        compute.products(sources.trunk, self.stages.router, &mut [(&x, &mut logits)])?;
        let choices: Vec<Vec<Choice>> = logits
            .par_chunks_exact(moe.experts)
            .map(|logits| {
                let (isa, bias) = (compute.isa, &self.bias);
                kernels::route(isa, logits, bias, moe.top_k, moe.renormalize, moe.scaling)
            })
            .collect();
        let dispatch = Dispatch::new(&choices);
        sources.experts.request(self.layer, &dispatch.wanted())?;

        let (mut z, mut gate, mut up) = (
            space(moe.latent)?,
            space(moe.shared_inner())?,
            space(moe.shared_inner())?,
        );
        compute.products(
            sources.trunk,
            self.stages.input,
            &mut [(&x, &mut z), (&x, &mut gate), (&x, &mut up)],
        )?;
        drop(room);
        situ(compute, &mut gate, &up, config.situ);
        drop(up);
        let mut shared = space(hidden)?;
        let mut room = compute.room(&gate, moe.shared_inner())?;
        let inner = compute.tokens(&gate, moe.shared_inner(), &mut room);
        compute.products(
            sources.trunk,
            self.stages.shared_down,
            &mut [(&inner, &mut shared)],
        )?;
        drop((room, gate));

        let mut sum = dispatch.sum(compute, sources.experts, config, &z)?;
        if let Some(norm) = &self.norm {
            sum = norm_rows(compute, &sum, norm, config.norm_eps)?;
        }
        let mut output = space(hidden)?;
        let mut room = compute.room(&sum, moe.latent)?;
        let sum = compute.tokens(&sum, moe.latent, &mut room);
        compute.products(
            sources.trunk,
            self.stages.latent_up,
            &mut [(&sum, &mut output)],
        )?;
        kernels::add(compute.isa, &mut output, &shared);
        Ok(Routed { output, choices })
    }
}
