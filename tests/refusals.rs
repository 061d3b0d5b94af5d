//! What a network refuses, what it says, and that nothing is lost by it: a state that was not touched goes on, a torn one
//! is never used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k3::checkpoint::names;
use k3::model::{Blueprint, Compute, Error, Network, State, Want};
use k3::stream::{Error as StreamError, ExpertCounters, ExpertWeights, Experts, Wanted};
use support::compare::bits;
use support::memory::{MemoryExperts, MemoryTrunk};
use support::models::state_bits;
use support::tensors::{Tensor, Tensors};
use support::*;

const MODEL: &str = "tiny-b";
const PROMPT: [u32; 6] = [5, 17, 3, 44, 20, 8];

fn tiny() -> Network {
    network(&fixtures().join(MODEL))
}

/// A network over the model's tensors, some of them changed, and other experts.
fn tiny_over(tensors: Tensors, experts: impl FnOnce(MemoryExperts) -> Box<dyn Experts>) -> Network {
    let config = checkpoint(&fixtures().join(MODEL)).config().clone();
    let blueprint = Blueprint::new(config, usize::MAX);
    let tensors = Arc::new(tensors);
    let trunk = MemoryTrunk::new(&tensors, &blueprint.walk, 3000);
    let experts = experts(MemoryExperts::new(&tensors, 3));
    let compute = Compute::new(2, k3::kernels::Isa::detect()).unwrap();
    Network::new(blueprint, Box::new(trunk), experts, compute).unwrap()
}

fn tensors() -> Tensors {
    Tensors::read_checkpoint(&fixtures().join(MODEL))
}

/// Experts whose reads fail in one layer while a switch is on, after some have arrived.
struct Failing {
    inner: MemoryExperts,
    layer: usize,
    now: usize,
    handed_out: bool,
    switch: Arc<AtomicBool>,
}

impl Experts for Failing {
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), StreamError> {
        self.now = layer;
        self.handed_out = false;
        self.inner.request(layer, wanted)
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, StreamError> {
        let failing = self.now == self.layer && self.switch.load(Ordering::Relaxed);
        if failing && self.handed_out {
            return Err(StreamError::NoTensor("an expert on purpose".to_owned()));
        }
        self.handed_out = true;
        self.inner.arrived()
    }

    fn counters(&self) -> ExpertCounters {
        self.inner.counters()
    }
}

/// That `state` refuses to be fed.
fn is_refused(network: &mut Network, state: &mut State) {
    assert!(!state.is_whole());
    let refused = network.feed(state, &PROMPT[..1], Want::Last);
    assert!(matches!(refused, Err(Error::Torn)), "{refused:?}");
    let refused = network.feed(state, &[], Want::Nothing);
    assert!(matches!(refused, Err(Error::Torn)), "{refused:?}");
}

#[test]
fn a_state_whose_pass_failed_half_way_refuses_and_a_kept_copy_goes_on() {
    let mut whole = tiny();
    let mut want_state = whole.new_state(8).unwrap();
    let want = whole.feed(&mut want_state, &PROMPT, Want::Last).unwrap();

    let switch = Arc::new(AtomicBool::new(false));
    let mut network = tiny_over(tensors(), |inner| {
        Box::new(Failing {
            inner,
            layer: 4,
            now: 0,
            handed_out: false,
            switch: Arc::clone(&switch),
        })
    });
    let mut state = network.new_state(8).unwrap();
    let (first, rest) = PROMPT.split_at(2);
    network.feed(&mut state, first, Want::Nothing).unwrap();
    let kept = state.clone();

    switch.store(true, Ordering::Relaxed);
    let failed = network.feed(&mut state, rest, Want::Last);
    assert!(
        matches!(failed, Err(Error::Stream(StreamError::NoTensor(_)))),
        "{failed:?}"
    );
    assert_eq!(state.positions(), 2);
    is_refused(&mut network, &mut state);

    switch.store(false, Ordering::Relaxed);
    is_refused(&mut network, &mut state);
    let mut state = kept;
    let got = network.feed(&mut state, rest, Want::Last).unwrap();
    assert_eq!(bits(got.values()), bits(want.values()));
    assert_eq!(state_bits(&state), state_bits(&want_state));
}

#[test]
fn a_state_in_the_middle_of_a_pass_refuses_another() {
    let mut network = tiny();
    let mut state = network.new_state(8).unwrap();
    let mut pass = network.begin(&mut state, &PROMPT, Want::Last).unwrap();
    is_refused(&mut network, &mut state);
    network.advance(&mut pass, &mut state).unwrap();
    let early = network.finish(pass, &mut state);
    assert!(matches!(early, Err(Error::Torn)), "{early:?}");
    is_refused(&mut network, &mut state);
}

