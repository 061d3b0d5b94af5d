//! `k3 pack`: copies the trunk into one file on another drive, or checks such a copy. Progress goes to standard error.

use std::path::PathBuf;

use clap::Args;

use super::byte_progress::ByteProgress;
use super::run::interrupt;
use super::synth::size;
use super::{Exit, open, say};
use crate::model::Blueprint;
use crate::stream::pack::{self, Checked, Packed};

/// Arguments of `k3 pack`.
#[derive(Args)]
pub struct PackArgs {
    /// Checkpoint folder in the released layout
    model: PathBuf,
    /// Folder of the packed trunk; it is made, or gone on with
    out: PathBuf,
    /// Write nothing: read the packed trunk in OUT, the C engine's too, and compare every byte
    #[arg(long)]
    check: bool,
    /// The model's configuration (default: config.json in MODEL)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Anything is refused, cannot be read or written, or is damaged; a signal came.
pub fn run(arguments: &PackArgs) -> anyhow::Result<()> {
    let PackArgs { model, out, .. } = arguments;
    let config = open::config(model, arguments.config.as_ref())?;
    let layers = config.layers();
    let checkpoint = open::checkpoint(model, config, layers)?;
    let interrupted = interrupt()?;
    let mut report = ByteProgress::new();
    let mut progress = |what: &str, done, total| report.told(what, done, total, &interrupted);
    let said = if arguments.check {
        match pack::check(out, &checkpoint, &mut progress)? {
            Checked::Right(bytes) => format!("{} are right", size(bytes)),
            Checked::Interrupted => return Err(Exit::Interrupted.into()),
        }
    } else {
        let walk = Blueprint::new(checkpoint.config().clone(), layers).walk;
        match pack::write(&checkpoint, &walk, out, &mut progress)? {
            Packed::Written { bytes, kept: 0 } => format!("{} written and checked", size(bytes)),
            Packed::Written { bytes, kept } => format!(
                "{} checked, of which {} were there already",
                size(bytes),
                size(kept)
            ),
            Packed::WasThere(bytes) => format!("was whole already, {} are right", size(bytes)),
            Packed::Interrupted => return Err(Exit::Interrupted.into()),
        }
    };
    report.end();
    say!("k3: {}: {said}", out.display());
    if !arguments.check {
        say!("k3: use it with --trunk {}", out.display());
    }
    Ok(())
}
