//! Kimi delta attention: a gated delta rule over a state of fixed size.

use rayon::prelude::*;

use super::dense::matrix;
use super::residual::vector;
use super::{Compute, Error, KdaState, Sources};
use crate::checkpoint::config::{Config, KdaShape};
use crate::checkpoint::names;
use crate::kernels;
use crate::stream::{Kernel, StageId, Trunk, Walk};

/// Where a KDA layer's matrices stand in the walk.
#[derive(Clone, Copy, Debug)]
pub struct KdaStages {
    /// q, k, v, gate, the decay's down-projection, beta: all of the layer's input.
    input: StageId,
    /// The decay's up-projection.
    decay: StageId,
    output: StageId,
}

/// All that a layer's state takes in from some tokens. The state cannot be rolled back, so while it is not known how many of
/// the tokens stand, this is kept and the state is not moved.
#[derive(Clone, Debug)]
pub struct KdaInputs {
    /// Raw inputs of the convolutions of q, k and v, `[tokens][width]` each.
    qkv: [Vec<f32>; 3],
    /// The decay's inputs, `[tokens][width]`.
    z: Vec<f32>,
    /// How strongly each head writes, before its sigmoid, `[tokens][heads]`.
    beta: Vec<f32>,
}

/// One KDA layer: its small weights.
pub struct Kda {
    stages: KdaStages,
    shape: KdaShape,
    hidden: usize,
    eps: f32,
    /// Convolution taps of q, k and v, `[kernel][width]`, oldest first.
    taps: [Vec<f32>; 3],
    /// One a head. The checkpoint pads it with zeros to `head_dim`.
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    out_norm: Vec<f32>,
}

impl KdaStages {
    /// Appends a layer's matrices to the walk.
    pub fn plan(walk: &mut Walk, config: &Config, layer: usize) -> Self {
        let (hidden, width) = (config.hidden, config.kda.width());
        Self {
            input: walk.push(vec![
                matrix(layer, names::Q_PROJ, width, hidden),
                matrix(layer, names::K_PROJ, width, hidden),
                matrix(layer, names::V_PROJ, width, hidden),
                matrix(layer, names::G_PROJ, width, hidden),
                matrix(layer, names::F_A_PROJ, config.kda.head_dim, hidden),
                matrix(layer, names::B_PROJ, config.kda.heads, hidden),
            ]),
            decay: walk.push(vec![matrix(
                layer,
                names::F_B_PROJ,
                width,
                config.kda.head_dim,
            )]),
            output: walk.push(vec![matrix(layer, names::O_PROJ, hidden, width)]),
        }
    }
}

impl Kda {
    /// Reads the layer's small vectors.
    ///
    /// # Errors
    /// A vector is missing, cannot be read or has another length.
    pub fn load(
        stages: KdaStages,
        config: &Config,
        layer: usize,
        trunk: &mut dyn Trunk,
    ) -> Result<Self, Error> {
        let shape = config.kda.clone();
        let mut small = |suffix, want| vector(trunk, &names::in_layer(layer, suffix), want);
        let width = shape.width();
        let mut taps = |suffix| -> Result<Vec<f32>, Error> {
            let by_channel = small(suffix, width * shape.conv_kernel)?;
            let tap = |i: usize| by_channel[i % width * shape.conv_kernel + i / width];
            Ok((0..by_channel.len()).map(tap).collect())
        };
        let taps = [
            taps(names::Q_CONV)?,
            taps(names::K_CONV)?,
            taps(names::V_CONV)?,
        ];
        let mut a_log = small(names::A_LOG, shape.head_dim)?;
        a_log.truncate(shape.heads);
        let dt_bias = small(names::DT_BIAS, width)?;
        let out_norm = small(names::O_NORM, shape.head_dim)?;
        Ok(Self {
            stages,
            shape,
            hidden: config.hidden,
            eps: config.norm_eps,
            taps,
            a_log,
            dt_bias,
            out_norm,
        })
    }

