//! Opening a model: everything that can be refused is refused here, before weights are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Exit;
use crate::checkpoint::{Checkpoint, Config};
use crate::stream::{Files, open_shards, open_with_pack};

/// Reads a model's configuration: `config.json` in its folder, or another file.
///
/// # Errors
/// The folder or the file is missing, or the configuration cannot be used.
pub(super) fn config(model: &Path, other: Option<&PathBuf>) -> anyhow::Result<Config> {
    if !model.is_dir() {
        let problem = if model.exists() {
            "is not a folder"
        } else {
            "does not exist"
        };
        let message = format!(
            "{} {problem}: name the folder that holds the checkpoint",
            model.display()
        );
        return Err(Exit::Refused(message).into());
    }
    let file = other.cloned().unwrap_or_else(|| model.join("config.json"));
    Ok(Config::load(&file)?)
}

/// Indexes and checks the first `layers` layers of a checkpoint.
///
/// # Errors
/// Anything is missing or wrong; all problems in one message.
pub(super) fn checkpoint(
    model: &Path,
    config: Config,
    layers: usize,
) -> anyhow::Result<Arc<Checkpoint>> {
    let checkpoint = Checkpoint::open(model, config)?;
    checkpoint.check(layers)?;
    Ok(Arc::new(checkpoint))
}

/// Opens the files that weights are read from: the shards, and a packed trunk if one is named.
///
/// # Errors
/// One cannot be opened, or the pack does not belong to the checkpoint.
pub(super) fn files(checkpoint: &Checkpoint, trunk: Option<&Path>) -> anyhow::Result<Files> {
    Ok(match trunk {
        Some(trunk) => open_with_pack(checkpoint, trunk)?,
        None => open_shards(checkpoint)?,
    })
}
