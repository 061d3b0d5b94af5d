//! Any expert goes. The draws are the same in every replay.

use std::collections::HashMap;

use super::{Key, Single};

/// A cache that evicts at random.
pub(super) struct Random {
    slots: Vec<Key>,
    capacity: usize,
    slot_of: HashMap<Key, usize>,
    state: u64,
}

impl Random {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::new(),
            capacity,
            slot_of: HashMap::new(),
            state: 1,
        }
    }

    /// A number below `limit`: xorshift with shifts 13, 7, 17 (Marsaglia, "Xorshift RNGs", 2003), the high bits of it.
    fn draw(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((u128::from(self.state) * limit as u128) >> 64) as usize
    }
}

impl Single for Random {
    fn hit(&mut self, key: Key) -> bool {
        if self.slot_of.contains_key(&key) {
            return true;
        }
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(key);
            self.slots.len() - 1
        } else {
            let slot = self.draw(self.capacity);
            self.slot_of.remove(&self.slots[slot]);
            self.slots[slot] = key;
            slot
        };
        self.slot_of.insert(key, slot);
        false
    }
}
