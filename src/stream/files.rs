//! The files that weights are read from: the shards of a checkpoint and perhaps a packed trunk, open for direct reads. It
//! answers where a tensor is and knows no segments.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::pack::Pack;
use super::retry::retried;
use super::{Buffer, DirectFile, Error, ReadAt, read_span, span_capacity};
use crate::checkpoint::Checkpoint;
use crate::system::device;

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

impl OpenFiles {
    /// No files, for tests that read none.
    #[cfg(test)]
    pub(super) fn none() -> Files {
        Arc::new(Self {
            files: Vec::new(),
            pack: None,
        })
    }

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

/// Reads so many bytes of a file, again if it fails.
///
/// # Errors
/// The file and what is wrong with it.
pub(super) fn read(file: &dyn ReadAt, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut buffer = Buffer::new(span_capacity(len))?;
    let bytes = read_into(file, offset, len, &mut buffer)?;
    Ok(bytes.to_vec())
}

/// As [`read`], into a buffer that is large enough ([`span_capacity`]). Gives the bytes.
///
/// # Errors
/// As [`read`].
pub(super) fn read_into<'b>(
    file: &dyn ReadAt,
    offset: u64,
    len: usize,
    buffer: &'b mut Buffer,
) -> Result<&'b [u8], Error> {
    let pad = retried(|| {
        read_span(file, offset, len, buffer.as_mut_slice())
            .map_err(|cause| Error::read(file.path(), offset, len, cause))
    })?;
    Ok(&buffer.as_slice()[pad..pad + len])
}

/// Opens the files that weights are read from: the shards, and a packed trunk if one is named.
///
/// # Errors
/// One cannot be opened, or the pack does not belong to the checkpoint.
pub fn open_weights(checkpoint: &Checkpoint, trunk: Option<&Path>) -> Result<Files, Error> {
    match trunk {
        Some(trunk) => open_with_pack(checkpoint, trunk),
        None => open_shards(checkpoint),
    }
}

/// Opens every shard.
///
/// # Errors
/// One cannot be opened.
pub fn open_shards(checkpoint: &Checkpoint) -> Result<Files, Error> {
    open_files(checkpoint, None, &direct)
}

/// Opens every shard, and the packed trunk in the folder `pack`.
///
/// # Errors
/// One cannot be opened, or the pack is not whole or not of this checkpoint.
pub fn open_with_pack(checkpoint: &Checkpoint, pack: &Path) -> Result<Files, Error> {
    open_files(checkpoint, Some(pack), &direct)
}

/// Opens every shard, and the packed trunk in the folder `pack` if there is one, in a way that the caller chooses.
///
/// # Errors
/// As [`open_with_pack`].
pub fn open_files(
    checkpoint: &Checkpoint,
    pack: Option<&Path>,
    open: &dyn Fn(&Path) -> io::Result<Box<dyn ReadAt>>,
) -> Result<Files, Error> {
    let shards = 0..checkpoint.shard_count();
    let mut files = shards
        .map(|shard| named(checkpoint.shard_path(shard), open))
        .collect::<Result<Vec<_>, _>>()?;
    let pack = pack.map(|pack| Pack::open(pack, checkpoint)).transpose()?;
    if let Some(pack) = &pack {
        files.push(named(pack.bin(), open)?);
    }
    Ok(Arc::new(OpenFiles { files, pack }))
}

/// Opens a file for direct reads.
///
/// # Errors
/// It cannot be opened.
pub(super) fn open(path: &Path) -> Result<Box<dyn ReadAt>, Error> {
    named(path, &direct)
}

fn direct(path: &Path) -> io::Result<Box<dyn ReadAt>> {
    Ok(Box::new(DirectFile::open(path)?))
}

/// A file that was opened, or an error that names it.
fn named(
    path: &Path,
    open: &dyn Fn(&Path) -> io::Result<Box<dyn ReadAt>>,
) -> Result<Box<dyn ReadAt>, Error> {
    open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })
}
