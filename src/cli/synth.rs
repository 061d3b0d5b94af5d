//! `k3 synth`: a synthetic checkpoint in the layout of the release.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::checkpoint::Config;
use crate::checkpoint::synth::{self, SynthOptions};

/// Write a synthetic checkpoint in the layout of the release.
#[derive(Args, Clone, Debug)]
pub struct SynthArgs {
    /// Folder to write; it must hold no model yet
    pub out: PathBuf,
    /// The config.json of the model to make up
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Keep the first N layers only
    #[arg(long, value_name = "N")]
    pub layers: Option<usize>,
    /// Keep N routed experts a layer only
    #[arg(long, value_name = "N")]
    pub experts: Option<usize>,
    /// Seed of the values
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Leave holes in place of the data: the full shape in little space, all weights zero
    #[arg(long)]
    pub sparse: bool,
}

/// Writes the checkpoint and says so in one line on standard error.
///
/// # Errors
/// When the configuration, the options or the folder are refused, or writing fails.
pub fn run(args: &SynthArgs) -> anyhow::Result<()> {
    // Read once for itself, so that a message about it names the file that was given.
    Config::load(&args.config)?;
    let config_json = std::fs::read(&args.config)
        .with_context(|| format!("{}: cannot read", args.config.display()))?;
    let SynthArgs {
        layers,
        experts,
        seed,
        sparse,
        ..
    } = *args;
    let report = synth::write(
        &args.out,
        &config_json,
        SynthOptions {
            layers,
            experts,
            seed,
            sparse,
        },
    )?;
    eprintln!(
        "wrote {}: {} tensors in {} shards, {:.3} GB{}",
        args.out.display(),
        report.tensors,
        report.shards,
        report.bytes as f64 / 1e9,
        if sparse {
            format!(
                " of which {:.3} GB take space",
                report.allocated as f64 / 1e9
            )
        } else {
            String::new()
        }
    );
    Ok(())
}
