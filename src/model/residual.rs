//! The attention residual of a place in the network: how earlier streams are mixed into its input.

use rayon::prelude::*;

use super::{Compute, Error};
use crate::kernels;
use crate::stream::{Space, Trunk};

/// One mix.
#[derive(Clone, Debug)]
pub struct Residual {
    /// Norm weight times projection, element by element.
    fold: Vec<f32>,
    eps: f32,
}

impl Residual {
    /// Reads the norm's weight and the projection and folds them into one vector.
    ///
    /// # Errors
    /// A vector is missing, cannot be read or has another width.
    pub fn load(
        trunk: &mut dyn Trunk,
        norm: &str,
        proj: &str,
        width: usize,
        eps: f32,
    ) -> Result<Self, Error> {
        let norm = vector(trunk, norm, width)?;
        let proj = vector(trunk, proj, width)?;
        Ok(Self {
            fold: norm.iter().zip(&proj).map(|(n, p)| n * p).collect(),
            eps,
        })
    }

    /// Mixes the raw block snapshots, oldest first, and the running stream, per token. All are `[tokens][width]`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn mix(
        &self,
        compute: &Compute,
        blocks: &[Vec<f32>],
        stream: &[f32],
    ) -> Result<Space, Error> {
        let width = self.fold.len();
        let mut out = compute.space(stream.len())?;
        out.par_chunks_mut(width).enumerate().for_each(|(t, out)| {
            let row = |stream: &'_ [f32]| -> std::ops::Range<usize> {
                debug_assert!(stream.len() >= (t + 1) * width);
                t * width..(t + 1) * width
            };
            let mut sources: Vec<&[f32]> = blocks.iter().map(|b| &b[row(b)]).collect();
            sources.push(&stream[row(stream)]);
            kernels::mix(compute.isa, &sources, &self.fold, self.eps, out);
        });
        Ok(out)
    }
}

/// A small vector of the length that the configuration gives it.
pub(super) fn vector(trunk: &mut dyn Trunk, name: &str, want: usize) -> Result<Vec<f32>, Error> {
    let vector = trunk.vector(name)?;
    if vector.len() != want {
        return Err(Error::Vector {
            name: name.to_owned(),
            got: vector.len(),
            want,
        });
    }
    Ok(vector)
}

/// `rms_norm` of every row of `x`, `[tokens][weight.len()]`.
pub(super) fn norm_rows(
    compute: &Compute,
    x: &[f32],
    weight: &[f32],
    eps: f32,
) -> Result<Space, Error> {
    let mut y = compute.space(x.len())?;
    y.par_chunks_mut(weight.len())
        .zip(x.par_chunks(weight.len()))
        .for_each(|(y, x)| kernels::rms_norm(compute.isa, x, weight, eps, y));
    Ok(y)
}
