//! The programs of `examples/`, built as the tests are.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// One of them.
pub fn example(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build).join(name)
}

/// The folder with what this test binary belongs to: `target/debug`, say.
pub fn profile() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

fn build() -> PathBuf {
    let profile = profile();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--examples"])
        .args(profile.ends_with("release").then_some("--release"))
        .arg("--target-dir")
        .arg(profile.parent().unwrap_or(Path::new("/")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success());
    profile.join("examples")
}
