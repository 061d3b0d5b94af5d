//! `k3-tui`: the full-screen chat. Arguments, then the engine's thread, then the screen.

use std::process::ExitCode;

use clap::Parser;

use k3::cli::Exit;
use k3::cli::model::ChatArgs;
use k3::{engine, tui};

/// Chat with Kimi K3 in the terminal, the model streamed from disk.
#[derive(Parser)]
#[command(name = "k3-tui", version, about)]
struct Arguments {
    #[command(flatten)]
    chat: ChatArgs,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::REFUSED } else { 0 });
        }
    };
    match chat(&arguments.chat) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("k3-tui: {error:#}");
            ExitCode::from(Exit::code(&error))
        }
    }
}

fn chat(arguments: &ChatArgs) -> anyhow::Result<()> {
    let plan = arguments.check()?;
    let engine = engine::start(move || plan.open())?;
    tui::run(engine, tui::Options::from_environment())
}
