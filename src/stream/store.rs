//! The expert store: slots that reader threads fill, and a policy that decides which experts stay in them.
//!
//! A slot's buffer belongs to the store while its expert is resident, and to a reader while it is read into: it is handed
//! over by value, so nothing is computed from a slot that is being filled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::retry::retried;
use super::shape::slot;
use super::sync::{Builder, JoinHandle, Receiver, Sender, unbounded};
use super::{
    BLOCK, Buffer, Error, ExpertCounters, ExpertWeights, Experts, Files, Gate, Meters, Policy,
    WaitFor, Wanted, read_span, span_capacity,
};
use crate::checkpoint::names::ExpertPart;
use crate::checkpoint::{Checkpoint, ExpertAt, ExpertPlace};

/// Readers, and so reads in flight at most.
const READERS: usize = 8;

/// Where an expert's bytes stand in its slot: how far in front of them the read began.
type Pad = usize;

/// A slot that no reader has.
struct Slot {
    buffer: Buffer,
    pad: Pad,
}

/// A read to be done.
struct Job {
    slot: usize,
    buffer: Buffer,
    place: ExpertPlace,
}

/// A read that was done.
struct Done {
    slot: usize,
    buffer: Buffer,
    read: Result<Pad, Error>,
}

/// What the readers share.
struct Shared {
    checkpoint: Arc<Checkpoint>,
    files: Files,
    gate: Option<Gate>,
}

/// A wanted expert that is not handed out yet.
#[derive(Clone, Copy)]
struct Pending {
    /// Its place in the request.
    index: usize,
    expert: usize,
}

/// Experts of a checkpoint, some of them kept.
pub struct ExpertStore {
    shared: Arc<Shared>,
    policy: Policy,
    /// None while a reader has the slot's buffer.
    slots: Vec<Option<Slot>>,
    /// Bytes of all slots' buffers.
    allocated: u64,
    layer: usize,
    /// Not resident, and no slot for them yet; ascending.
    waiting: std::collections::VecDeque<Pending>,
    /// Being read, by slot.
    reading: Vec<Option<Pending>>,
    /// In memory and not handed out: slot, and place in the request.
    here: Vec<(usize, usize)>,
    /// Handed out at the last call; computed with by the next.
    out: Vec<usize>,
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    meters: Arc<Meters>,
}

impl ExpertStore {
    /// A store of `slots` experts over the shards' files, in order. With a `gate` its reads go before what that trunk
    /// reads ahead.
    ///
    /// # Errors
    /// No memory for the slots, or the system refuses the threads.
    pub fn new(
        checkpoint: Arc<Checkpoint>,
        files: Files,
        slots: usize,
        gate: Option<Gate>,
    ) -> Result<Self, Error> {
        let meters = Meters::new(checkpoint.config().layers());
        Self::metered(checkpoint, files, slots, gate, meters)
    }

    /// As [`Self::new`], counting on these meters.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn metered(
        checkpoint: Arc<Checkpoint>,
        files: Files,
        slots: usize,
        gate: Option<Gate>,
        meters: Arc<Meters>,
    ) -> Result<Self, Error> {
        let config = checkpoint.config();
        meters.expert_bytes(checkpoint.expert_layout().bytes());
        let policy = Policy::new(slots, config.layers(), config.moe.experts);
        let capacity = slot_bytes(&checkpoint);
        let buffers = Buffer::several(slots, capacity)?;
        let allocated = buffers.iter().map(|b| b.as_slice().len() as u64).sum();
        let buffers = buffers
            .into_iter()
            .map(|buffer| Some(Slot { buffer, pad: 0 }))
            .collect();
        let shared = Arc::new(Shared {
            checkpoint,
            files,
            gate,
        });
        let (jobs, to_do) = unbounded::<Job>();
        let (tell, done) = unbounded();
        let mut store = Self {
            shared,
            policy,
            reading: vec![None; slots],
            slots: buffers,
            allocated,
            layer: 0,
            waiting: std::collections::VecDeque::new(),
            here: Vec::new(),
            out: Vec::new(),
            jobs: Some(jobs),
            done,
            threads: Vec::new(),
            meters,
        };
        for reader in 0..READERS.min(slots) {
            let (shared, to_do, tell) = (Arc::clone(&store.shared), to_do.clone(), tell.clone());
            let thread = Builder::new()
                .name(format!("k3-expert-{reader}"))
                .spawn(move || read_jobs(&shared, &to_do, &tell))
                .map_err(|cause| Error::Thread { cause })?;
            store.threads.push(thread);
        }
        Ok(store)
    }

    /// Bytes of all slots' buffers.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Gives slots to waiting experts and their reads to the readers, as far as slots are free.
    fn send(&mut self) -> Result<(), Error> {
        while let Some(&pending) = self.waiting.front() {
            let Some(slot) = self.policy.admit(self.layer, pending.expert) else {
                return Ok(());
            };
            self.waiting.pop_front();
            let place = self.shared.checkpoint.expert(self.layer, pending.expert)?;
            let Some(Slot { buffer, .. }) = self.slots[slot].take() else {
                // The policy gives out only slots that are not in use, and a slot that is read into is.
                return Err(Error::ReaderFailed);
            };
            self.reading[slot] = Some(pending);
            let job = Job {
                slot,
                buffer,
                place,
            };
            if self
                .jobs
                .as_ref()
                .is_none_or(|jobs| jobs.send(job).is_err())
            {
                return Err(Error::ReaderFailed);
            }
        }
        Ok(())
    }

    /// Takes a finished read in.
    fn receive(&mut self, done: Done) -> Result<(), Error> {
        let Done { slot, buffer, read } = done;
        let pending = self.reading[slot].take();
        match read {
            Ok(pad) => {
                self.slots[slot] = Some(Slot { buffer, pad });
                self.meters.expert_read(self.layer);
                match pending {
                    Some(pending) => self.here.push((slot, pending.index)),
                    // Its request was forgotten; what was read is good all the same.
                    None => self.policy.release(slot),
                }
                Ok(())
            }
            Err(error) => {
                self.slots[slot] = Some(Slot { buffer, pad: 0 });
                self.policy.discard(slot);
                // What nobody waits for any more is no drop.
                let Some(pending) = pending else {
                    return Ok(());
                };
                self.meters.expert_dropped(self.layer);
                Err(Error::Expert {
                    layer: self.layer,
                    expert: pending.expert,
                    cause: Box::new(error),
                })
            }
        }
    }

    fn wait(&mut self) -> Result<Done, Error> {
        let done = &self.done;
        let wait = || done.recv().map_err(|_| Error::ReaderFailed);
        self.meters.waiting(WaitFor::Experts, wait)
    }
}

