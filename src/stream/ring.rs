//! The ring: segments on their way from disk, read ahead of the computation in the order of use.
//!
//! A buffer belongs to one thread at a time: to the ring while it is free, to a reader while it is read into, to the ring
//! again while it waits, to the computation while it is used. It is handed on by value, so a slot that is being computed
//! on cannot be read into, and nothing is published but by the reader that read it whole.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use super::meters::SlotMeter;
use super::reads::SegmentReads;
use super::retry::retried;
use super::sync::{Builder, Condvar, JoinHandle, Mutex, MutexGuard};
use super::{Buffer, Error, Files, Meters, SlotState, WaitFor};

/// A segment in memory.
pub(super) struct Loaded {
    pub segment: usize,
    pub buffer: Buffer,
    /// Where the bytes of each read begin in the buffer.
    pub starts: Vec<usize>,
    slot: usize,
}

/// The readers and what they have read.
pub(super) struct Ring {
    /// Bytes of all buffers.
    pub allocated: u64,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    files: Files,
    reads: Arc<Vec<SegmentReads>>,
    meters: Arc<Meters>,
    slots: Arc<[SlotMeter]>,
    state: Mutex<State>,
    /// Something to read, and somewhere to read it to.
    work: Condvar,
    /// Something was read.
    ready: Condvar,
}

#[derive(Default)]
struct State {
    /// To be read: place in the order of use, and segment.
    todo: VecDeque<(u64, usize)>,
    /// The next place in the order of use that is given out.
    next: u64,
    free: Vec<(usize, Buffer)>,
    done: BTreeMap<u64, Result<Loaded, Error>>,
    /// Reads that began before the order was thrown away are thrown away as well.
    era: u64,
    /// Expert reads in flight: they go first, since the computation waits for them.
    experts: usize,
    /// The computation waits for the trunk: then nothing goes first.
    starving: bool,
    closing: bool,
}

impl Shared {
    /// A reader that panicked has changed nothing half way: every change of the state is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// A ring of `slots` buffers of `capacity` bytes, with a reader for every two: with one for each, all slots come at the same
    /// time where the drive is slower than the computation, and it stands still until one of them is free again. One slot
    /// reads nothing ahead: it is either read into or computed on.
    ///
    /// # Errors
    /// No memory for the buffers, or the system refuses the threads.
    pub fn new(
        files: Files,
        reads: Arc<Vec<SegmentReads>>,
        slots: usize,
        capacity: usize,
        meters: Arc<Meters>,
    ) -> Result<Self, Error> {
        let buffers = Buffer::several(slots, capacity)?;
        let allocated = buffers.iter().map(|b| b.as_slice().len() as u64).sum();
        let free = buffers.into_iter().enumerate().collect();
        let state = State {
            free,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            files,
            reads,
            slots: meters.register_slots(slots),
            meters,
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
        });
        let mut ring = Self {
            allocated,
            shared,
            threads: Vec::new(),
        };
        for reader in 0..slots.div_ceil(2) {
            let shared = Arc::clone(&ring.shared);
            let thread = Builder::new()
                .name(format!("k3-trunk-{reader}"))
                .spawn(move || read_on(&shared))
                .map_err(|cause| Error::Thread { cause })?;
            ring.threads.push(thread);
        }
        Ok(ring)
    }

    /// Adds segments to the order of use. Gives the place of the first.
    pub fn enqueue(&self, segments: impl IntoIterator<Item = usize>) -> u64 {
        let mut state = self.shared.lock();
        let first = state.next;
        for segment in segments {
            let place = state.next;
            state.next += 1;
            state.todo.push_back((place, segment));
        }
        drop(state);
        self.shared.work.notify_all();
        first
    }

    /// Throws away what was ordered and not used. Gives the next place in the order.
    pub fn flush(&self) -> u64 {
        let mut state = self.shared.lock();
        state.era += 1;
        state.todo.clear();
        let done = std::mem::take(&mut state.done);
        for loaded in done.into_values().flatten() {
            self.shared.slots[loaded.slot].set(SlotState::Empty);
            state.free.push((loaded.slot, loaded.buffer));
        }
        state.next
    }

    /// Waits for the segment at this place of the order.
    ///
    /// # Errors
    /// It could not be read, however often it was tried.
    pub fn take(&self, place: u64) -> Result<Loaded, Error> {
        // Only what is not there is waited for; looking costs no time worth counting.
        let there = self.shared.lock().done.remove(&place);
        let taken = match there {
            Some(taken) => taken,
            None => {
                let meters = &self.shared.meters;
                meters.waiting(WaitFor::Trunk, || self.wait_for(place))
            }
        };
        if let Ok(loaded) = &taken {
            self.shared.slots[loaded.slot].set(SlotState::Computing);
        }
        taken
    }

    fn wait_for(&self, place: u64) -> Result<Loaded, Error> {
        let mut state = self.shared.lock();
        loop {
            if let Some(loaded) = state.done.remove(&place) {
                state.starving = false;
                return loaded;
            }
            if !state.starving {
                state.starving = true;
                self.shared.work.notify_all();
            }
            state = self
                .shared
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives a buffer back when its weights were used.
    pub fn give_back(&self, loaded: Loaded) {
        let mut state = self.shared.lock();
        self.shared.slots[loaded.slot].set(SlotState::Empty);
        state.free.push((loaded.slot, loaded.buffer));
        drop(state);
        self.shared.work.notify_one();
    }

    /// What lets expert reads go first.
    pub fn gate(&self) -> Gate {
        Gate(Arc::clone(&self.shared))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A reader catches its panics; there is nothing to learn here.
            let _ = thread.join();
        }
        self.shared.meters.register_slots(0);
    }
}

