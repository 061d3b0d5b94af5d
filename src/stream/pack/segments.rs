//! How the file of a pack is cut for hashing and resuming: equal segments on block borders. It knows no tensors.

use std::ops::Range;

use crate::stream::BLOCK;

/// The cut of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    file_len: u64,
    size: u64,
}

impl Segments {
    /// Cuts `payload` bytes, padded to whole blocks, into segments of `size` bytes, which is at least one block.
    pub fn new(payload: u64, size: u64) -> Self {
        Self {
            file_len: payload.next_multiple_of(BLOCK as u64),
            size,
        }
    }

    /// Bytes of the file.
    pub fn file_len(self) -> u64 {
        self.file_len
    }

    /// Segments there are.
    pub fn count(self) -> usize {
        self.file_len.div_ceil(self.size) as usize
    }

    /// The bytes of a segment.
    pub fn range(self, segment: usize) -> Range<u64> {
        let start = segment as u64 * self.size;
        start..self.file_len.min(start + self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_tile_the_padded_file_on_block_borders() {
        for payload in [1, 4095, 4096, 4097, 3 * 8192, 3 * 8192 + 1] {
            let segments = Segments::new(payload, 8192);
            let mut end = 0;
            for i in 0..segments.count() {
                let range = segments.range(i);
                assert!(
                    range.start == end && range.start.is_multiple_of(4096) && !range.is_empty()
                );
                end = range.end;
            }
            assert_eq!(end, segments.file_len());
            assert!(end.is_multiple_of(4096) && end >= payload && end < payload + 4096);
        }
        assert_eq!(Segments::new(0, 4096).count(), 0);
    }
}
