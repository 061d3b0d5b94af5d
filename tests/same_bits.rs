//! One result, whatever computes it: the same bits of every logit and of the state for any number of threads, instruction
//! set, chunking, cutting of the walk, order of arrival, form of the experts and interruption.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;

use k3::checkpoint::names::{self, ExpertPart};
use k3::kernels::{self, Isa};
use k3::model::{Compute, Network, Want};
use k3::stream::TrunkPlan;
use support::compare::bits;
use support::memory::{MemoryExperts, MemoryTrunk, plain_expert};
use support::models::{Model, models, outcome, plainest, state_bits};
use support::tensors::{Tensor, Tensors};

#[test]
fn threads_and_instruction_sets() {
    if Isa::all().len() == 1 {
        println!("instruction sets: NOT RUN, this machine has one only");
    }
    for model in models() {
        let want = plainest(&model);
        for isa in Isa::all() {
            for threads in [1, 2, 3] {
                let mut network = model.network(threads, isa);
                let got = outcome(&mut network, &model.prompt, model.prompt.len());
                assert!(got == want, "{}: {threads} of {}", model.name, isa.name());
            }
        }
    }
}

#[test]
fn chunks_of_a_prompt() {
    for model in models() {
        let want = plainest(&model);
        let mut network = model.network(2, Isa::detect());
        for chunk in [1, 3, 64, model.prompt.len()] {
            let got = outcome(&mut network, &model.prompt, chunk);
            assert!(got == want, "{}: chunks of {chunk}", model.name);

            // Logits that nobody wants change nothing.
            let mut state = network.new_state(model.prompt.len()).unwrap();
            let last = network
                .prefill(&mut state, &model.prompt, chunk, Want::Last)
                .unwrap();
            assert_eq!(last.rows().len(), 1);
            assert_eq!(Some(&bits(last.values())), want.logits.last());
            assert_eq!(state_bits(&state), want.state);
            let mut state = network.new_state(model.prompt.len()).unwrap();
            let none = network
                .prefill(&mut state, &model.prompt, chunk, Want::Nothing)
                .unwrap();
            assert!(none.values().is_empty());
            assert_eq!(state_bits(&state), want.state);
        }
    }
}

#[test]
fn whichever_layer_is_the_last_it_computes_for_wanted_tokens_alone() {
    for model in models() {
        let config = model.checkpoint.config();
        // Experts that the layers before the last ask for.
        let mut before = 0;
        for layers in 1..=config.layers() {
            let compute = Compute::new(2, Isa::detect()).unwrap();
            let mut network = Network::open(&model.checkpoint, layers, compute).unwrap();
            let mut outcome = |want| {
                let asked = network.expert_counters().requests;
                let mut state = network.new_state(model.prompt.len()).unwrap();
                let logits = network.feed(&mut state, &model.prompt, want).unwrap();
                let asked = network.expert_counters().requests - asked;
                (logits.last().map(bits), state_bits(&state), asked)
            };
            let (all, whole, of_all) = outcome(Want::All);
            let (last, state, of_last) = outcome(Want::Last);
            let name = format!("{}, {layers} layers", model.name);
            assert!(last == all && state == whole, "{name}");
            let (none, state, of_none) = outcome(Want::Nothing);
            assert!(none.is_none() && state == whole, "{name}");
            let one = match config.is_dense(layers - 1) {
                true => 0,
                false => config.moe.top_k as u64,
            };
            assert_eq!((of_last, of_none), (before + one, before + one), "{name}");
            before = of_all;
        }
    }
}

#[test]
fn carried_state_and_computing_anew_at_every_position() {
    for model in models() {
        let want = plainest(&model);
        // One thread: thousands of such small passes would mostly wait for a second one.
        let mut network = model.network(1, Isa::detect());
        let mut carried = network.new_state(model.prompt.len()).unwrap();
        for at in 0..model.prompt.len() {
            let id = &model.prompt[at..=at];
            let went_on = network.feed(&mut carried, id, Want::Last).unwrap();
            let mut fresh = network.new_state(at + 1).unwrap();
            let anew = network
                .feed(&mut fresh, &model.prompt[..=at], Want::Last)
                .unwrap();
            assert_eq!(
                bits(went_on.values()),
                want.logits[at],
                "{} {at}",
                model.name
            );
            assert_eq!(bits(anew.values()), want.logits[at], "{} {at}", model.name);
            assert!(
                state_bits(&carried) == state_bits(&fresh),
                "{} {at}",
                model.name
            );
        }
        assert_eq!(state_bits(&carried), want.state);
    }
}

/// Segment size, ring slots, and which segments are pinned.
type Plan = (u64, usize, fn(usize) -> bool);

