//! Kimi delta attention: a gated delta rule over a state of fixed size.

use rayon::prelude::*;

use super::compute::last_apart;
use super::dense::matrix;
use super::residual::vector;
use super::{Compute, Error, KdaState, Sources};
use crate::checkpoint::config::{Config, KdaShape};
use crate::checkpoint::names;
use crate::kernels;
use crate::stream::{Kernel, Space, StageId, Trunk, Walk};

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
    ) -> Result<Space, Error> {
        let KdaShape {
            heads, head_dim, ..
        } = self.shape;
        let width = self.shape.width();
        let tokens = x.len() / self.hidden;
        let space = |width| compute.space(tokens * width);
        let (mut q, mut k, mut v, mut z) =
            (space(width)?, space(width)?, space(width)?, space(width)?);
        let (mut low, mut beta) = (space(head_dim)?, space(heads)?);
        let mut g = compute.space(wanted * width)?;
        let last = last_apart(x, self.hidden, wanted);
        let mut room = compute.room(x, self.hidden)?;
        let x = compute.tokens(x, self.hidden, &mut room);
        let last = last.as_ref().unwrap_or(&x);
        compute.products(
            sources.trunk,
            self.stages.input,
            &mut [
                (&x, &mut q),
                (&x, &mut k),
                (&x, &mut v),
                (last, &mut g),
                (&x, &mut low),
                (&x, &mut beta),
            ],
        )?;
        drop(room);
        let mut room = compute.room(&low, head_dim)?;
        let low = compute.tokens(&low, head_dim, &mut room);
        compute.products(sources.trunk, self.stages.decay, &mut [(&low, &mut z)])?;
        drop(room);

        let mut gated = compute.meter.time(Kernel::Attention, || {
            let mut kept = None;
            if let Some(draft) = draft {
                draft.push(KdaInputs {
                    qkv: [q.to_vec(), k.to_vec(), v.to_vec()],
                    z: z.to_vec(),
                    beta: beta.to_vec(),
                });
                kept = Some(state.clone());
            }
            let state = kept.as_mut().unwrap_or(state);
            self.recur(compute, state, [&mut q, &mut k, &mut v], &z, &beta)
        })?;
        drop((q, k, v, z));
        let gated = &mut gated[(tokens - wanted) * width..];
        kernels::gate(compute.isa, gated, &g);
        let mut y = compute.space(wanted * self.hidden)?;
        let mut room = compute.room(gated, width)?;
        let gated = compute.tokens(gated, width, &mut room);
        compute.products(sources.trunk, self.stages.output, &mut [(&gated, &mut y)])?;
        Ok(y)
    }

    /// Moves `state` on by the first `tokens` of a draft, exactly as [`Self::forward`] would have.
    ///
    /// # Errors
    /// There is no memory; the state is torn then.
    pub fn commit(
        &self,
        compute: &Compute,
        state: &mut KdaState,
        mut inputs: KdaInputs,
        tokens: usize,
    ) -> Result<(), Error> {
        if tokens > 0 {
            let (width, heads) = (self.shape.width(), self.shape.heads);
            let qkv = inputs.qkv.each_mut().map(|x| &mut x[..tokens * width]);
            let (z, beta) = (&inputs.z[..tokens * width], &inputs.beta[..tokens * heads]);
            self.recur(compute, state, qkv, z, beta)?;
        }
        Ok(())
    }

    /// Convolution and delta rule, token by token, of inputs as [`KdaInputs`] has them. Gives what the heads read, normalised,
    /// `[tokens][width]`.
    fn recur(
        &self,
        compute: &Compute,
        state: &mut KdaState,
        mut qkv: [&mut [f32]; 3],
        z: &[f32],
        beta: &[f32],
    ) -> Result<Space, Error> {
        let KdaShape {
            heads,
            head_dim,
            gate_lower_bound,
            ..
        } = self.shape;
        let (isa, width) = (compute.isa, self.shape.width());
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
        let mut out = compute.space(tokens * width)?;
        let scale = 1.0 / (head_dim as f32).sqrt();
        out.par_chunks_mut(tokens * head_dim)
            .zip(state.recurrent.par_chunks_mut(head_dim * head_dim))
            .enumerate()
            .try_for_each(|(head, (out, state))| {
                let channels = head * head_dim..(head + 1) * head_dim;
                let rows = |all: &[f32]| -> Result<Space, Error> {
                    let mut rows = compute.space(tokens * head_dim)?;
                    let all = all.chunks_exact(width).map(|row| &row[channels.clone()]);
                    for (row, of_all) in rows.chunks_exact_mut(head_dim).zip(all) {
                        row.copy_from_slice(of_all);
                    }
                    Ok(rows)
                };
                let (mut q, mut k, v, mut alpha) = (rows(q)?, rows(k)?, rows(v)?, rows(z)?);
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
                let mut read = compute.space(tokens * head_dim)?;
                kernels::delta_steps(isa, state, &q, &k, &v, &alpha, &beta, &mut read);
                let outs = out.chunks_exact_mut(head_dim);
                for (out, read) in outs.zip(read.chunks_exact(head_dim)) {
                    kernels::rms_norm(isa, read, &self.out_norm, self.eps, out);
                }
                Ok::<(), Error>(())
            })?;
        by_token(compute, &out, tokens, head_dim)
    }
}

/// From `[heads][tokens][n]` to `[tokens][heads][n]`.
pub(super) fn by_token(
    compute: &Compute,
    by_head: &[f32],
    tokens: usize,
    n: usize,
) -> Result<Space, Error> {
    let heads = by_head.len() / (tokens * n);
    let mut out = compute.space(by_head.len())?;
    for (i, row) in out.chunks_exact_mut(n).enumerate() {
        let (token, head) = (i / heads, i % heads);
        row.copy_from_slice(&by_head[(head * tokens + token) * n..][..n]);
    }
    Ok(out)
}
