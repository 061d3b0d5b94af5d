//! What has to be read for a segment, and where each of its runs stands in the buffer then.

use super::retry::retried;
use super::span::{read_span, read_span_in};
use super::{BLOCK, Error, OpenFiles, ReadAt, Segment, Walk, span_capacity};
use crate::checkpoint::Checkpoint;

/// Bytes of one request. Nothing reads faster in larger ones (`benches/README.md`, io), and what has come of a segment is
/// known after each.
const REQUEST: usize = 8 << 20;

/// One contiguous stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    file: usize,
    offset: u64,
    len: usize,
    /// Where its blocks begin in the buffer, a multiple of [`BLOCK`].
    at: usize,
}

/// Where a run's bytes are: in which extent, and from where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    extent: usize,
    start: usize,
    len: usize,
}

/// The reads of one segment. Runs that are neighbours on disk are one read.
#[derive(Clone, Debug)]
pub(super) struct SegmentReads {
    extents: Vec<Extent>,
    places: Vec<Place>,
    /// Bytes that a buffer for [`Self::read`] must have.
    pub capacity: usize,
    /// Bytes of weights.
    pub bytes: u64,
}

impl SegmentReads {
    /// Where the segment's runs are, in shards or pack.
    ///
    /// # Errors
    /// A tensor is missing.
    pub fn new(
        segment: &Segment,
        walk: &Walk,
        checkpoint: &Checkpoint,
        files: &OpenFiles,
    ) -> Result<Self, Error> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut places = Vec::with_capacity(segment.len());
        for run in segment {
            let tensor = walk.tensor(run);
            let on_disk = files.place(checkpoint, &tensor.name)?;
            let row_bytes = 2 * tensor.columns;
            let offset = on_disk.offset + (run.rows.start * row_bytes) as u64;
            let len = run.rows.len() * row_bytes;
            let count = extents.len();
            match extents.last_mut() {
                // A neighbour on disk: read together with the run before it.
                Some(last)
                    if last.file == on_disk.file && last.offset + last.len as u64 == offset =>
                {
                    places.push(Place {
                        extent: count - 1,
                        start: last.len,
                        len,
                    });
                    last.len += len;
                }
                _ => {
                    places.push(Place {
                        extent: count,
                        start: 0,
                        len,
                    });
                    extents.push(Extent {
                        file: on_disk.file,
                        offset,
                        len,
                        at: 0,
                    });
                }
            }
        }
        let mut capacity = 0;
        for extent in &mut extents {
            extent.at = capacity;
            capacity += span_capacity(extent.len).next_multiple_of(BLOCK);
        }
        let bytes = extents.iter().map(|e| e.len as u64).sum();
        Ok(Self {
            extents,
            places,
            capacity,
            bytes,
        })
    }

    /// Reads all of it into `buffer`. Gives where the bytes of each extent begin there, for [`Self::run`]. On the way `came`
    /// hears how many bytes of weights are there.
    ///
    /// # Errors
    /// The first read that fails, with the file it was of and the offset.
    pub fn read(
        &self,
        files: &[Box<dyn ReadAt>],
        buffer: &mut [u8],
        came: &dyn Fn(u64),
    ) -> Result<Vec<usize>, Error> {
        let mut before = 0;
        came(before);
        self.extents
            .iter()
            .map(|extent| {
                let file = files[extent.file].as_ref();
                let end = extent.at + span_capacity(extent.len);
                let buffer = &mut buffer[extent.at..end];
                let told = |bytes| came(before + bytes as u64);
                let pad = read_span_in(REQUEST, file, extent.offset, extent.len, buffer, told)
                    .map_err(|cause| Error::read(file.path(), extent.offset, extent.len, cause))?;
                before += extent.len as u64;
                Ok(extent.at + pad)
            })
            .collect()
    }

    /// Reads all of it into `packed`, which is as long as its bytes, without gaps: in portions of the length of `aside`
    /// (whole blocks), each tried again if it fails and then moved into its place.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_packed(
        &self,
        files: &[Box<dyn ReadAt>],
        aside: &mut [u8],
        packed: &mut [u8],
    ) -> Result<(), Error> {
        let mut at = 0;
        for extent in &self.extents {
            let file = files[extent.file].as_ref();
            let end = extent.offset + extent.len as u64;
            let mut offset = extent.offset;
            while offset < end {
                // Up to a border of blocks, so that no block is read twice.
                let border = offset - offset % BLOCK as u64 + aside.len() as u64;
                let len = (end.min(border) - offset) as usize;
                let pad = retried(|| {
                    read_span(file, offset, len, aside)
                        .map_err(|cause| Error::read(file.path(), offset, len, cause))
                })?;
                packed[at..at + len].copy_from_slice(&aside[pad..pad + len]);
                (at, offset) = (at + len, offset + len as u64);
            }
        }
        Ok(())
    }

    /// Where the bytes of each extent begin when all of them stand without gaps from `start` on, for [`Self::run`].
    pub fn packed(&self, start: usize) -> Vec<usize> {
        let lengths = self.extents.iter().map(|extent| extent.len);
        let starts = lengths.scan(start, |next, len| {
            let start = *next;
            *next += len;
            Some(start)
        });
        starts.collect()
    }

    /// The bytes of run number `run` in a buffer where the extents begin so.
    pub fn run<'b>(&self, run: usize, buffer: &'b [u8], starts: &[usize]) -> &'b [u8] {
        let Place { extent, start, len } = self.places[run];
        let start = starts[extent] + start;
        &buffer[start..start + len]
    }
}
