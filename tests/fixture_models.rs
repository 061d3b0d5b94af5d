//! The tiny checkpoints of the fixtures, end to end: opened from disk, logits, greedy tokens and every layer's stream.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::kernels::argmax;
use k3::model::Want;
use support::compare::Tolerance;
use support::tensors::Tensors;
use support::*;

struct Expected {
    json: serde_json::Value,
    values: Tensors,
    tolerance: Tolerance,
}

fn expected(model: &str) -> Expected {
    let folder = fixtures().join("expected");
    let json = json(&folder.join(format!("{model}.json")));
    let tolerance = Tolerance::absolute(json["tolerance_max_abs"].as_f64().unwrap());
    Expected {
        values: Tensors::read(&folder.join(format!("{model}.safetensors"))),
        json,
        tolerance,
    }
}

fn gives_its_logits_and_tokens(model: &str) {
    let Expected {
        json,
        values,
        tolerance,
    } = expected(model);
    let mut network = network(&fixtures().join(model));
    let eps = json["mla_lora_norm_eps"].as_f64().unwrap() as f32;
    assert_eq!(network.config().mla.lora_norm_eps, eps);
    let prompts = json["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 3);
    for prompt in prompts {
        let name = prompt["name"].as_str().unwrap();
        let prompt_ids = ids(&prompt["prompt_ids"]);
        let greedy_ids = ids(&prompt["greedy_ids"]);
        assert_eq!(greedy_ids.len(), 16);

        let mut state = network.new_state(prompt_ids.len()).unwrap();
        let logits = network.feed(&mut state, &prompt_ids, Want::All).unwrap();
        let want = values.floats(&format!("{name}.prompt_logits"));
        tolerance.check(&format!("{model} {name} prompt"), logits.values(), &want);
        let argmaxes: Vec<u32> = logits.rows().map(|r| argmax(r).unwrap() as u32).collect();
        assert_eq!(argmaxes, ids(&prompt["prompt_argmax"]), "{model} {name}");

        let (got, steps, _) = greedy(&mut network, &prompt_ids, greedy_ids.len());
        let want = values.floats(&format!("{name}.step_logits"));
        tolerance.check(&format!("{model} {name} steps"), &steps.concat(), &want);
        assert_eq!(got, greedy_ids, "{model} {name}");
    }
}

fn gives_the_stream_of_every_layer(model: &str) {
    let Expected {
        json,
        values,
        tolerance,
    } = expected(model);
    let mut network = network(&fixtures().join(model));
    let prompts = json["prompts"].as_array().unwrap();
    let prompt = prompts.iter().find(|p| p["name"] == "p6").unwrap();
    let prompt_ids = ids(&prompt["prompt_ids"]);
    let mut state = network.new_state(prompt_ids.len()).unwrap();
    let mut pass = network.begin(&mut state, &prompt_ids, Want::All).unwrap();
    for layer in 0..network.layer_count() {
        let through = network.advance(&mut pass, &mut state).unwrap();
        assert_eq!(pass.layer(), layer + 1);
        assert_eq!(through, layer + 1 == network.layer_count());
        let want = values.floats(&format!("p6.stream.{layer}"));
        tolerance.check(&format!("{model} layer {layer}"), pass.stream(), &want);
    }
    pass.want_nothing();
    let logits = network.finish(pass, &mut state).unwrap();
    assert_eq!(logits.rows().len(), 0, "no logits are wanted any more");
    assert_eq!(state.positions(), prompt_ids.len());
    let beyond = format!("p6.stream.{}", network.layer_count());
    assert!(
        values.find(&beyond).is_none(),
        "the fixture has more layers"
    );
}

#[test]
fn tiny_a_gives_its_logits_and_tokens() {
    gives_its_logits_and_tokens("tiny-a");
}

#[test]
fn tiny_b_gives_its_logits_and_tokens() {
    gives_its_logits_and_tokens("tiny-b");
}

#[test]
fn tiny_c_gives_its_logits_and_tokens() {
    gives_its_logits_and_tokens("tiny-c");
}

#[test]
fn every_layer_of_tiny_a_gives_its_stream() {
    gives_the_stream_of_every_layer("tiny-a");
}

#[test]
fn every_layer_of_tiny_b_gives_its_stream() {
    gives_the_stream_of_every_layer("tiny-b");
}

#[test]
fn every_layer_of_tiny_c_gives_its_stream() {
    gives_the_stream_of_every_layer("tiny-c");
}
