//! Multi-head latent attention without positions, over a compressed cache, in absorbed form.

use rayon::prelude::*;

use super::dense::matrix;
use super::kda::by_token;
use super::residual::{norm_rows, vector};
use super::{Compute, Error, LatentCache, Sources};
use crate::checkpoint::config::{Config, MlaShape};
use crate::checkpoint::names;
use crate::kernels;
use crate::stream::{Error as StreamError, StageId, Trunk, Walk, WalkTensor};

/// Where an MLA layer's matrices stand in the walk.
#[derive(Clone, Copy, Debug)]
pub struct MlaStages {
    /// The low-rank down-projections of queries and of keys and values, and the gate: all of the layer's input.
    input: StageId,
    query: StageId,
    /// Keys and values, cut at head borders: a head is absorbed, attended and expanded while its rows are there.
    heads: StageId,
    output: StageId,
}

/// One MLA layer: its small weights.
pub struct Mla {
    stages: MlaStages,
    shape: MlaShape,
    hidden: usize,
    q_norm: Vec<f32>,
    kv_norm: Vec<f32>,
}

impl MlaStages {
    /// Appends a layer's matrices to the walk.
    pub fn plan(walk: &mut Walk, config: &Config, layer: usize) -> Self {
        let (hidden, mla) = (config.hidden, &config.mla);
        let mut input = vec![
            matrix(layer, names::Q_A_PROJ, mla.q_rank, hidden),
            matrix(layer, names::KV_A_PROJ, mla.cache_width(), hidden),
        ];
        if mla.output_gate {
            input.push(matrix(layer, names::G_PROJ, mla.heads * mla.v_dim, hidden));
        }
        let kv_b = WalkTensor {
            unit: mla.kv_b_head_rows(),
            ..matrix(
                layer,
                names::KV_B_PROJ,
                mla.heads * mla.kv_b_head_rows(),
                mla.kv_rank,
            )
        };
        Self {
            input: walk.push(input),
            query: walk.push(vec![matrix(
                layer,
                names::Q_B_PROJ,
                mla.heads * mla.q_dim(),
                mla.q_rank,
            )]),
            heads: walk.push(vec![kv_b]),
            output: walk.push(vec![matrix(
                layer,
                names::O_PROJ,
                hidden,
                mla.heads * mla.v_dim,
            )]),
        }
    }
}

impl Mla {
    /// Reads the layer's small vectors.
    ///
    /// # Errors
    /// A vector is missing, cannot be read or has another length.
    pub fn load(
        stages: MlaStages,
        config: &Config,
        layer: usize,
        trunk: &mut dyn Trunk,
    ) -> Result<Self, Error> {
        let shape = config.mla.clone();
        let q_norm = vector(
            trunk,
            &names::in_layer(layer, names::Q_A_NORM),
            shape.q_rank,
        )?;
        let kv_norm = vector(
            trunk,
            &names::in_layer(layer, names::KV_A_NORM),
            shape.kv_rank,
        )?;
        Ok(Self {
            stages,
            shape,
            hidden: config.hidden,
            q_norm,
            kv_norm,
        })
    }

