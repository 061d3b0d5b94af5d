//! What stands behind the seam while a plan is being changed, and after a change that failed: nothing.

use std::sync::Arc;

use super::{
    Error, ExpertCounters, ExpertWeights, Experts, Meters, PassPlan, Piece, StageId, Trunk,
    TrunkCounters, Wanted,
};

/// Trunk and experts of a network that has none. What was counted before stays.
pub struct Closed(pub Arc<Meters>);

impl Trunk for Closed {
    fn vector(&mut self, name: &str) -> Result<Vec<f32>, Error> {
        Err(Error::NoTensor(name.to_owned()))
    }

    fn embedding(&mut self, _: u32, _: &mut [f32]) -> Result<(), Error> {
        Err(Error::Closed)
    }

    fn begin(&mut self, _: PassPlan) -> Result<(), Error> {
        Err(Error::Closed)
    }

    fn pieces(&mut self, _: StageId) -> Result<Option<Vec<Piece<'_>>>, Error> {
        Err(Error::Closed)
    }

    fn counters(&self) -> TrunkCounters {
        self.0.trunk()
    }
}

impl Experts for Closed {
    fn request(&mut self, _: usize, _: &[Wanted]) -> Result<(), Error> {
        Err(Error::Closed)
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, Error> {
        Err(Error::Closed)
    }

    fn counters(&self) -> ExpertCounters {
        self.0.experts()
    }
}
