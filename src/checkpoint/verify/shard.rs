//! One shard by itself: its header, the names in it, and whether data stands where tensors are.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{impostor, zeros};
use crate::checkpoint::header::{self, PREFIX};
use crate::system::read_at;

/// A shard whose header is right.
pub(super) struct Shard {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes behind the header.
    pub data: u64,
    /// Every tensor's name, in the order of the file.
    pub names: Vec<Box<str>>,
    /// Where zeros stand in place of weights.
    pub zeros: Option<String>,
}

/// Reads a shard's header, and samples of its data.
///
/// # Errors
/// What is wrong with it, without the file's name.
pub(super) fn examine(path: &Path) -> Result<Shard, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err("is named like a shard and is not a file".into());
    }
    if let Some(problem) = impostor::of(path) {
        return Err(problem);
    }
    let bytes = meta.len();
    if bytes < PREFIX {
        return Err(format!("has {bytes} bytes, too few for a header's length"));
    }
    let mut prefix = [0; PREFIX as usize];
    read_exact(&file, &mut prefix, 0).map_err(failed)?;
    // The error names the file, which the fault does already.
    let told = |error: crate::checkpoint::Error| match error {
        crate::checkpoint::Error::Header { problem, .. } => {
            format!("is not a valid safetensors file: {problem}")
        }
        other => other.to_string(),
    };
    let length = header::length(path, prefix, bytes).map_err(told)?;
    let mut text = vec![0; length];
    read_exact(&file, &mut text, PREFIX).map_err(failed)?;
    let base = PREFIX + length as u64;
    let data = bytes - base;
    let mut names = Vec::new();
    let mut places = zeros::Places::default();
    header::parse(path, &text, data, |entry| {
        names.push(entry.name.into());
        places.consider(entry.name, entry.start, entry.bytes);
        Ok(())
    })
    .map_err(told)?;
    let zeros = places.find(&file, base).map_err(failed)?;
    Ok(Shard {
        bytes,
        data,
        names,
        zeros,
    })
}

/// Fills `buf` from byte `offset` of a file.
pub(super) fn read_exact(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match read_at(file, &mut buf[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