#[test]
fn pinned_or_streamed_through_any_ring() {
    for model in models() {
        let want = plainest(&model);
        let plans: [Plan; 5] = [
            (1000, 1, |_| false),
            (1000, 2, |i| i % 5 == 4),
            (300, 4, |i| i.is_multiple_of(2)),
            (5000, 8, |_| false),
            (1 << 30, 4, |i| i % 5 == 4),
        ];
        for (segment_bytes, slots, pinned) in plans {
            let trunk = model.streamed(segment_bytes, slots, pinned);
            let mut network = model.network_over(Box::new(trunk), model.store(slots));
            let got = outcome(&mut network, &model.prompt, 17);
            assert!(
                got == want,
                "{}: segments of {segment_bytes}, {slots} slots",
                model.name
            );
        }
    }
}

#[test]
fn segments_of_any_size() {
    for model in models() {
        let want = plainest(&model);
        for limit in [1, 1000, u64::MAX] {
            let mut network = model.network_over(model.trunk(limit), model.experts());
            // In one chunk and in several, so that the walk is begun anew in between.
            for chunk in [model.prompt.len(), 30] {
                let got = outcome(&mut network, &model.prompt, chunk);
                assert!(got == want, "{}: segments of {limit}", model.name);
            }
        }
    }
}

/// A network over the model's tensors in memory.
fn in_memory(model: &Model, tensors: &Arc<Tensors>, limit: u64, seed: u32) -> k3::model::Network {
    let trunk = MemoryTrunk::new(tensors, &model.blueprint().walk, limit);
    let experts = MemoryExperts::new(tensors, seed);
    model.network_over(Box::new(trunk), Box::new(experts))
}

#[test]
fn experts_in_any_order_of_arrival() {
    for model in models() {
        let want = plainest(&model);
        let tensors = Arc::new(Tensors::read_checkpoint(model.folder()));
        for seed in 1..=5 {
            let mut network = in_memory(&model, &tensors, 3000, seed);
            for chunk in [model.prompt.len(), 1] {
                let got = outcome(&mut network, &model.prompt, chunk);
                assert!(got == want, "{}: seed {seed}", model.name);
            }
        }
    }
}

#[test]
fn experts_multiplied_as_mxfp4_or_widened_first() {
    for model in models() {
        let want = plainest(&model);
        let config = model.checkpoint.config();
        let mut tensors = Tensors::read_checkpoint(model.folder());
        let (latent, inner) = (config.moe.latent, config.moe.inner);
        for layer in config.dense_layers..config.layers() {
            for expert in 0..config.moe.experts {
                for (matrix, packed, scales, shape) in [
                    (
                        "w1",
                        ExpertPart::W1Packed,
                        ExpertPart::W1Scale,
                        [inner, latent],
                    ),
                    (
                        "w3",
                        ExpertPart::W3Packed,
                        ExpertPart::W3Scale,
                        [inner, latent],
                    ),
                    (
                        "w2",
                        ExpertPart::W2Packed,
                        ExpertPart::W2Scale,
                        [latent, inner],
                    ),
                ] {
                    let mut wide = vec![f32::NAN; inner * latent];
                    let packed = tensors.bytes(&names::expert(layer, expert, packed));
                    let scales = tensors.bytes(&names::expert(layer, expert, scales));
                    kernels::dequantise(Isa::portable(), packed, scales, &mut wide);
                    let name = plain_expert(layer, expert, matrix);
                    tensors.insert(&name, Tensor::f32(&shape, wide));
                }
            }
        }
        let mut network = in_memory(&model, &Arc::new(tensors), 3000, 1);
        for chunk in [model.prompt.len(), 1] {
            let got = outcome(&mut network, &model.prompt, chunk);
            assert!(got == want, "{}", model.name);
        }
    }
}

#[test]
fn a_pass_left_after_any_layer_and_taken_up_by_another_thread() {
    for model in models() {
        let want = plainest(&model);
        let mut network = model.network(2, Isa::detect());
        for left_after in 0..=network.layer_count() {
            let mut state = network.new_state(model.prompt.len()).unwrap();
            let (first, rest) = model.prompt.split_at(20);
            network.feed(&mut state, first, Want::Nothing).unwrap();
            let mut pass = network.begin(&mut state, rest, Want::All).unwrap();
            while pass.layer() < left_after {
                network.advance(&mut pass, &mut state).unwrap();
            }
            let resume = || {
                while !network.advance(&mut pass, &mut state).unwrap() {}
                let logits = network.finish(pass, &mut state).unwrap();
                (
                    logits.rows().map(bits).collect::<Vec<_>>(),
                    state_bits(&state),
                )
            };
            let (logits, state) = std::thread::scope(|scope| scope.spawn(resume).join().unwrap());
            assert!(logits == want.logits[20..], "{} {left_after}", model.name);
            assert!(state == want.state, "{} {left_after}", model.name);
        }
    }
}

