//! The header of one safetensors file: read, validated against the size of the file, and handed out entry by entry.
//! No tree is built and no data is touched.
//!
//! The format: 8 bytes little-endian header length, a JSON object of that length, the tensors' data without gaps.

use std::path::Path;

use super::Error;
pub use super::dtype::Dtype;
use super::header_json::Scan;

/// Bytes before the header: its length.
pub const PREFIX: u64 = 8;
/// The format's own limit on a header. The release's are under 1 MB.
const MAX_HEADER: u64 = 100_000_000;
pub(super) const MAX_RANK: usize = 4;

/// Up to four dimensions, rows first, kept inline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The dimensions; none for a scalar.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..usize::from(self.rank)]
    }

    /// Adds a dimension; false when there are four already.
    pub(super) fn push(&mut self, dim: usize) -> bool {
        let Some(slot) = self.dims.get_mut(usize::from(self.rank)) else {
            return false;
        };
        *slot = dim;
        self.rank += 1;
        true
    }
}

/// One tensor as the header lists it, already checked against the size of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Name, escapes decoded.
    pub name: &'a str,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions.
    pub shape: Shape,
    /// First byte, counted from the end of the header.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Checks the length that a file of `file_len` bytes begins with.
///
/// # Errors
/// [`Error::Header`] when the file cannot hold such a header.
pub fn length(path: &Path, prefix: [u8; PREFIX as usize], file_len: u64) -> Result<usize, Error> {
    let length = u64::from_le_bytes(prefix);
    // Subtracted, because adding 8 to a length near 2^64 wraps around.
    let room = file_len.saturating_sub(PREFIX);
    if length == 0 {
        return Err(Error::header(path, "its header is empty"));
    }
    if length > room {
        let problem = format!(
            "it states a header of {length} bytes but holds only {room} more: it was cut off, or it is something else"
        );
        return Err(Error::header(path, problem));
    }
    if length > MAX_HEADER {
        let problem = format!(
            "it states a header of {length} bytes, more than the format's limit of {MAX_HEADER}"
        );
        return Err(Error::header(path, problem));
    }
    Ok(length as usize)
}

/// Reads a header and hands every tensor to `each`, in the order of the file. `data_len` is what the file holds after
/// the header; the tensors must cover it exactly. Names are not compared with each other: that is `each`'s business,
/// since a name must be unique across files too.
///
/// # Errors
/// [`Error::Header`] for what is wrong in the header, or whatever `each` returned.
pub fn parse(
    path: &Path,
    header: &[u8],
    data_len: u64,
    mut each: impl FnMut(Entry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if header.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Error::header(path, "its header does not begin with '{'"));
    }
    let mut scan = Scan::new(data_len, &mut each);
    let mut outcome = scan.run(header);
    if let Err(error) = &outcome
        && (error.is_syntax() || error.is_eof())
        && let Some(mended) = without_trailing_commas(header)
    {
        outcome = scan.run_again(&mended);
    }
    if let Some(error) = scan.failure {
        return Err(error);
    }
    outcome.map_err(|error| Error::header(path, error.to_string()))?;
    check_tiling(&mut scan.spans, data_len).map_err(|problem| Error::header(path, problem))
}

/// Tensors must follow each other from the first byte of the data to the last; empty ones may stand anywhere.
fn check_tiling(spans: &mut [(u64, u64)], data_len: u64) -> Result<(), String> {
    if !spans.is_sorted() {
        spans.sort_unstable();
    }
    let mut reached = 0;
    for &(start, end) in spans.iter() {
        if start > reached {
            return Err(format!(
                "bytes {reached} to {start} of its data belong to no tensor"
            ));
        }
        if start < reached {
            return Err(format!("two tensors overlap at byte {start} of its data"));
        }
        reached = end;
    }
    if reached < data_len {
        return Err(format!(
            "{} bytes follow the last tensor",
            data_len - reached
        ));
    }
    Ok(())
}

/// A copy with the commas blanked out that stand before a closing bracket outside a string; `None` when there are
/// none. Some writers leave them.
fn without_trailing_commas(text: &[u8]) -> Option<Vec<u8>> {
    let mut copy = text.to_vec();
    let (mut in_string, mut escaped, mut comma, mut changed) = (false, false, None, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => (in_string, comma) = (!in_string, None),
            _ if in_string => {}
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    copy[comma] = b' ';
                    changed = true;
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => comma = None,
        }
    }
    changed.then_some(copy)
}

#[cfg(test)]
mod tests;
