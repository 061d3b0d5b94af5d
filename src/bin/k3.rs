//! `k3`: everything without a screen. Only hands its arguments to [`k3::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(k3::cli::main(std::env::args_os().collect()))
}
