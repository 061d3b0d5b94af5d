//! Checkpoints through the public surface of the library: real files, opened, checked and read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use k3::checkpoint::{Checkpoint, Config};

/// The folder of expected results from elsewhere, when the environment names one.
fn oracle(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("K3_ORACLE").map(PathBuf::from);
    if folder.is_none() {
        println!("NOT RUN: {test} needs K3_ORACLE");
    }
    folder
}

#[test]
fn official_models_open_and_pass_the_check() {
    let Some(oracle) = oracle("official_models_open_and_pass_the_check") else {
        return;
    };
    for model in ["A", "B", "E"] {
        let dir = oracle.join("official").join(model);
        let config = Config::load(&dir.join("config.json")).unwrap();
        let layers = config.layers();
        let checkpoint = Checkpoint::open(&dir, config).unwrap();
        checkpoint.check(layers).unwrap();
    }
}
