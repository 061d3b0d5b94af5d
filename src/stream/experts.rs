//! The seam to the routed experts: what a layer asks for, and how it is handed out.

use super::Error;
use crate::checkpoint::layout::ExpertLayout;
use crate::checkpoint::names::ExpertPart;
use crate::kernels::Weights;

/// A request for one expert of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Expert number.
    pub expert: usize,
    /// Its place in the choice of the last token that chose it, 0 the best: what predicts that it is wanted again.
    pub rank: usize,
    /// Tokens of the chunk after that one.
    pub ago: usize,
}

/// The three matrices of an expert that is in memory now.
#[derive(Clone, Copy, Debug)]
pub struct ExpertWeights<'a> {
    /// `w1`, `[inner][latent]`.
    pub gate: Weights<'a>,
    /// `w3`, `[inner][latent]`.
    pub up: Weights<'a>,
    /// `w2`, `[latent][inner]`.
    pub down: Weights<'a>,
}

impl<'a> ExpertWeights<'a> {
    /// The matrices of an expert whose six parts stand in `bytes` in canonical order.
    pub fn in_run(bytes: &'a [u8], layout: &ExpertLayout) -> Self {
        let matrix = |packed, scales| Weights::Mxfp4 {
            packed: &bytes[layout.part(packed).range()],
            scales: &bytes[layout.part(scales).range()],
        };
        Self {
            gate: matrix(ExpertPart::W1Packed, ExpertPart::W1Scale),
            up: matrix(ExpertPart::W3Packed, ExpertPart::W3Scale),
            down: matrix(ExpertPart::W2Packed, ExpertPart::W2Scale),
        }
    }
}

/// What was asked and what it cost, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpertCounters {
    /// Experts asked for.
    pub requests: u64,
    /// Their bytes.
    pub bytes_requested: u64,
    /// Bytes that were read for them.
    pub bytes_read: u64,
    /// Experts that could not be read.
    pub drops: u64,
}

/// Gives routed experts, a layer at a time.
pub trait Experts: Send {
    /// Asks for experts of a layer, in ascending number, each once. Returns before they are there. What an earlier
    /// request has not handed out is forgotten.
    ///
    /// # Errors
    /// There is no such expert.
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), Error>;

    /// Waits for requested experts and hands out those that are there, each once, in any order: pairs of the index in
    /// the request and the weights. Nothing when all were handed out.
    ///
    /// # Errors
    /// An expert cannot be read, after retries ([`Error::Expert`]).
    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, Error>;

    /// Counts so far.
    fn counters(&self) -> ExpertCounters;
}
