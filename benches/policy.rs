//! What the expert cache's policy costs: nanoseconds an expert, at 6,208 slots of the full-size model.
#![allow(missing_docs)]

use std::time::Instant;

use k3::stream::{Policy, Wanted};

const LAYERS: usize = 93;
const EXPERTS: usize = 896;
const CHOSEN: usize = 16;
const SLOTS: usize = 6208;
const TOKENS: usize = 400;

fn main() {
    let mut random = 1u64;
    let mut draw = |limit: usize| {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (random >> 33) as usize % limit
    };
    // About two in five choices are those of the token before, as in real decoding.
    let mut tokens: Vec<Vec<Vec<Wanted>>> = Vec::new();
    for _ in 0..TOKENS {
        let layers = (1..LAYERS).map(|layer| {
            let mut chosen: Vec<usize> = Vec::new();
            while chosen.len() < CHOSEN {
                let expert = match tokens.last() {
                    Some(before) if draw(5) < 2 => before[layer - 1][chosen.len()].expert,
                    _ => draw(EXPERTS),
                };
                if !chosen.contains(&expert) {
                    chosen.push(expert);
                }
            }
            let wanted = |(rank, expert)| Wanted {
                expert,
                rank,
                ago: 0,
            };
            chosen.into_iter().enumerate().map(wanted).collect()
        });
        let layers = layers.collect();
        tokens.push(layers);
    }

    let mut policy = Policy::new(SLOTS, LAYERS, EXPERTS);
    let mut reads = 0;
    let start = Instant::now();
    for layers in &tokens {
        for (layer, wanted) in (1..).zip(layers) {
            let mut slots = policy.request(layer, wanted);
            for (slot, wanted) in slots.iter_mut().zip(wanted) {
                if slot.is_none() {
                    *slot = policy.admit(layer, wanted.expert);
                    reads += 1;
                }
            }
            slots
                .into_iter()
                .flatten()
                .for_each(|slot| policy.release(slot));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let requests = TOKENS * (LAYERS - 1) * CHOSEN;
    println!(
        "policy: {:.0} ns an expert, {:.2} ms a token, {SLOTS} slots, {:.0} % read",
        1e9 * seconds / requests as f64,
        1e3 * seconds / TOKENS as f64,
        100.0 * f64::from(reads) / requests as f64
    );
}