    /// Feeds `x`, `[tokens][hidden]` and already normalised, through the layer and moves `state` on. With a `draft` the
    /// state stays as it is, and what would have moved it is appended there. Gives the output of the last `wanted` tokens,
    /// `[wanted][hidden]`.
    ///
    /// # Errors
    /// The trunk fails; the state is torn then.
    pub fn forward(
        &self,
        compute: &Compute,
        sources: &mut Sources<'_>,
        state: &mut KdaState,
        x: &[f32],
        wanted: usize,
        draft: Option<&mut Vec<KdaInputs>>,
    ) -> Result<Vec<f32>, Error> {
        let KdaShape {
            heads, head_dim, ..
        } = self.shape;
        let width = self.shape.width();
        let tokens = x.len() / self.hidden;
        let zeros = |n: usize| vec![0.0f32; tokens * n];
        let (mut q, mut k, mut v, mut z) = (zeros(width), zeros(width), zeros(width), zeros(width));
        let (mut low, mut beta) = (zeros(head_dim), zeros(heads));
        let mut g = vec![0.0; wanted * width];
        let x = compute.chunk(x, self.hidden, wanted);
        compute.products(
            sources.trunk,
            self.stages.input,
            &mut [
                (&x.all, &mut q),
                (&x.all, &mut k),
                (&x.all, &mut v),
                (x.last(), &mut g),
                (&x.all, &mut low),
                (&x.all, &mut beta),
            ],
        )?;
        drop(x);
        let low = compute.tokens(&low, head_dim);
        compute.products(sources.trunk, self.stages.decay, &mut [(&low, &mut z)])?;

        let inputs = KdaInputs {
            qkv: [q, k, v],
            z,
            beta,
        };
        let mut gated = compute.meter.time(Kernel::Attention, || match draft {
            None => self.recur(compute, state, inputs),
            Some(draft) => {
                draft.push(inputs.clone());
                self.recur(compute, &mut state.clone(), inputs)
            }
        });
        let gated = &mut gated[(tokens - wanted) * width..];
        kernels::gate(compute.isa, gated, &g);
        let mut y = vec![0.0; wanted * self.hidden];
        let gated = compute.tokens(gated, width);
        compute.products(sources.trunk, self.stages.output, &mut [(&gated, &mut y)])?;
        Ok(y)
    }

    /// Moves `state` on by the first `tokens` of a draft, exactly as [`Self::forward`] would have.
    pub fn commit(
        &self,
        compute: &Compute,
        state: &mut KdaState,
        mut inputs: KdaInputs,
        tokens: usize,
    ) {
        let (width, heads) = (self.shape.width(), self.shape.heads);
        inputs
            .qkv
            .iter_mut()
            .for_each(|x| x.truncate(tokens * width));
        inputs.z.truncate(tokens * width);
        inputs.beta.truncate(tokens * heads);
        if tokens > 0 {
            self.recur(compute, state, inputs);
        }
    }

    /// Convolution and delta rule, token by token. Gives what the heads read, normalised, `[tokens][width]`.
    fn recur(&self, compute: &Compute, state: &mut KdaState, inputs: KdaInputs) -> Vec<f32> {
        let KdaShape {
            heads,
            head_dim,
            gate_lower_bound,
            ..
        } = self.shape;
        let (isa, width) = (compute.isa, self.shape.width());
        let KdaInputs { mut qkv, z, beta } = inputs;
        let tokens = z.len() / width;
        qkv.par_iter_mut()
            .zip(&self.taps)
            .zip(&mut state.history)
            .for_each(|((x, taps), history)| {
                for x in x.chunks_exact_mut(width) {
                    kernels::short_conv(isa, taps, history, x);
                }
            });
        let [q, k, v] = qkv;

        // Heads are independent; each walks its tokens in order. `out` is [heads][tokens][head_dim].
        let mut out = vec![0.0; tokens * width];
        let scale = 1.0 / (head_dim as f32).sqrt();
        out.par_chunks_mut(tokens * head_dim)
            .zip(state.recurrent.par_chunks_mut(head_dim * head_dim))
            .enumerate()
            .for_each(|(head, (out, state))| {
                let channels = head * head_dim..(head + 1) * head_dim;
                let rows = |all: &[f32]| -> Vec<f32> {
                    let rows = all.chunks_exact(width).map(|row| &row[channels.clone()]);
                    rows.collect::<Vec<_>>().concat()
                };
                let (mut q, mut k, v, mut alpha) = (rows(&q), rows(&k), rows(&v), rows(&z));
                let bias = &self.dt_bias[channels.clone()];
                for t in 0..tokens {
                    let of = t * head_dim..(t + 1) * head_dim;
                    kernels::l2_norm(isa, &mut q[of.clone()], scale);
                    kernels::l2_norm(isa, &mut k[of.clone()], 1.0);
                    let alpha = &mut alpha[of];
                    kernels::decay(isa, alpha, self.a_log[head], bias, gate_lower_bound);
                }
                let beta = beta.iter().skip(head).step_by(heads);
                let beta: Vec<f32> = beta.map(|beta| kernels::sigmoid(*beta)).collect();
                let mut read = vec![0.0; tokens * head_dim];
                kernels::delta_steps(isa, state, &q, &k, &v, &alpha, &beta, &mut read);
                let outs = out.chunks_exact_mut(head_dim);
                for (out, read) in outs.zip(read.chunks_exact(head_dim)) {
                    kernels::rms_norm(isa, read, &self.out_norm, self.eps, out);
                }
            });
        by_token(&out, tokens, head_dim)
    }
}

/// From `[heads][tokens][n]` to `[tokens][heads][n]`.
pub(super) fn by_token(by_head: &[f32], tokens: usize, n: usize) -> Vec<f32> {
    let heads = by_head.len() / (tokens * n);
    let mut out = Vec::with_capacity(by_head.len());
    for t in 0..tokens {
        for head in 0..heads {
            out.extend_from_slice(&by_head[(head * tokens + t) * n..][..n]);
        }
    }
    out
}
