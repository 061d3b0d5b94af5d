//! The dense feed-forward network of the first layers.

use rayon::prelude::*;

use super::{Compute, Error, Sources};
use crate::checkpoint::config::{Config, Situ};
use crate::checkpoint::names;
use crate::kernels;
use crate::stream::{Space, StageId, Walk, WalkTensor};

/// Where its matrices stand in the walk.
#[derive(Clone, Copy, Debug)]
pub struct DenseStages {
    expand: StageId,
    down: StageId,
}

/// `down(situ(gate(x), up(x)))`.
pub struct Dense {
    stages: DenseStages,
    hidden: usize,
    inner: usize,
    situ: Situ,
}

/// A matrix of a layer as the walk knows it.
pub(super) fn matrix(layer: usize, suffix: &str, rows: usize, columns: usize) -> WalkTensor {
    WalkTensor {
        name: names::in_layer(layer, suffix),
        rows,
        columns,
        unit: 1,
    }
}

impl DenseStages {
    /// Appends a layer's matrices to the walk.
    pub fn plan(walk: &mut Walk, config: &Config, layer: usize) -> Self {
        let (hidden, inner) = (config.hidden, config.dense_inner);
        Self {
            expand: walk.push(vec![
                matrix(layer, names::MLP_GATE, inner, hidden),
                matrix(layer, names::MLP_UP, inner, hidden),
            ]),
            down: walk.push(vec![matrix(layer, names::MLP_DOWN, hidden, inner)]),
        }
    }
}

impl Dense {
    /// The network at these stages.
    pub fn new(stages: DenseStages, config: &Config) -> Self {
        Self {
            stages,
            hidden: config.hidden,
            inner: config.dense_inner,
            situ: config.situ,
        }
    }

    /// `x` and the result are `[tokens][hidden]`.
    ///
    /// # Errors
    /// The trunk fails.
    pub fn forward(
        &self,
        compute: &Compute,
        sources: &mut Sources<'_>,
        x: &[f32],
    ) -> Result<Space, Error> {
        let tokens = x.len() / self.hidden;
        let space = |width| compute.space(tokens * width);
        let (mut gate, mut up) = (space(self.inner)?, space(self.inner)?);
        let mut room = compute.room(x, self.hidden)?;
        let x = compute.tokens(x, self.hidden, &mut room);
        compute.products(
            sources.trunk,
            self.stages.expand,
            &mut [(&x, &mut gate), (&x, &mut up)],
        )?;
        drop(room);
        situ(compute, &mut gate, &up, self.situ);
        drop(up);
        let mut out = space(self.hidden)?;
        let mut room = compute.room(&gate, self.inner)?;
        let inner = compute.tokens(&gate, self.inner, &mut room);
        compute.products(sources.trunk, self.stages.down, &mut [(&inner, &mut out)])?;
        Ok(out)
    }
}

/// The activation over any number of values, in place in `gate`.
pub(super) fn situ(compute: &Compute, gate: &mut [f32], up: &[f32], bounds: Situ) {
    const TASK: usize = 2048;
    gate.par_chunks_mut(TASK)
        .zip(up.par_chunks(TASK))
        .for_each(|(gate, up)| {
            kernels::situ(compute.isa, gate, up, bounds.beta, bounds.linear_beta)
        });
}
