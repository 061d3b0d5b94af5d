//! Draws against vectors that an independent implementation of the same rules made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::chat::{Draw, Draws, Sampler, Sampling};
use serde_json::Value;

fn vectors(test: &str) -> Option<Value> {
    let oracle = support::oracle(test)?;
    Some(support::json(&oracle.join("chat/k3-sampler-vectors.json")))
}

fn seed(case: &Value) -> u64 {
    case["seed"].as_str().unwrap().parse().unwrap()
}

#[test]
fn streams_of_the_generator() {
    let Some(vectors) = vectors("streams_of_the_generator") else {
        return;
    };
    let streams = vectors["streams"].as_array().unwrap();
    assert!(!streams.is_empty());
    for case in streams {
        let new = || Draws::new(seed(case), case["turn"].as_u64().unwrap());
        let mut draws = new();
        for bits in case["u32"].as_array().unwrap() {
            let bits = bits.as_str().unwrap().trim_start_matches("0x");
            assert_eq!(
                draws.bits(),
                u32::from_str_radix(bits, 16).unwrap(),
                "{case}"
            );
        }
        let mut draws = new();
        for unit in case["unit53"].as_array().unwrap() {
            let unit: u64 = unit.as_str().unwrap().parse().unwrap();
            assert_eq!(draws.unit() * (1_u64 << 53) as f64, unit as f64, "{case}");
        }
    }
}

#[test]
fn drawn_ids() {
    let Some(vectors) = vectors("drawn_ids") else {
        return;
    };
    let cases = vectors["draws"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let logits = support::numbers(&case["logits"]);
        let draw = Draw {
            temperature: case["temperature"].as_f64().unwrap(),
            top_p: case["top_p"].as_f64().unwrap(),
            top_k: Some(case["top_k"].as_u64().unwrap() as usize),
            seed: seed(case),
        };
        let mut sampler = Sampler::new(Sampling::Draw(draw), case["turn"].as_u64().unwrap());
        let ids = support::ids(&case["ids"]);
        let drawn: Vec<u32> = ids.iter().map(|_| sampler.next(&logits).unwrap()).collect();
        assert_eq!(drawn, ids, "{case}");
    }
}
