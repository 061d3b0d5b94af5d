//! Where the program meets what others made: names and texts that hold a terminal's commands, folders that others may look into,
//! links that somebody planted.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod links;
mod names;
mod privacy;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A command that leaves nothing in the folders of whoever runs the tests.
fn at_home(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    for folder in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(folder, home);
    }
    command.env_remove("TMUX").stdin(Stdio::null());
    command
}

/// Runs `k3` with something to read.
fn k3(home: &Path, words: &[&str], input: &str) -> Output {
    let file = home.join(".input");
    std::fs::write(&file, input).unwrap();
    at_home(env!("CARGO_BIN_EXE_k3"), home)
        .args(words)
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap()
}

/// A conversation with the demo model whose history is this file.
fn talk(home: &Path, history: &Path) -> Output {
    let history = history.to_str().unwrap();
    let words = [
        "chat",
        "--demo",
        "--no-think",
        "--gen",
        "6",
        "--history",
        history,
    ];
    k3(home, &words, "hello\n")
}
