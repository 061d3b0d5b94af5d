//! `k3 completions` and `k3 man`: what shells and `man` know of the commands, made from the same table that reads them.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use super::Exit;

/// Flags of `k3 completions`.
#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    shell: Shell,
    /// Of the program with this name
    #[arg(long, value_name = "NAME", default_value = "k3", value_parser = ["k3", "k3-tui"])]
    program: String,
}

/// Flags of `k3 man`.
#[derive(Args)]
pub(super) struct ManArgs {
    /// The folder that the pages are written to
    out: PathBuf,
}

/// Writes a shell's completions to standard output.
pub(super) fn completions(arguments: &CompletionsArgs) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let mut command = match arguments.program.as_str() {
        "k3" => super::command(),
        _ => super::screen::command(),
    };
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    match std::io::stdout().write_all(&text) {
        // Whoever reads them has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output cannot be written"),
    }
}

/// Writes the man pages of both programs and of every command.
pub(super) fn man(arguments: &ManArgs) -> anyhow::Result<()> {
    let out = &arguments.out;
    let written = std::fs::create_dir_all(out).and_then(|()| {
        clap_mangen::generate_to(super::command(), out)?;
        clap_mangen::generate_to(super::screen::command(), out)
    });
    written.map_err(|error| {
        Exit::NotWritten(format!("{}: cannot be written: {error}", out.display())).into()
    })
}
