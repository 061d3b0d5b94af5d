//! Pinned segments: loaded once into one run of memory, without gaps, so that they take the bytes that they have. Which
//! ones they are is decided elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::reads::SegmentReads;
use super::{Buffer, Error, ReadAt};

/// Readers that load, and so reads in flight.
const READERS: usize = 4;
/// What a reader reads at once. A read lands aside and is moved to its place: neighbours in the arena are none on disk,
/// so they could not both be read into place aligned.
const PORTION: usize = 4 << 20;

/// Segments that stay in memory.
#[derive(Default)]
pub(super) struct Arena {
    buffer: Option<Buffer>,
    /// By segment: where its extents begin, if it is here.
    starts: Vec<Option<Vec<usize>>>,
}

impl Arena {
    /// Loads the segments to be pinned, several at once.
    ///
    /// # Errors
    /// One cannot be read, however often it is tried, or there is no memory.
    pub fn load(
        reads: &[SegmentReads],
        pinned: &[bool],
        files: &[Box<dyn ReadAt>],
    ) -> Result<Self, Error> {
        let here = || reads.iter().zip(pinned).filter(|(_, pinned)| **pinned);
        let bytes = here().map(|(reads, _)| reads.bytes as usize).sum();
        if bytes == 0 {
            return Ok(Self::default());
        }
        let mut buffer = Buffer::new(bytes)?;
        let mut rest = buffer.as_mut_slice();
        let mut todo = Vec::new();
        let mut at = 0;
        let starts = reads
            .iter()
            .zip(pinned)
            .map(|(reads, pinned)| {
                pinned.then(|| {
                    let (mine, others) =
                        std::mem::take(&mut rest).split_at_mut(reads.bytes as usize);
                    rest = others;
                    let starts = reads.packed(at);
                    at += mine.len();
                    todo.push((reads, mine));
                    starts
                })
            })
            .collect();

        let largest = here().map(|(reads, _)| reads.capacity).max().unwrap_or(0);
        let todo = Mutex::new(todo.into_iter());
        let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
        let load = || {
            let mut aside = Buffer::new(largest.min(PORTION))?;
            while let Some((reads, mine)) = next() {
                reads.read_packed(files, aside.as_mut_slice(), mine)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            // Where the system gives no more threads, those that are there read all.
            let helper = |_| std::thread::Builder::new().spawn_scoped(scope, load).ok();
            let helpers: Vec<_> = (1..READERS).map_while(helper).collect();
            let mine = catch_unwind(AssertUnwindSafe(load)).unwrap_or(Err(Error::ReaderFailed));
            helpers
                .into_iter()
                .map(|helper| helper.join().unwrap_or(Err(Error::ReaderFailed)))
                .fold(mine, Result::and)
        })?;
        Ok(Self {
            buffer: Some(buffer),
            starts,
        })
    }

    /// Where a segment's bytes are, if it is here: the buffer, and where its extents begin.
    pub fn segment(&self, segment: usize) -> Option<(&[u8], &[usize])> {
        let starts = self.starts.get(segment)?.as_deref()?;
        Some((self.buffer.as_ref()?.as_slice(), starts))
    }

    /// Bytes of memory.
    pub fn allocated(&self) -> u64 {
        let buffer = self.buffer.as_ref();
        buffer.map_or(0, |buffer| buffer.as_slice().len() as u64)
    }
}
