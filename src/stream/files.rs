//! The files that weights are read from: the shards of a checkpoint and perhaps a packed trunk, open for direct reads. It
//! answers where a tensor is and knows no segments.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::pack::Pack;
use super::{Buffer, DirectFile, Error, ReadAt, read_span, span_capacity};
use crate::checkpoint::Checkpoint;

/// Where a tensor's bytes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the file.
    pub file: usize,
    /// First byte in it.
    pub offset: u64,
}

/// One file a shard, in order, then the pack's. Trunk and experts read the same ones.
pub struct OpenFiles {
    files: Vec<Box<dyn ReadAt>>,
    pack: Option<Pack>,
}

/// Open files, shared by all that read them.
pub type Files = Arc<OpenFiles>;

impl Deref for OpenFiles {
    type Target = [Box<dyn ReadAt>];

    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

/// Files that the caller opened, one a shard in order, without a pack.
impl FromIterator<Box<dyn ReadAt>> for OpenFiles {
    fn from_iter<I: IntoIterator<Item = Box<dyn ReadAt>>>(files: I) -> Self {
        Self {
            files: files.into_iter().collect(),
            pack: None,
        }
    }
}

impl OpenFiles {
    /// Where a tensor outside the routed experts is: in the pack if it is packed, else in its shard.
    ///
    /// # Errors
    /// It is missing.
    pub fn place(&self, checkpoint: &Checkpoint, name: &str) -> Result<Place, Error> {
        if let Some(pack) = &self.pack
            && let Some(offset) = pack.find(name)?
        {
            let file = self.files.len() - 1;
            return Ok(Place { file, offset });
        }
        let tensor = checkpoint.tensor(name)?;
        Ok(Place {
            file: usize::from(tensor.shard),
            offset: tensor.offset,
        })
    }

    /// A small vector by name, widened to f32.
    ///
    /// # Errors
    /// It is missing, of another type, or cannot be read.
    pub fn vector(&self, checkpoint: &Checkpoint, name: &str) -> Result<Vec<f32>, Error> {
        let Place { file, offset } = self.place(checkpoint, name)?;
        if file < usize::from(checkpoint.shard_count()) {
            return Ok(checkpoint.vector(name)?);
        }
        let file = self.files[file].as_ref();
        let len = checkpoint.tensor(name)?.bytes as usize;
        let bytes = read(file, offset, len)?;
        Ok(checkpoint.widened(name, &bytes)?)
    }

    /// Whether the trunk comes from a pack on another drive than the experts.
    pub fn pack_is_apart(&self) -> bool {
        let Some(pack) = &self.pack else {
            return false;
        };
        let shard = self.files.first().and_then(|file| device(file.path()));
        match (shard, device(pack.bin())) {
            (Some(shard), Some(pack)) => shard != pack,
            _ => false,
        }
    }
}

/// Reads so many bytes of a file.
///
/// # Errors
/// The file and what is wrong with it.
pub(super) fn read(file: &dyn ReadAt, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut buffer = Buffer::new(span_capacity(len))?;
    let pad = read_span(file, offset, len, buffer.as_mut_slice())
        .map_err(|cause| Error::read(file.path(), offset, len, cause))?;
    Ok(buffer.as_slice()[pad..pad + len].to_vec())
}

/// The number of the drive, or the part of one, that a file is on.
#[cfg(unix)]
fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|meta| meta.dev())
}

/// Not known: then experts go first, which is right on one drive and slower on two.
#[cfg(not(unix))]
fn device(_: &Path) -> Option<u64> {
    None
}

/// Opens every shard.
///
/// # Errors
/// One cannot be opened.
pub fn open_shards(checkpoint: &Checkpoint) -> Result<Files, Error> {
    let files = shards(checkpoint)?;
    Ok(Arc::new(OpenFiles { files, pack: None }))
}

/// Opens every shard, and the packed trunk in the folder `pack`.
///
/// # Errors
/// One cannot be opened, or the pack is not whole or not of this checkpoint.
pub fn open_with_pack(checkpoint: &Checkpoint, pack: &Path) -> Result<Files, Error> {
    let mut files = shards(checkpoint)?;
    let pack = Pack::open(pack, checkpoint)?;
    files.push(open(pack.bin())?);
    let pack = Some(pack);
    Ok(Arc::new(OpenFiles { files, pack }))
}

fn shards(checkpoint: &Checkpoint) -> Result<Vec<Box<dyn ReadAt>>, Error> {
    (0..checkpoint.shard_count())
        .map(|shard| open(checkpoint.shard_path(shard)))
        .collect()
}

pub(super) fn open(path: &Path) -> Result<Box<dyn ReadAt>, Error> {
    let file = DirectFile::open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })?;
    Ok(Box::new(file))
}
