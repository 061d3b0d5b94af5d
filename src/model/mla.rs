//! Multi-head latent attention without positions, over a compressed cache, in absorbed form.

use rayon::prelude::*;

use super::compute::last_apart;
use super::dense::matrix;
use super::kda::by_token;
use super::residual::{norm_rows, vector};
use super::{Compute, Error, LatentCache, Sources, Through};
use crate::checkpoint::config::{Config, MlaShape};
use crate::checkpoint::names;
use crate::kernels::{self, QUERIES, QUERIES_TOGETHER};
use crate::stream::{Error as StreamError, Kernel, Space, StageId, Trunk, Walk, WalkTensor};

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

    /// Feeds `x`, `[tokens][hidden]` and already normalised, through the layer and appends its positions to `cache`. Gives
    /// the output of the last `wanted` tokens, `[wanted][hidden]`; the others are only looked at by these.
    ///
    /// # Errors
    /// The trunk fails; the cache is torn then.
    pub fn forward(
        &self,
        compute: &Compute,
        sources: &mut Sources<'_>,
        cache: &mut LatentCache,
        x: &[f32],
        wanted: usize,
    ) -> Result<Space, Error> {
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
        let space = |width| compute.space(wanted * width);

        let (mut q_low, mut gate) = (space(self.shape.q_rank)?, space(heads * v_dim)?);
        let mut kv = compute.space(tokens * width)?;
        let last = last_apart(x, self.hidden, wanted);
        let mut room = compute.room(x, self.hidden)?;
        let x = compute.tokens(x, self.hidden, &mut room);
        let last = last.as_ref().unwrap_or(&x);
        let mut through: Vec<Through> = vec![(last, &mut q_low), (&x, &mut kv)];
        if output_gate {
            through.push((last, &mut gate));
        }
        compute.products(sources.trunk, self.stages.input, &mut through)?;
        drop(room);

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

        let q_low = norm_rows(compute, &q_low, &self.q_norm, lora_norm_eps)?;
        let mut q = space(heads * q_dim)?;
        let mut room = compute.room(&q_low, self.shape.q_rank)?;
        let q_low = compute.tokens(&q_low, self.shape.q_rank, &mut room);
        compute.products(sources.trunk, self.stages.query, &mut [(&q_low, &mut q)])?;
        drop(room);

        let before = before + tokens - wanted;
        let out = self.attend(compute, sources.trunk, &cache.rows, before, &q)?;
        let mut out = by_token(compute, &out, wanted, v_dim)?;
        if output_gate {
            kernels::gate(isa, &mut out, &gate);
        }
        drop(gate);
        let mut y = space(self.hidden)?;
        let mut room = compute.room(&out, heads * v_dim)?;
        let out = compute.tokens(&out, heads * v_dim, &mut room);
        compute.products(sources.trunk, self.stages.output, &mut [(&out, &mut y)])?;
        Ok(y)
    }

    /// Every head over the cache. `q` is `[tokens][heads][nope + rope]`, token `t` sees positions up to `before + t`.
    /// Gives `[heads][tokens][v_dim]`.
    fn attend(
        &self,
        compute: &Compute,
        trunk: &mut dyn Trunk,
        cache: &[f32],
        before: usize,
        q: &[f32],
    ) -> Result<Space, Error> {
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
        let mut out = compute.space(heads * tokens * v_dim)?;
        let mut done = 0;
        while let Some(pieces) = trunk.pieces(self.stages.heads)? {
            for piece in pieces {
                let first = piece.rows.start / head_rows;
                let last = piece.rows.end / head_rows;
                let out = &mut out[first * tokens * v_dim..last * tokens * v_dim];
                // No more to a task than leaves something for every thread.
                let share = (last - first) * tokens / compute.threads();
                let share = share.next_multiple_of(QUERIES_TOGETHER);
                let share = share.clamp(QUERIES_TOGETHER, QUERIES);
                let head = |i: usize| {
                    piece
                        .weights
                        .rows(i * head_rows..(i + 1) * head_rows, kv_rank)
                };
                // Queries of one head and the next, token by token: a block of the cache that was fetched is used by all
                // of a task.
                let attend = |(task, out): (usize, &mut [f32])| {
                    let count = out.len() / v_dim;
                    let at = |i: usize| {
                        let query = task * share + i;
                        (query / tokens, query % tokens)
                    };
                    let mut queries = vec![0.0; count * width];
                    let mut latents = vec![0.0; count * kv_rank];
                    let mut seen = [0; QUERIES];
                    for (i, query) in queries.chunks_exact_mut(width).enumerate() {
                        let (h, t) = at(i);
                        let q = &q[(t * heads + first + h) * q_dim..][..q_dim];
                        let (absorbed, shared) = query.split_at_mut(kv_rank);
                        let keys = head(h).rows(0..nope_dim, kv_rank);
                        kernels::absorb(isa, keys, &q[..nope_dim], absorbed);
                        shared.copy_from_slice(&q[nope_dim..]);
                        seen[i] = before + t + 1;
                    }
                    let seen = &seen[..count];
                    kernels::attend_several(isa, &queries, seen, cache, scale, &mut latents);
                    let outs = latents
                        .chunks_exact(kv_rank)
                        .zip(out.chunks_exact_mut(v_dim));
                    for (i, (latent, out)) in outs.enumerate() {
                        let values = head(at(i).0).rows(nope_dim..head_rows, kv_rank);
                        kernels::matmul(isa, values, kv_rank, latent, out);
                    }
                };
                compute.meter.time(Kernel::Attention, || {
                    let tasks = out.par_chunks_mut(share * v_dim).enumerate();
                    tasks.for_each(attend);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::checkpoint::synth::{self, SynthOptions};
    use crate::checkpoint::{Checkpoint, Config};
    use crate::kernels::Isa;
    use crate::model::{Compute, Error, LayerState, Network, State, Want};

    /// One KDA and one MLA layer, as narrow as they can be.
    const NARROW: &str = r#"{
      "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "rms_norm_eps": 1e-5,
      "kda_num_heads": 2, "kda_head_dim": 16, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
      "num_attention_heads": 5, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
      "qk_rope_head_dim": 4, "v_head_dim": 8, "mla_use_output_gate": true,
      "num_experts": 4, "num_experts_per_token": 2, "num_shared_experts": 1,
      "routed_expert_hidden_size": 32, "moe_intermediate_size": 32, "routed_scaling_factor": 1.0,
      "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1, "intermediate_size": 32,
      "attn_res_block_size": 4, "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [2]
    }"#;

    #[test]
    fn the_last_positions_of_the_longest_context_are_the_same_in_a_chunk_and_alone() {
        const CAPACITY: usize = 131_072;
        const LAST: usize = 5;
        let dir = tempfile::tempdir().unwrap();
        synth::write(dir.path(), NARROW.as_bytes(), SynthOptions::default()).unwrap();
        let config = Config::load(&dir.path().join("config.json")).unwrap();
        let checkpoint = Arc::new(Checkpoint::open(dir.path(), config).unwrap());
        let compute = Compute::new(2, Isa::detect()).unwrap();
        let mut network = Network::open(&checkpoint, 2, compute).unwrap();
        // What came before is made up: feeding it would take attention over half of its square.
        let far = || -> State {
            let mut state = network.new_state(CAPACITY).unwrap();
            state.restart(CAPACITY - LAST);
            for layer in &mut state.layers {
                if let LayerState::Mla(cache) = layer {
                    for (i, v) in cache.rows.iter_mut().enumerate() {
                        *v = ((i * 37 % 1009) as f32 - 504.0) / 300.0;
                    }
                }
            }
            state
        };
        let (mut together, mut alone) = (far(), far());
        let ids = [1, 2, 3, 4, 5];
        let all = network.feed(&mut together, &ids, Want::All).unwrap();
        for (id, together) in ids.iter().zip(all.rows()) {
            let logits = network.feed(&mut alone, &[*id], Want::Last).unwrap();
            assert_eq!(logits.values(), together);
        }
        assert_eq!(together, alone);
        assert_eq!(together.positions(), CAPACITY);
        let full = network.feed(&mut together, &[6], Want::Last);
        assert!(matches!(full, Err(Error::ContextFull { .. })));
    }
}