    /// Feeds `x`, [tokens][hidden] and already normalised, through the layer and appends its positions to `cache`.
    ///
    /// # Errors
    /// The trunk fails; the cache is torn then.
    pub fn forward(
        &self,
        compute: &Compute,
        sources: &mut Sources<'_>,
        cache: &mut LatentCache,
        x: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let MlaShape {
            heads,
            kv_rank,
            v_dim,
            output_gate,
            lora_norm_eps,
            ..
        } = self.shape;
        let (isa, width, q_dim) = (compute.isa, self.shape.cache_width(), self.shape.q_dim());
        let tokens = x.len() / self.hidden;
        let zeros = |n: usize| vec![0.0f32; tokens * n];

        let (mut q_low, mut kv, mut gate) =
            (zeros(self.shape.q_rank), zeros(width), zeros(heads * v_dim));
        let mut outputs = vec![&mut q_low, &mut kv];
        if output_gate {
            outputs.push(&mut gate);
        }
        compute.products(
            sources.trunk,
            self.stages.input,
            self.hidden,
            x,
            &mut outputs,
        )?;

        // The norm covers the latent alone; the part that all heads share is kept raw.
        let before = cache.rows.len() / width;
        for kv in kv.chunks_exact(width) {
            let (latent, shared) = kv.split_at(kv_rank);
            let start = cache.rows.len();
            cache.rows.resize(start + kv_rank, 0.0);
            kernels::rms_norm(
                isa,
                latent,
                &self.kv_norm,
                lora_norm_eps,
                &mut cache.rows[start..],
            );
            cache.rows.extend_from_slice(shared);
        }

        let q_low = norm_rows(compute, &q_low, &self.q_norm, lora_norm_eps);
        let mut q = zeros(heads * q_dim);
        compute.products(
            sources.trunk,
            self.stages.query,
            self.shape.q_rank,
            &q_low,
            &mut [&mut q],
        )?;

        let out = self.attend(compute, sources.trunk, &cache.rows, before, &q)?;
        let mut out = by_token(&out, tokens, v_dim);
        if output_gate {
            kernels::gate(isa, &mut out, &gate);
        }
        let mut y = vec![0.0; x.len()];
        compute.products(
            sources.trunk,
            self.stages.output,
            heads * v_dim,
            &out,
            &mut [&mut y],
        )?;
        Ok(y)
    }

    /// Every head over the cache. `q` is [tokens][heads][nope + rope], token `t` sees positions up to `before + t`.
    /// Gives [heads][tokens][v_dim].
    fn attend(
        &self,
        compute: &Compute,
        trunk: &mut dyn Trunk,
        cache: &[f32],
        before: usize,
        q: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let MlaShape {
            heads,
            kv_rank,
            nope_dim,
            v_dim,
            ..
        } = self.shape;
        let (isa, width, q_dim) = (compute.isa, self.shape.cache_width(), self.shape.q_dim());
        let head_rows = self.shape.kv_b_head_rows();
        let tokens = q.len() / (heads * q_dim);
        let scale = 1.0 / (q_dim as f32).sqrt();
        let mut out = vec![0.0; heads * tokens * v_dim];
        let mut done = 0;
        while let Some(pieces) = trunk.pieces(self.stages.heads)? {
            for piece in pieces {
                let first = piece.rows.start / head_rows;
                let last = piece.rows.end / head_rows;
                let out = &mut out[first * tokens * v_dim..last * tokens * v_dim];
                out.par_chunks_mut(tokens * v_dim)
                    .enumerate()
                    .for_each(|(i, out)| {
                        let start = i * head_rows;
                        let keys = piece.weights.rows(start..start + nope_dim, kv_rank);
                        let values = piece
                            .weights
                            .rows(start + nope_dim..start + head_rows, kv_rank);
                        let mut query = vec![0.0; width];
                        let mut latent = vec![0.0; kv_rank];
                        for (t, out) in out.chunks_exact_mut(v_dim).enumerate() {
                            let q = &q[(t * heads + first + i) * q_dim..][..q_dim];
                            let (absorbed, shared) = query.split_at_mut(kv_rank);
                            kernels::absorb(isa, keys, &q[..nope_dim], absorbed);
                            shared.copy_from_slice(&q[nope_dim..]);
                            kernels::attend(
                                isa,
                                &query,
                                &cache[..(before + t + 1) * width],
                                scale,
                                &mut latent,
                            );
                            kernels::matmul(isa, values, kv_rank, &latent, out);
                        }
                    });
                done = last;
            }
        }
        if done < heads {
            let at = self.stages.heads.0;
            return Err(StreamError::OutOfStep {
                at: at + 1,
                asked: at,
            }
            .into());
        }
        Ok(out)
    }
}
