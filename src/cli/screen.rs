//! The command line of `k3-tui`. It stands here, since completions and man pages of both programs are made in one place; what
//! it starts is in the program itself.

use std::path::PathBuf;

use clap::{CommandFactory, Parser};

use super::model::ChatArgs;
use super::remote::RemoteArgs;

/// Chat with Kimi K3 in the terminal, the model streamed from disk, or on a server.
#[derive(Parser)]
#[command(name = "k3-tui", version, about)]
pub struct ScreenArgs {
    /// The model and how a chat with it begins
    #[command(flatten)]
    pub chat: ChatArgs,
    /// A server in its place
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Settings file (default: settings.toml in the platform's config folder)
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Line by line, without a full screen: for screen readers
    #[arg(long)]
    pub plain: bool,
}

/// As clap knows it.
pub(super) fn command() -> clap::Command {
    ScreenArgs::command()
}