#[test]
fn another_plan_in_the_middle_of_a_text() {
    for model in models() {
        let want = plainest(&model);
        let mut network = model.network(2, Isa::detect());
        let walk = model.blueprint().walk;
        let plan = |segment_bytes, ring_slots, keep: usize| TrunkPlan {
            segment_bytes,
            pinned: (0..walk.segments(segment_bytes).len())
                .map(|i| i.is_multiple_of(keep))
                .collect(),
            ring_slots,
        };
        let mut state = network.new_state(model.prompt.len()).unwrap();
        let mut logits: Vec<Vec<u32>> = Vec::new();
        for (i, ids) in model.prompt.chunks(13).enumerate() {
            let fed = network.feed(&mut state, ids, Want::All).unwrap();
            logits.extend(fed.rows().map(bits));
            let read = network.trunk_counters().bytes_read;
            match i % 3 {
                0 => network.replan(&plan(700, 2, 2), 1).unwrap(),
                1 => network.replan(&plan(1 << 20, 1, usize::MAX), 3).unwrap(),
                _ => network.replan(&TrunkPlan::resident(&walk), 2).unwrap(),
            }
            assert!(network.trunk_counters().bytes_read >= read, "figures go on");
        }
        assert!(
            logits == want.logits && state_bits(&state) == want.state,
            "{}",
            model.name
        );
    }
}

#[test]
fn a_draft_of_which_only_the_first_tokens_stand() {
    for model in models() {
        let want = plainest(&model);
        let mut network = model.network(2, Isa::detect());
        for stand in 0..=5 {
            let mut state = network.new_state(model.prompt.len()).unwrap();
            let (first, rest) = model.prompt.split_at(62);
            network.feed(&mut state, first, Want::Nothing).unwrap();
            // The rest of the draft is another text than the prompt's.
            let mut guess = rest[..5].to_vec();
            guess[stand..].reverse();
            let mut pass = network.begin_draft(&mut state, &guess).unwrap();
            while !network.advance(&mut pass, &mut state).unwrap() {}
            let (logits, draft) = network.finish_draft(pass, &state).unwrap();
            assert!(!state.is_whole(), "until it is known what stands");
            for (at, row) in logits.rows().take(stand).enumerate() {
                assert_eq!(bits(row), want.logits[62 + at], "{} {stand}", model.name);
            }
            network.commit(draft, &mut state, stand).unwrap();
            assert_eq!(state.positions(), 62 + stand);
            let last = network
                .feed(&mut state, &rest[stand..], Want::Last)
                .unwrap();
            assert_eq!(Some(&bits(last.values())), want.logits.last());
            assert!(state_bits(&state) == want.state, "{} {stand}", model.name);
        }
    }
}

#[test]
fn what_was_no_draft_cannot_be_taken_back() {
    let model = &models()[0];
    let mut network = model.network(1, Isa::detect());
    let mut state = network.new_state(8).unwrap();
    let pass = |network: &mut k3::model::Network, state: &mut k3::model::State| {
        let mut pass = network.begin(state, &model.prompt[..3], Want::All).unwrap();
        while !network.advance(&mut pass, state).unwrap() {}
        network.finish_draft(pass, state).unwrap().1
    };
    let draft = pass(&mut network, &mut state);
    assert!(network.commit(draft, &mut state, 2).is_err());
    let mut state = network.new_state(8).unwrap();
    let draft = pass(&mut network, &mut state);
    assert!(network.commit(draft, &mut state, 4).is_err());
}

#[test]
fn going_back_to_a_kept_state() {
    for model in models() {
        let want = plainest(&model);
        let mut network = model.network(2, Isa::detect());
        let mut state = network.new_state(model.prompt.len()).unwrap();
        let (first, rest) = model.prompt.split_at(30);
        network.feed(&mut state, first, Want::Nothing).unwrap();
        let kept = state.keep().unwrap();
        let other: Vec<u32> = rest.iter().rev().copied().collect();
        network
            .feed(&mut state, &other[..9], Want::Nothing)
            .unwrap();
        // From the middle of a pass as well: the state is torn, and whole again.
        let mut pass = network
            .begin(&mut state, &other[9..12], Want::Nothing)
            .unwrap();
        network.advance(&mut pass, &mut state).unwrap();
        assert!(state.keep().is_err(), "a torn state cannot be kept");
        state.return_to(&kept).unwrap();
        let logits = network.feed(&mut state, rest, Want::All).unwrap();
        let rows: Vec<_> = logits.rows().map(bits).collect();
        assert!(rows == want.logits[30..], "{}", model.name);
        assert!(state_bits(&state) == want.state, "{}", model.name);

        let mut fresh = network.new_state(model.prompt.len()).unwrap();
        assert!(fresh.return_to(&kept).is_err(), "it lies ahead");
        assert_eq!(fresh.positions(), 0);
    }
}
