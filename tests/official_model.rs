//! The official model code's results on tiny checkpoints. Read where `K3_ORACLE` names the folder, else NOT RUN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::model::Want;
use support::*;

fn agrees_with_the_official_model(model: &str) {
    let Some(folder) = oracle(model).map(|o| o.join("official").join(model)) else {
        return;
    };
    let expected = json(&folder.join("oracle.json"));
    let tolerance = expected["suggested_tolerance_max_abs"].as_f64().unwrap() as f32;
    let mut network = network(&folder);
    let prompts = expected["prompts"].as_array().unwrap();
    assert!(!prompts.is_empty());
    for prompt in prompts {
        let name = prompt["name"].as_str().unwrap();
        let prompt_ids = ids(&prompt["prompt_ids"]);
        let greedy_ids = ids(&prompt["greedy_ids"]);
        assert_eq!(greedy_ids.len(), 24);

        let mut state = network.new_state(prompt_ids.len()).unwrap();
        let all = network.feed(&mut state, &prompt_ids, Want::All).unwrap();
        let worst = distance(
            all.values(),
            &floats(&folder.join(format!("ref64_logits_{name}.f32"))),
        );
        let (got, steps, _) = greedy(&mut network, &prompt_ids, greedy_ids.len());
        let worst_step = distance(
            &steps.concat(),
            &floats(&folder.join(format!("ref64_steps_{name}.f32"))),
        );
        println!(
            "{model} {name}: worst distance {worst:.2e} in the prompt, {worst_step:.2e} in the steps"
        );
        assert!(
            worst <= tolerance,
            "{model} {name}: {worst} is more than {tolerance}"
        );
        assert!(
            worst_step <= tolerance,
            "{model} {name}: {worst_step} is more than {tolerance}"
        );
        assert_eq!(got, greedy_ids, "{model} {name}");
    }
}

#[test]
fn model_a_gives_the_official_logits_and_tokens() {
    agrees_with_the_official_model("A");
}

#[test]
fn model_b_gives_the_official_logits_and_tokens() {
    agrees_with_the_official_model("B");
}

#[test]
fn model_e_gives_the_official_logits_and_tokens() {
    agrees_with_the_official_model("E");
}