#[test]
fn a_full_context_is_refused_and_the_state_stays_as_it_was() {
    let mut network = tiny();
    let mut state = network.new_state(4).unwrap();
    network
        .feed(&mut state, &PROMPT[..3], Want::Nothing)
        .unwrap();
    let before = state_bits(&state);
    let refused = network.feed(&mut state, &PROMPT[3..5], Want::Last);
    let Err(Error::ContextFull { positions, needed }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((positions, needed), (4, 5));
    assert_eq!(state_bits(&state), before);
    network.feed(&mut state, &PROMPT[3..4], Want::Last).unwrap();
    assert_eq!((state.positions(), state.capacity()), (4, 4));
}

#[test]
fn an_id_outside_the_vocabulary_is_refused_and_the_state_stays_as_it_was() {
    let mut network = tiny();
    let vocab = network.config().vocab;
    let mut state = network.new_state(8).unwrap();
    network
        .feed(&mut state, &PROMPT[..3], Want::Nothing)
        .unwrap();
    let before = state_bits(&state);
    for bad in [vocab as u32, u32::MAX] {
        let refused = network.feed(&mut state, &[1, bad], Want::Last);
        let Err(error @ Error::Id { id, vocab: ids }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((id, ids), (bad, vocab));
        assert!(error.to_string().contains(&bad.to_string()));
        assert_eq!(state_bits(&state), before);
    }
    let last = [vocab as u32 - 1];
    network.feed(&mut state, &last, Want::Last).unwrap();
}

#[test]
fn no_tokens_are_no_pass() {
    let mut network = tiny();
    let mut state = network.new_state(8).unwrap();
    network.feed(&mut state, &PROMPT, Want::Nothing).unwrap();
    let before = state_bits(&state);
    for want in [Want::Nothing, Want::Last, Want::All] {
        let logits = network.feed(&mut state, &[], want).unwrap();
        assert!(logits.last().is_none());
        let logits = network.prefill(&mut state, &[], 64, want).unwrap();
        assert!(logits.last().is_none());
        assert_eq!(state_bits(&state), before);
    }
}

#[test]
fn logits_that_are_not_finite_are_refused_at_their_position() {
    let hidden = checkpoint(&fixtures().join(MODEL)).config().hidden;
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let damaged = |name: &str, at: usize| {
            let mut tensors = tensors();
            let shape = tensors.get(name).shape.clone();
            let mut values = tensors.floats(name);
            values[at] = bad;
            tensors.replace(name, Tensor::f32(&shape, values));
            tiny_over(tensors, |experts| Box::new(experts))
        };
        // The embedding of the fourth token, which earlier positions do not see.
        let embedding = damaged(names::EMBEDDING, PROMPT[3] as usize * hidden);
        // One row of the head: every position.
        let head = damaged(names::LM_HEAD, 7 * hidden + 1);
        let norm = damaged(names::FINAL_NORM, 0);
        for (mut network, want, position) in [
            (embedding, Want::All, 3),
            (head, Want::Last, 5),
            (norm, Want::All, 0),
        ] {
            let mut state = network.new_state(8).unwrap();
            let refused = network.feed(&mut state, &PROMPT, want);
            let Err(Error::NotFinite { position: at }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(at, position);
            is_refused(&mut network, &mut state);
        }
    }
}

/// A copy of the model whose files may be damaged.
fn copied(folder: &Path) {
    for file in std::fs::read_dir(fixtures().join(MODEL)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
}

#[test]
fn an_expert_that_cannot_be_read_ends_the_pass_and_names_itself() {
    let folder = tempfile::tempdir().unwrap();
    copied(folder.path());
    let checkpoint = checkpoint(folder.path());
    let layer = checkpoint.config().layers() - 1;
    let shard = checkpoint.expert(layer, 0).unwrap().shard;
    let embedding = *checkpoint.tensor(names::EMBEDDING).unwrap();
    assert_ne!(embedding.shard, shard, "the embedding stays readable");
    let path = checkpoint.shard_path(shard).to_owned();
    let mut network = network(folder.path());
    let mut state = network.new_state(8).unwrap();
    let want = network.feed(&mut state, &PROMPT, Want::Last).unwrap();

    // The trunk is in memory by now; the shard loses everything but its first bytes.
    let content = std::fs::read(&path).unwrap();
    std::fs::write(&path, &content[..16]).unwrap();
    let mut state = network.new_state(8).unwrap();
    let failed = network.feed(&mut state, &PROMPT, Want::Last);
    let Err(Error::Stream(error @ StreamError::Expert { .. })) = failed else {
        panic!("{failed:?}");
    };
    let message = error.to_string();
    let file = path.file_name().unwrap().to_str().unwrap();
    assert!(message.starts_with("expert "), "{message}");
    assert!(message.contains(file), "{message}");
    assert_eq!(network.expert_counters().drops, 1);
    is_refused(&mut network, &mut state);

    // With the file back, the same network goes on.
    std::fs::write(&path, &content).unwrap();
    let mut state = network.new_state(8).unwrap();
    let got = network.feed(&mut state, &PROMPT, Want::Last).unwrap();
    assert_eq!(bits(got.values()), bits(want.values()));
    assert_eq!(network.expert_counters().drops, 1);
}
