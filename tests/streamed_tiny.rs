//! A checkpoint on disk whose values follow from its tensors' names, end to end: opened and checked as it is, its tokens
//! another engine's. MLA norms with eps 1e-5.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;

use k3::checkpoint::{Checkpoint, Config};
use k3::kernels::{Isa, argmax};
use k3::model::{Compute, Network, Want};
use support::compare::Tolerance;
use support::*;

const PROMPT: [u32; 5] = [3, 7, 11, 5, 9];
const GREEDY: [u32; 12] = [82, 129, 34, 86, 253, 131, 223, 17, 236, 38, 54, 106];
/// After each position of the prompt.
const NEXT: [u32; 5] = [167, 41, 96, 21, 82];
/// The first logits after the prompt, as bits.
const LOGITS: [u32; 4] = [0xc017_bbb2, 0xbf16_2e11, 0x3f80_5ae1, 0xc02d_85ea];

#[test]
fn the_streamed_tiny_checkpoint_gives_its_tokens() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(stream_tiny::write(folder.path()), (916, 3_629_024));
    let mut config = Config::load(&folder.path().join("config.json")).unwrap();
    config.mla.lora_norm_eps = 1e-5;
    let checkpoint = Checkpoint::open(folder.path(), config).unwrap();
    checkpoint.check(13).unwrap();
    assert_eq!(
        (checkpoint.tensor_count(), checkpoint.ignored_count()),
        (916, 0)
    );
    let compute = Compute::new(2, Isa::detect()).unwrap();
    let mut network = Network::open(&Arc::new(checkpoint), 13, compute).unwrap();

    let mut state = network.new_state(PROMPT.len()).unwrap();
    let logits = network.feed(&mut state, &PROMPT, Want::All).unwrap();
    let next: Vec<u32> = logits.rows().map(|r| argmax(r).unwrap() as u32).collect();
    assert_eq!(next, NEXT);
    let first = &logits.last().unwrap()[..LOGITS.len()];
    let want = LOGITS.map(f32::from_bits);
    Tolerance::absolute(1e-4).check("first logits", first, &want);

    let (got, _, _) = greedy(&mut network, &PROMPT, GREEDY.len());
    assert_eq!(got, GREEDY);
}
