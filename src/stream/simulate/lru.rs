//! The least recently used expert goes.

use std::collections::{BTreeMap, HashMap};

use super::{Key, Single};

/// A cache under LRU.
pub(super) struct Lru {
    slots: usize,
    now: u64,
    used: HashMap<Key, u64>,
    by_use: BTreeMap<u64, Key>,
}

impl Lru {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            now: 0,
            used: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }
}

impl Single for Lru {
    fn hit(&mut self, key: Key) -> bool {
        self.now += 1;
        self.by_use.insert(self.now, key);
        if let Some(before) = self.used.insert(key, self.now) {
            self.by_use.remove(&before);
            return true;
        }
        if self.used.len() > self.slots
            && let Some((_, victim)) = self.by_use.pop_first()
        {
            self.used.remove(&victim);
        }
        false
    }
}
