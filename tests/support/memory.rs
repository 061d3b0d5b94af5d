//! Trunk and experts out of tensors in memory: the tests' own sources behind the seam. Strict where the library's sources
//! are lenient: any step out of order fails the test.

use std::collections::BTreeSet;
use std::sync::Arc;

use k3::checkpoint::names::{self, ExpertPart};
use k3::kernels::Weights;
use k3::stream::{
    Error, ExpertCounters, ExpertWeights, Experts, PassPlan, Piece, Segment, StageId, Trunk,
    TrunkCounters, Walk, Wanted,
};

use super::draw::XorShift;
use super::tensors::Tensors;

/// A trunk that walks its segments over tensors in memory. It wants every vector asked for once and before the first
/// pass, every stage asked for in turn until it is through, and the head only in a pass that announced it.
pub struct MemoryTrunk {
    tensors: Arc<Tensors>,
    walk: Walk,
    segments: Vec<Segment>,
    vectors: BTreeSet<String>,
    pass: Option<PassPlan>,
    /// The next run: its segment, and its index in it.
    at: (usize, usize),
    /// The stage that may be asked for.
    stage: usize,
}

impl MemoryTrunk {
    /// Over a walk cut into segments of at most `limit` bytes, a matrix element counted as two.
    pub fn new(tensors: &Arc<Tensors>, walk: &Walk, limit: u64) -> Self {
        for tensor in walk.stages().iter().flatten() {
            let shape = &tensors.get(&tensor.name).shape;
            assert_eq!(shape, &[tensor.rows, tensor.columns], "{}", tensor.name);
        }
        Self {
            tensors: Arc::clone(tensors),
            walk: walk.clone(),
            segments: walk.segments(limit),
            vectors: BTreeSet::new(),
            pass: None,
            at: (0, 0),
            stage: 0,
        }
    }
}

impl Trunk for MemoryTrunk {
    fn vector(&mut self, name: &str) -> Result<Vec<f32>, Error> {
        assert!(
            self.pass.is_none(),
            "{name} is asked for after the first pass"
        );
        assert!(
            self.vectors.insert(name.to_owned()),
            "{name} is asked for twice"
        );
        let tensor = self.tensors.find(name);
        let tensor = tensor.ok_or_else(|| Error::NoTensor(name.to_owned()))?;
        Ok(tensor.floats())
    }

    fn embedding(&mut self, id: u32, row: &mut [f32]) -> Result<(), Error> {
        let matrix = self.tensors.get(names::EMBEDDING).weights();
        let id = id as usize;
        match matrix.rows(id..id + 1, row.len()) {
            Weights::F32(w) => row.copy_from_slice(w),
            Weights::Bf16(w) => {
                for (value, weight) in row.iter_mut().zip(w) {
                    *value = k3::kernels::widen(*weight);
                }
            }
            Weights::Mxfp4 { .. } => panic!("an embedding in MXFP4"),
        }
        Ok(())
    }

    fn begin(&mut self, plan: PassPlan) -> Result<(), Error> {
        self.pass = Some(plan);
        self.at = (0, 0);
        self.stage = 0;
        Ok(())
    }

    fn pieces(&mut self, stage: StageId) -> Result<Option<Vec<Piece<'_>>>, Error> {
        let pass = self.pass.expect("a pass has begun");
        assert_eq!(stage.0, self.stage, "the stage that is asked for");
        let is_head = |t: &k3::stream::WalkTensor| t.name == names::LM_HEAD;
        let head = self.walk.stages()[stage.0].iter().any(is_head);
        assert!(pass.head || !head, "this pass has no use for the head");

        let (mut index, mut first) = self.at;
        if self.segments.get(index).is_some_and(|s| first == s.len()) {
            (index, first) = (index + 1, 0);
        }
        let rest = self.segments.get(index).map_or(&[][..], |s| &s[first..]);
        let mut pieces = Vec::new();
        for run in rest.iter().take_while(|run| run.stage == stage) {
            let tensor = self.walk.tensor(run);
            let weights = self.tensors.get(&tensor.name).weights();
            pieces.push(Piece {
                tensor: run.tensor,
                rows: run.rows.clone(),
                weights: weights.rows(run.rows.clone(), tensor.columns),
            });
        }
        self.at = (index, first + pieces.len());
        if pieces.is_empty() {
            self.stage += 1;
            return Ok(None);
        }
        Ok(Some(pieces))
    }

    fn counters(&self) -> TrunkCounters {
        TrunkCounters::default()
    }
}

/// Name of one matrix of an expert whose weights are plain f32: `w1`, `w2` or `w3`.
pub fn plain_expert(layer: usize, expert: usize, matrix: &str) -> String {
    let suffix = format!("block_sparse_moe.experts.{expert}.{matrix}.weight");
    names::in_layer(layer, &suffix)
}

/// Experts out of tensors in memory, as f32 where there are such tensors ([`plain_expert`]), else as MXFP4. They arrive a
/// few at a time, in an order that a seed chooses.
pub struct MemoryExperts {
    tensors: Arc<Tensors>,
    draw: XorShift,
    layer: usize,
    /// What has not arrived: index in the request, and number.
    waiting: Vec<(usize, usize)>,
    counters: ExpertCounters,
}

impl MemoryExperts {
    pub fn new(tensors: &Arc<Tensors>, seed: u32) -> Self {
        Self {
            tensors: Arc::clone(tensors),
            draw: XorShift::new(seed),
            layer: 0,
            waiting: Vec::new(),
            counters: ExpertCounters::default(),
        }
    }

    fn weights(&self, expert: usize) -> ExpertWeights<'_> {
        let matrix = |name: &str, packed, scales| match self
            .tensors
            .find(&plain_expert(self.layer, expert, name))
        {
            Some(plain) => plain.weights(),
            None => Weights::Mxfp4 {
                packed: self
                    .tensors
                    .bytes(&names::expert(self.layer, expert, packed)),
                scales: self
                    .tensors
                    .bytes(&names::expert(self.layer, expert, scales)),
            },
        };
        ExpertWeights {
            gate: matrix("w1", ExpertPart::W1Packed, ExpertPart::W1Scale),
            up: matrix("w3", ExpertPart::W3Packed, ExpertPart::W3Scale),
            down: matrix("w2", ExpertPart::W2Packed, ExpertPart::W2Scale),
        }
    }
}

impl Experts for MemoryExperts {
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), Error> {
        let ascending = |pair: &[Wanted]| pair[0].expert < pair[1].expert;
        assert!(wanted.windows(2).all(ascending), "{wanted:?}");
        self.layer = layer;
        self.waiting = wanted.iter().map(|w| w.expert).enumerate().collect();
        self.counters.requests += wanted.len() as u64;
        Ok(())
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, Error> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        let count = 1 + self.draw.below(self.waiting.len());
        let mut chosen = Vec::new();
        for _ in 0..count {
            let at = self.draw.below(self.waiting.len());
            chosen.push(self.waiting.swap_remove(at));
        }
        let arrived = chosen
            .into_iter()
            .map(|(i, expert)| (i, self.weights(expert)));
        Ok(Some(arrived.collect()))
    }

    fn counters(&self) -> ExpertCounters {
        self.counters
    }
}
