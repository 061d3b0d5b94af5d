//! Any run of bytes by direct reads: widened outward to whole blocks, asked for in requests of a size that every
//! system takes, and gone on with after a short read. It reads from a [`ReadAt`] and knows no file system.

use std::io;

use super::buffer::BLOCK;
use super::direct::ReadAt;
use crate::checkpoint::shards::MAX_REQUEST;

/// A run of payload bytes and the whole blocks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where the blocks begin in the file, in bytes.
    pub start: u64,
    /// Bytes before the payload.
    pub pad: usize,
    /// Bytes of the blocks, a multiple of [`BLOCK`].
    pub bytes: usize,
}

impl Span {
    /// The blocks around `offset..offset + len`, or `None` beyond what a file can hold.
    pub fn around(offset: u64, len: usize) -> Option<Self> {
        let start = offset - offset % BLOCK as u64;
        let pad = (offset - start) as usize;
        let bytes = pad.checked_add(len)?.checked_next_multiple_of(BLOCK)?;
        // Systems count file offsets in signed 64 bits.
        let end = start.checked_add(bytes as u64)?;
        (end <= i64::MAX as u64).then_some(Self { start, pad, bytes })
    }
}

/// Bytes that a buffer must have for a run of `len` bytes wherever it begins; also a stride that keeps every one of
/// several such runs in one buffer aligned.
pub const fn span_capacity(len: usize) -> usize {
    len.saturating_add(BLOCK - 1).saturating_add(BLOCK - 1) / BLOCK * BLOCK
}

/// Reads `len` bytes from byte `offset` of the file and returns the pad: the payload is `buf[pad..pad + len]`, what
/// stands around it is undefined. `buf` must start on a [`BLOCK`] border when the file is direct, and hold the blocks
/// around the payload ([`span_capacity`] is always enough). A short read is gone on from, an interrupted one repeated.
///
/// # Errors
/// `UnexpectedEof` when the file ends before the payload does, `InvalidInput` for a buffer that is too small or not
/// aligned, else what the system says. The message does not name the file: the caller knows [`ReadAt::path`].
pub fn read_span(file: &dyn ReadAt, offset: u64, len: usize, buf: &mut [u8]) -> io::Result<usize> {
    let invalid = |problem: &str| io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned());
    let span = Span::around(offset, len).ok_or_else(|| ended(file.len(), offset, len, 0))?;
    let buf = buf
        .get_mut(..span.bytes)
        .ok_or_else(|| invalid("the buffer is smaller than the blocks around the bytes to read"))?;
    if file.direct() && !buf.as_ptr().addr().is_multiple_of(BLOCK) {
        return Err(invalid("the buffer of a direct read is not aligned"));
    }
    let wanted = span.pad + len;
    // How far the bytes are there, and how far the request before the last had got: a request must get further.
    let mut done = 0;
    while done < wanted {
        // Direct reads must begin on a block: what came of the block that a short read ended in is read again.
        let from = if file.direct() {
            done - done % BLOCK
        } else {
            done
        };
        let to = buf.len().min(from + MAX_REQUEST);
        match file.read_at(span.start + from as u64, &mut buf[from..to]) {
            // A file ends inside a block: repeating a read that ended there brings nothing new.
            Ok(count) if from + count <= done => {
                let payload = done.saturating_sub(span.pad);
                return Err(ended(span.start + done as u64, offset, len, payload));
            }
            Ok(count) => done = from + count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(span.pad)
}

fn ended(at: u64, offset: u64, len: usize, came: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!(
            "the file ends at byte {at}, so only {came} of the {len} bytes from byte {offset} came; it was cut, or \
             its header is wrong"
        ),
    )
}
