//! `k3 synth`: a synthetic checkpoint in the layout of the release.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::checkpoint::Config;
use crate::checkpoint::synth::{self, SynthOptions};
use crate::cli::say;

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
    let holes = if sparse {
        format!(", of which {} take space", size(report.allocated))
    } else {
        String::new()
    };
    say!(
        "wrote {}: {} tensors in {} shards, {}{holes}",
        args.out.display(),
        report.tensors,
        report.shards,
        size(report.bytes),
    );
    Ok(())
}

/// Bytes in the decimal unit that suits them.
pub(super) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e9 {
        format!("{:.1} MB", bytes / 1e6)
    } else {
        format!("{:.1} GB", bytes / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        synth: SynthArgs,
    }

    #[test]
    fn flags_are_read() {
        let line = "k3 out --config c.json --layers 4 --experts 2 --seed 9 --sparse";
        let args = Command::try_parse_from(line.split(' ')).unwrap().synth;
        assert_eq!((args.out, args.config), ("out".into(), "c.json".into()));
        assert_eq!(
            (args.layers, args.experts, args.seed, args.sparse),
            (Some(4), Some(2), 9, true)
        );
        let args = Command::try_parse_from("k3 out --config c.json".split(' '))
            .unwrap()
            .synth;
        assert_eq!(
            (args.layers, args.experts, args.seed, args.sparse),
            (None, None, 0, false)
        );
        for wrong in [
            "k3 out",
            "k3 --config c.json",
            "k3 out --config c.json --layers x",
        ] {
            assert!(
                Command::try_parse_from(wrong.split(' ')).is_err(),
                "{wrong}"
            );
        }
    }

    /// A refused configuration is named by the file that was given, not by the one that would be written.
    #[test]
    fn a_refused_configuration_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("given.json");
        std::fs::write(&config, "{}").unwrap();
        let out = dir.path().join("out");
        let args = SynthArgs {
            out: out.clone(),
            config,
            layers: None,
            experts: None,
            seed: 0,
            sparse: false,
        };
        let message = run(&args).unwrap_err().to_string();
        assert!(
            message.contains("given.json") && message.contains("hidden_size is missing"),
            "{message}"
        );
        assert!(!out.exists());
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(0), "0.0 MB");
        assert_eq!(size(133_272_000), "133.3 MB");
        assert_eq!(size(1_560_936_091_448), "1560.9 GB");
    }
}
