//! Whether the rest of a download fits: how large it is in all, what of it is here, and what is free.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::Exit;
use crate::checkpoint::atomic::folder;
use crate::checkpoint::{INDEX_FILE, shards, verify};
use crate::cli::synth::size;
use crate::stream::Volume;

/// For the files beside the shards, and for the file system's own needs.
const MARGIN: u64 = 500_000_000;

/// Bytes of all shards, by the index: what it states for the tensors, and room for headers.
///
/// # Errors
/// There is no index, or it does not say.
pub(super) fn total(dir: &Path) -> anyhow::Result<u64> {
    /// The release's headers have 0.8 MB.
    const HEADER: u64 = 1_000_000;
    let stated = verify::stated(dir).map_err(anyhow::Error::msg);
    let (files, bytes) =
        stated.with_context(|| format!("{}: cannot be used", dir.join(INDEX_FILE).display()))?;
    Ok(bytes.saturating_add(HEADER * files as u64))
}

/// Bytes of shards that are here, and of those that the client has begun.
pub(super) fn there(dir: &Path) -> u64 {
    let begun = fs::read_dir(dir.join(".cache/huggingface/download"));
    let begun = begun.into_iter().flatten().flatten();
    let begun = begun.filter(|item| item.file_name().to_string_lossy().ends_with(".incomplete"));
    let begun: u64 = begun
        .flat_map(|item| item.metadata())
        .map(|meta| meta.len())
        .sum();
    shards::bytes(dir).unwrap_or(0).saturating_add(begun)
}

/// Refuses when what is missing of `total` bytes does not fit.
///
/// # Errors
/// [`Exit::Refused`] with what is needed and what is free.
pub(super) fn refuse_full(dir: &Path, total: u64) -> Result<(), Exit> {
    // The folder may not be there yet; what is above it is on the same drive.
    let mut above = dir;
    while !above.exists() && folder(above) != above {
        above = folder(above);
    }
    compare(dir, total, there(dir), Volume::of(above).free_bytes)
}

fn compare(dir: &Path, total: u64, there: u64, free: Option<u64>) -> Result<(), Exit> {
    let missing = total.saturating_sub(there);
    let need = missing.saturating_add(MARGIN);
    match free {
        // When everything is here nothing is fetched.
        Some(free) if missing > 0 && need > free => Err(Exit::Refused(format!(
            "{}: the drive is too full: {} are still to be fetched, {} are free; make room or name a folder on another drive",
            dir.display(),
            size(need),
            size(free)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn what_is_here_is_credited() {
        let dir = Path::new("folder");
        let error = compare(dir, 1561 * GB, 0, Some(1000 * GB))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("1561.5 GB") && error.contains("1000.0 GB"),
            "{error}"
        );
        assert!(compare(dir, 1561 * GB, 600 * GB, Some(1000 * GB)).is_ok());
        assert!(compare(dir, 1561 * GB, 1561 * GB, Some(0)).is_ok());
        assert!(compare(dir, 1561 * GB, 0, None).is_ok());
    }

    #[test]
    fn begun_files_count_as_here() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(there(dir.path()), 0);
        let cache = dir.path().join(".cache/huggingface/download");
        fs::create_dir_all(&cache).unwrap();
        for (path, bytes) in [
            (dir.path().join("a.safetensors"), 5),
            (dir.path().join("other"), 7),
            (cache.join("x.incomplete"), 11),
            (cache.join("x.metadata"), 13),
        ] {
            fs::write(path, vec![0; bytes]).unwrap();
        }
        assert_eq!(there(dir.path()), 16);
    }
}
