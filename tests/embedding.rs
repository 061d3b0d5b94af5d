//! The examples for those who embed the library, run as they stand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;
mod examples;

use std::process::Command;

#[test]
fn embed_streams_an_answer_and_reads_telemetry() {
    let output = Command::new(examples::example("embed"))
        .arg(demo::demo_model())
        .arg("hello")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for part in [
        "6 layers, at most ",
        "[think] ",
        "[response] ",
        "trunk read: ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn embed_says_what_is_wrong_with_a_model() {
    let output = Command::new(examples::example("embed"))
        .arg("/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere: does not exist"));
}

#[test]
fn experts_from_another_source_give_the_same_bits() {
    let output = Command::new(examples::example("custom_expert_source"))
        .arg(demo::demo_model())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for part in ["singly: ", "in batches: ", "bit for bit"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
