//! The least frequently used expert goes, of equals the least recently used. Uses are counted for good, also of experts
//! that are not resident.

use std::collections::{BTreeSet, HashMap};

use super::{Key, Single};

/// Uses, and the time of the last one.
type Count = (u64, u64);

/// A cache under LFU.
pub(super) struct Lfu {
    slots: usize,
    now: u64,
    counts: HashMap<Key, Count>,
    resident: BTreeSet<(Count, Key)>,
}

impl Lfu {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            now: 0,
            counts: HashMap::new(),
            resident: BTreeSet::new(),
        }
    }
}

impl Single for Lfu {
    fn hit(&mut self, key: Key) -> bool {
        self.now += 1;
        let before = self.counts.get(&key).copied().unwrap_or_default();
        let hit = self.resident.remove(&(before, key));
        if !hit && self.resident.len() == self.slots {
            self.resident.pop_first();
        }
        let count = (before.0 + 1, self.now);
        self.counts.insert(key, count);
        self.resident.insert((count, key));
        hit
    }
}
