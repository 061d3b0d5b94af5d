//! Whether a drive has room for a pack, asked before the first byte is written.

use std::path::Path;

use crate::stream::Error;
use crate::system;

/// Bytes that are left for the system and the manifest.
const MARGIN: u64 = 4 << 20;

/// Refuses when `need` more bytes do not fit into the folder.
///
/// # Errors
/// [`Error::Pack`] with what is needed and what is free.
pub(super) fn refuse_full(dir: &Path, need: u64) -> Result<(), Error> {
    compare(dir, need, system::free(dir))
}

fn compare(dir: &Path, need: u64, free: Option<u64>) -> Result<(), Error> {
    match free {
        Some(free) if need > 0 && need.saturating_add(MARGIN) > free => {
            let problem = format!(
                "the drive is too full: {:.3} GB needed, {:.3} GB free; make room or name a folder on another drive",
                need.saturating_add(MARGIN) as f64 / 1e9,
                free as f64 / 1e9
            );
            Err(Error::pack(dir, problem))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_drive_is_refused_with_both_figures() {
        let dir = Path::new("folder");
        let error = compare(dir, 109_000_000_000, Some(50_000_000_000)).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("folder: the drive is too full"),
            "{message}"
        );
        assert!(
            message.contains("109.004 GB needed, 50.000 GB free"),
            "{message}"
        );
        assert!(compare(dir, 1 << 20, Some(5 << 20)).is_ok());
        assert!(compare(dir, (1 << 20) + 1, Some(5 << 20)).is_err());
        assert!(compare(dir, u64::MAX, None).is_ok());
        // Nothing left to write.
        assert!(compare(dir, 0, Some(0)).is_ok());
    }
}
