//! Opening a model: everything that can be refused is refused here, before weights are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::chat::ModelFiles;
use crate::checkpoint::{Checkpoint, Config};

/// Reads a model's configuration: `config.json` in its folder, or another file.
///
/// # Errors
/// The folder or the file is missing, or the configuration cannot be used.
pub(super) fn config(model: &Path, other: Option<&PathBuf>) -> anyhow::Result<Config> {
    let files = ModelFiles {
        config: other.cloned(),
        ..ModelFiles::in_folder(model)
    };
    Ok(files.config()?)
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