/// Bytes of a slot: an expert in one run or in six parts, and room to widen the reads.
fn slot_bytes(checkpoint: &Checkpoint) -> usize {
    slot(checkpoint.expert_layout().bytes(), 1) as usize
}

impl Experts for ExpertStore {
    fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Result<(), Error> {
        // What an earlier request left: reads that are on their way are waited for, since their slots come back only so.
        self.waiting.clear();
        for pending in &mut self.reading {
            *pending = None;
        }
        while self.slots.iter().any(Option::is_none) {
            let done = self.wait()?;
            self.receive(done)?;
        }
        for slot in self.out.drain(..) {
            self.policy.release(slot);
        }
        for (slot, _) in self.here.drain(..) {
            self.policy.release(slot);
        }

        self.layer = layer;
        let resident = self.policy.request(layer, wanted);
        let retained = resident.iter().flatten().count();
        self.meters.experts_requested(layer, wanted.len(), retained);
        for (index, (wanted, slot)) in wanted.iter().zip(resident).enumerate() {
            match slot {
                Some(slot) => self.here.push((slot, index)),
                None => self.waiting.push_back(Pending {
                    index,
                    expert: wanted.expert,
                }),
            }
        }
        self.send()
    }

    fn arrived(&mut self) -> Result<Option<Vec<(usize, ExpertWeights<'_>)>>, Error> {
        for slot in self.out.drain(..) {
            self.policy.release(slot);
        }
        self.send()?;
        while let Ok(done) = self.done.try_recv() {
            self.receive(done)?;
        }
        while self.here.is_empty() {
            if self.reading.iter().all(Option::is_none) {
                return Ok(None);
            }
            let done = self.wait()?;
            self.receive(done)?;
        }
        let here = std::mem::take(&mut self.here);
        self.out.extend(here.iter().map(|(slot, _)| *slot));
        let layout = self.shared.checkpoint.expert_layout();
        let weights = here.into_iter().filter_map(|(slot, index)| {
            let slot = self.slots[slot].as_ref()?;
            let bytes = &slot.buffer.as_slice()[slot.pad..];
            Some((index, ExpertWeights::in_run(bytes, layout)))
        });
        Ok(Some(weights.collect()))
    }

    fn counters(&self) -> ExpertCounters {
        self.meters.experts()
    }
}

impl Drop for ExpertStore {
    fn drop(&mut self) {
        // Without a sender the readers end.
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A reader's life.
fn read_jobs(shared: &Shared, to_do: &Receiver<Job>, tell: &Sender<Done>) {
    while let Ok(Job {
        slot,
        mut buffer,
        place,
    }) = to_do.recv()
    {
        let _first = shared.gate.as_ref().map(Gate::enter);
        let read = catch_unwind(AssertUnwindSafe(|| {
            retried(|| read_expert(shared, place, buffer.as_mut_slice()))
        }))
        .unwrap_or(Err(Error::ReaderFailed));
        if tell.send(Done { slot, buffer, read }).is_err() {
            return;
        }
    }
}

/// Reads an expert: one run, or six parts put into the order of a run.
fn read_expert(shared: &Shared, place: ExpertPlace, buffer: &mut [u8]) -> Result<Pad, Error> {
    let file = shared.files[usize::from(place.shard)].as_ref();
    let layout = shared.checkpoint.expert_layout();
    let span = |offset, len, buffer: &mut [u8]| {
        read_span(file, offset, len, buffer)
            .map_err(|source| Error::read(file.path(), offset, len, source))
    };
    match place.at {
        ExpertAt::Run { offset } => span(offset, layout.bytes() as usize, buffer),
        ExpertAt::Parts { offsets } => {
            // Parts need not be aligned to each other, so each is read apart and moved into its place.
            for (part, offset) in ExpertPart::ALL.into_iter().zip(offsets) {
                let range = layout.part(part).range();
                let mut aside = Buffer::new(span_capacity(range.len()).next_multiple_of(BLOCK))?;
                let pad = span(offset, range.len(), aside.as_mut_slice())?;
                let len = range.len();
                buffer[range].copy_from_slice(&aside.as_slice()[pad..pad + len]);
            }
            Ok(0)
        }
    }
}
