//! The expert that is needed last goes, or does not get in (Belady, "A study of replacement algorithms", 1966). It is
//! decided a layer's call at a time, with all of the call's experts at hand, as every engine computes a layer: so no
//! policy reads less, in whatever order it serves the experts of a call.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::super::trace::{Call, Step};
use super::{Cache, Key};

/// A cache that knows what will be asked.
pub(super) struct Belady {
    slots: usize,
    /// Calls still to come that need an expert, by number.
    uses: HashMap<Key, VecDeque<usize>>,
    /// What is kept, with the next call that needs it.
    kept: BTreeSet<(usize, Key)>,
    now: usize,
}

impl Belady {
    pub(super) fn new(slots: usize, steps: &[Step]) -> Self {
        let mut uses: HashMap<Key, VecDeque<usize>> = HashMap::new();
        for (now, call) in steps.iter().flatten().enumerate() {
            for expert in experts(call) {
                uses.entry((call.layer, expert)).or_default().push_back(now);
            }
        }
        Self {
            slots,
            uses,
            kept: BTreeSet::new(),
            now: 0,
        }
    }
}

/// The experts of a call, each once.
fn experts(call: &Call) -> HashSet<usize> {
    call.wanted.iter().map(|wanted| wanted.expert).collect()
}

impl Cache for Belady {
    fn call(&mut self, call: &Call) -> u64 {
        let mut reads = 0;
        for expert in experts(call) {
            let key = (call.layer, expert);
            if !self.kept.remove(&(self.now, key)) {
                reads += 1;
            }
            let uses = self.uses.entry(key).or_default();
            uses.pop_front();
            // What is never asked again need not be kept.
            if let Some(&next) = uses.front() {
                self.kept.insert((next, key));
            }
        }
        while self.kept.len() > self.slots {
            self.kept.pop_last();
        }
        self.now += 1;
        reads
    }
}
