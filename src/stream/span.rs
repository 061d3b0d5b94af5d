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
    read_span_in(MAX_REQUEST, file, offset, len, buf, |_| {})
}

/// As [`read_span`], in requests of at most `most` bytes, a multiple of [`BLOCK`]. After each, `came` hears how many bytes
/// of the payload are there.
///
/// # Errors
/// As [`read_span`].
pub(super) fn read_span_in(
    most: usize,
    file: &dyn ReadAt,
    offset: u64,
    len: usize,
    buf: &mut [u8],
    mut came: impl FnMut(usize),
) -> io::Result<usize> {
    let invalid = |problem: &str| io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned());
    let span = Span::around(offset, len).ok_or_else(|| ended(file.len(), offset, len, 0))?;
    let buf = buf
        .get_mut(..span.bytes)
        .ok_or_else(|| invalid("the buffer is smaller than the blocks around the bytes to read"))?;
    if file.direct() && !buf.as_ptr().addr().is_multiple_of(BLOCK) {
        return Err(invalid("the buffer of a direct read is not aligned"));
    }
    let wanted = span.pad + len;
    // Bytes that are there, from the start of the span.
    let mut done = 0;
    while done < wanted {
        // Direct reads must begin on a block: what came of the block that a short read ended in is read again.
        let from = if file.direct() {
            done - done % BLOCK
        } else {
            done
        };
        let to = buf.len().min(from + most);
        match file.read_at(span.start + from as u64, &mut buf[from..to]) {
            // A file ends inside a block: repeating a read that ended there brings nothing new.
            Ok(count) if from + count <= done => {
                let payload = done.saturating_sub(span.pad);
                return Err(ended(span.start + done as u64, offset, len, payload));
            }
            Ok(count) => {
                done = from + count;
                came(done.saturating_sub(span.pad).min(len));
            }
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};

    use super::*;
    use crate::stream::faulty::{Fault, Faulty, Gate, When};
    use crate::stream::{Buffer, DirectFile};

    /// A byte that tells its place in the file.
    fn byte_at(at: u64) -> u8 {
        (at ^ (at >> 8) ^ (at >> 16).wrapping_mul(7)) as u8
    }

    /// A file of `len` such bytes, and the folder that goes with it.
    fn file_of(len: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..len).map(byte_at).collect();
        std::fs::write(&path, content).unwrap();
        (dir, path)
    }

    /// Both ways to read the file.
    fn both_ways(path: &std::path::Path) -> [DirectFile; 2] {
        let direct = DirectFile::open(path).unwrap();
        if !direct.direct() {
            println!("direct reads NOT RUN: the temporary folder's file system has none");
        }
        [direct, DirectFile::open_buffered(path).unwrap()]
    }

    /// Reads and compares.
    fn check(file: &dyn ReadAt, offset: u64, len: usize) {
        let mut buffer = Buffer::new(span_capacity(len)).unwrap();
        let pad = read_span(file, offset, len, buffer.as_mut_slice()).unwrap();
        assert_eq!(pad as u64, offset % BLOCK as u64);
        let payload = &buffer.as_slice()[pad..pad + len];
        let right = (offset..).map(byte_at);
        assert!(
            payload.iter().copied().eq(right.take(len)),
            "{offset}+{len}"
        );
    }

    #[test]
    fn a_span_is_the_fewest_blocks_around_and_fits_its_capacity() {
        const B: usize = BLOCK;
        for len in [0, 1, 2, 511, B - 1, B, B + 1, 17_547_264, (1 << 30) + 3] {
            let mut largest = 0;
            for offset in (0..2 * B as u64).chain([(1 << 40) + 4095]) {
                let Span { start, pad, bytes } = Span::around(offset, len).unwrap();
                assert!(start.is_multiple_of(B as u64) && bytes.is_multiple_of(B) && pad < B);
                assert_eq!(start + pad as u64, offset);
                assert!(bytes >= pad + len && bytes < pad + len + B);
                largest = largest.max(bytes);
            }
            // Not a block more than the worst offset needs.
            assert_eq!(span_capacity(len), largest, "{len}");
        }
        assert_eq!(Span::around(u64::MAX, 1), None);
        assert_eq!(Span::around(i64::MAX as u64, 2), None);
        assert_eq!(Span::around(0, usize::MAX), None);
    }

    #[test]
    fn any_offset_gives_its_payload() {
        let len = 5 * BLOCK as u64 + 1234;
        let (_dir, path) = file_of(len);
        for file in both_ways(&path) {
            for offset in [0, 1, 511, 512, 4095, 4096, 4097, 8191, 12_288, 12_289] {
                for bytes in [0, 1, 2, 4095, 4096, 4097, 8192] {
                    check(&file, offset, bytes);
                }
                // To the last byte of a file that is no multiple of a block.
                check(&file, offset, (len - offset) as usize);
            }
            check(&file, len - 1, 1);
            check(&file, len, 0);
        }
    }

    #[test]
    fn the_end_of_the_file_is_an_error_that_says_where() {
        for len in [2 * BLOCK as u64, 2 * BLOCK as u64 + 100] {
            let (_dir, path) = file_of(len);
            for file in both_ways(&path) {
                let mut buffer = Buffer::new(16 * BLOCK).unwrap();
                for (offset, bytes) in [(len - 10, 11), (len, 1), (len + 9000, 1), (3, 9999)] {
                    let error = read_span(&file, offset, bytes, buffer.as_mut_slice()).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    let message = error.to_string();
                    let came = len.saturating_sub(offset).min(bytes as u64);
                    assert!(
                        message.contains(&format!(
                            "only {came} of the {bytes} bytes from byte {offset} "
                        )) && (offset > len || message.contains(&format!("ends at byte {len},"))),
                        "{message}"
                    );
                }
                for offset in [u64::MAX, i64::MAX as u64] {
                    let error = read_span(&file, offset, 2, buffer.as_mut_slice()).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                }
            }
        }
    }

    /// Trouble report 8: "short read" and EINVAL came from systems on which one read may not reach 2 GiB. Windows of a file of
    /// holes are read around the borders; one span over two requests shows that they meet.
    #[test]
    fn files_and_spans_beyond_the_limits_of_one_request() {
        const GIB: u64 = 1 << 30;
        let len = 5 * GIB + 77;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("holes");
        let mut file = File::create(&path).unwrap();
        file.set_len(len).unwrap();
        let marks = [GIB - 1, 2 * GIB - 1, 2 * GIB, 4 * GIB - 2, 4 * GIB, len - 2];
        for at in marks {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[byte_at(at) | 1, 0xAB]).unwrap();
        }
        drop(file);
        for file in both_ways(&path) {
            let mut buffer = Buffer::new(span_capacity(10_000)).unwrap();
            for at in marks {
                let len = (len - at + 1).min(10_000) as usize;
                let pad = read_span(&file, at - 1, len, buffer.as_mut_slice()).unwrap();
                let payload = &buffer.as_slice()[pad..pad + len];
                // The later of two marks side by side was written over the earlier one's second byte.
                let second = if at == 2 * GIB - 1 {
                    byte_at(2 * GIB) | 1
                } else {
                    0xAB
                };
                assert_eq!(payload[1..3], [byte_at(at) | 1, second], "{at}");
            }
        }
        // No memory for 1 GiB of payload: a file that counts requests and touches nothing stands in for it.
        struct Requests(std::sync::Mutex<Vec<(u64, usize)>>);
        impl ReadAt for Requests {
            fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
                self.0.lock().unwrap().push((offset, buf.len()));
                Ok(buf.len())
            }
            fn len(&self) -> u64 {
                u64::MAX
            }
            fn direct(&self) -> bool {
                true
            }
            fn path(&self) -> &std::path::Path {
                std::path::Path::new("requests")
            }
        }
        let file = Requests(std::sync::Mutex::default());
        let payload = 2 * GIB as usize + 5;
        let mut buffer = Buffer::new(span_capacity(payload)).unwrap();
        let pad = read_span(&file, GIB + 4095, payload, buffer.as_mut_slice()).unwrap();
        assert_eq!(pad, 4095);
        let gib = GIB as usize;
        let requests = [(GIB, gib), (2 * GIB, gib), (3 * GIB, 2 * BLOCK)];
        assert_eq!(*file.0.lock().unwrap(), requests);
    }

    #[test]
    fn interruptions_and_short_reads_are_gone_on_from() {
        let (_dir, path) = file_of(9 * BLOCK as u64 + 5);
        for file in both_ways(&path) {
            let file = Faulty::new(file);
            // Short reads that end on, before and after the borders of blocks and before the payload.
            let shorts = [4096, 4095, 4097, 5000, 12_287, 1];
            for (i, short) in shorts.into_iter().enumerate() {
                let first = file.reads();
                file.fail(
                    When::Nth(first),
                    1,
                    Fault::Error(io::ErrorKind::Interrupted),
                );
                file.fail(When::Nth(first + 1), 1, Fault::Short(short));
                file.fail(
                    When::Nth(first + 2),
                    1,
                    Fault::Error(io::ErrorKind::Interrupted),
                );
                check(&file, 4100 + i as u64, 30_000);
                assert_eq!(file.reads(), first + 4, "{short}");
            }
        }
    }

    #[test]
    fn many_harmless_faults_change_nothing() {
        let (_dir, path) = file_of(40 * BLOCK as u64);
        let mut reads = 0;
        for seed in 0..20 {
            for file in both_ways(&path) {
                let file = Faulty::new(file);
                let harmless = vec![
                    Fault::Error(io::ErrorKind::Interrupted),
                    Fault::Short(2 * BLOCK),
                    Fault::Short(3 * BLOCK + 9),
                ];
                file.fail_by_seed(seed, 2, harmless);
                for offset in [5, 4096, 70_001] {
                    check(&file, offset, 60_000);
                }
                reads += file.reads();
            }
        }
        // Without faults it would be one for each of 20 seeds, 2 files and 3 spans.
        assert!(reads > 180, "the seeds brought few faults: {reads} reads");
    }

    #[test]
    fn errors_come_through_and_a_later_try_is_right() {
        let (_dir, path) = file_of(9 * BLOCK as u64);
        for file in both_ways(&path) {
            let file = Faulty::new(file);
            let mut buffer = Buffer::new(span_capacity(9000)).unwrap();
            for kind in [io::ErrorKind::NotFound, io::ErrorKind::Other] {
                file.fail(When::Within(8000..8001), 1, Fault::Error(kind));
                let error = read_span(&file, 100, 9000, buffer.as_mut_slice()).unwrap_err();
                assert_eq!(error.kind(), kind);
                check(&file, 100, 9000);
            }
            file.cut(8200);
            let error = read_span(&file, 100, 9000, buffer.as_mut_slice()).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("ends at byte 8200, so only 8100"),
                "{error}"
            );
            check(&file, 100, 8100);
        }
    }

    #[test]
    fn a_stalled_read_holds_up_no_other() {
        let (_dir, path) = file_of(9 * BLOCK as u64);
        let (file, gate) = (Faulty::new(DirectFile::open(&path).unwrap()), Gate::new());
        file.fail(When::Within(0..10), 1, Fault::Stall(gate.clone()));
        std::thread::scope(|scope| {
            let stalled = scope.spawn(|| check(&file, 3, 5000));
            gate.wait_for(1);
            check(&file, 8192, 5000);
            assert!(!stalled.is_finished());
            gate.open();
        });
    }

    #[test]
    fn wrong_buffers_are_refused_before_anything_is_read() {
        let (_dir, path) = file_of(4 * BLOCK as u64);
        for file in both_ways(&path) {
            let file = Faulty::new(file);
            let mut buffer = Buffer::new(4 * BLOCK).unwrap();
            let all = buffer.as_mut_slice();
            let kind = |result: io::Result<usize>| result.err().map(|error| error.kind());
            let refused = Some(io::ErrorKind::InvalidInput);
            // One byte over a border needs two blocks.
            assert_eq!(kind(read_span(&file, 4095, 2, &mut all[..BLOCK])), refused);
            let unaligned = read_span(&file, 0, 100, &mut all[512..]);
            assert_eq!(kind(unaligned), if file.direct() { refused } else { None });
            assert_eq!(file.reads(), u64::from(!file.direct()));
        }
    }
}
