//! The shards of a checkpoint, open for direct reads.

use std::sync::Arc;

use super::{DirectFile, Error, ReadAt};
use crate::checkpoint::Checkpoint;

/// One file a shard, in order. Trunk and experts read the same ones.
pub type Files = Arc<Vec<Box<dyn ReadAt>>>;

/// Opens every shard.
///
/// # Errors
/// One cannot be opened.
pub fn open_shards(checkpoint: &Checkpoint) -> Result<Files, Error> {
    let open = |shard| {
        let path = checkpoint.shard_path(shard);
        let file = DirectFile::open(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
        Ok(Box::new(file) as Box<dyn ReadAt>)
    };
    (0..checkpoint.shard_count())
        .map(open)
        .collect::<Result<_, _>>()
        .map(Arc::new)
}
