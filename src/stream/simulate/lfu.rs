//! The least frequently used expert goes, of equals the least recently used. Uses count since the expert last came in.

use std::collections::{BTreeSet, HashMap};

use super::{Key, Single};

/// Uses, and the time of the last one.
type Count = (u64, u64);

/// A cache under LFU.
pub(super) struct Lfu {
    slots: usize,
    now: u64,
    counts: HashMap<Key, Count>,
    by_count: BTreeSet<(Count, Key)>,
}

impl Lfu {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            now: 0,
            counts: HashMap::new(),
            by_count: BTreeSet::new(),
        }
    }
}

impl Single for Lfu {
    fn hit(&mut self, key: Key) -> bool {
        self.now += 1;
        let before = self.counts.get(&key).copied();
        match before {
            Some(count) => {
                self.by_count.remove(&(count, key));
            }
            // The newcomer has to get in, so room is made before it is counted.
            None if self.counts.len() == self.slots => {
                if let Some((_, victim)) = self.by_count.pop_first() {
                    self.counts.remove(&victim);
                }
            }
            None => {}
        }
        let count = (before.map_or(1, |(uses, _)| uses + 1), self.now);
        self.counts.insert(key, count);
        self.by_count.insert((count, key));
        before.is_some()
    }
}