/// Lets expert reads go before read-ahead of the trunk, where both are on one drive.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

impl Gate {
    /// An expert read begins; it ends when what is given back is dropped.
    pub fn enter(&self) -> Entered {
        self.0.lock().experts += 1;
        Entered(self.clone())
    }
}

/// An expert read that is going on.
pub struct Entered(Gate);

impl Drop for Entered {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut state = shared.lock();
        state.experts -= 1;
        let last = state.experts == 0;
        drop(state);
        if last {
            shared.work.notify_all();
        }
    }
}

/// A reader's life.
fn read_on(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if state.closing {
            return;
        }
        let may_read = state.experts == 0 || state.starving;
        if state.todo.is_empty() || state.free.is_empty() || !may_read {
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let (Some((place, segment)), Some((slot, mut buffer))) =
            (state.todo.pop_front(), state.free.pop())
        else {
            continue;
        };
        let meter = &shared.slots[slot];
        meter.reading(0, 1);
        let era = state.era;
        drop(state);

        let reads = &shared.reads[segment];
        let read = catch_unwind(AssertUnwindSafe(|| {
            let came = |bytes| meter.reading(bytes, reads.bytes);
            retried(|| reads.read(&shared.files, buffer.as_mut_slice(), &came))
        }))
        .unwrap_or(Err(Error::ReaderFailed));

        state = shared.lock();
        if read.is_ok() {
            shared.meters.trunk_read(reads.bytes);
        }
        if era != state.era {
            meter.set(SlotState::Empty);
            state.free.push((slot, buffer));
        } else {
            let outcome = match read {
                Ok(starts) => {
                    meter.set(SlotState::Ready);
                    Ok(Loaded {
                        segment,
                        buffer,
                        starts,
                        slot,
                    })
                }
                Err(error) => {
                    meter.set(SlotState::Empty);
                    state.free.push((slot, buffer));
                    Err(error)
                }
            };
            state.done.insert(place, outcome);
            shared.ready.notify_all();
        }
        shared.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::OpenFiles;

    #[test]
    fn every_second_slot_has_a_reader_and_a_ring_has_one_at_least() {
        for (slots, readers) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (16, 8)] {
            let (files, meters) = (OpenFiles::none(), Meters::new(1));
            let ring = Ring::new(files, Arc::default(), slots, 5000, meters).unwrap();
            assert_eq!(ring.threads.len(), readers);
            assert_eq!(ring.allocated, slots as u64 * 8192);
        }
    }
}
