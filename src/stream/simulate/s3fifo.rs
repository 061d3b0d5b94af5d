//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): newcomers queue in a small
//! part, move to the main part if used meanwhile, and are remembered for a while if they leave unused. One use is
//! enough to move on (the paper asks for two), and as many are remembered as there are slots.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Key, Single};

/// A counter of uses stops here: two bits.
const MOST: u8 = 3;

/// A cache under S3-FIFO.
pub(super) struct S3Fifo {
    slots: usize,
    /// Room of the small queue: a tenth of the cache.
    small_room: usize,
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    /// Uses since the expert came in or was last spared.
    uses: HashMap<Key, u8>,
    /// What left the small queue unused, the oldest first.
    ghosts: VecDeque<Key>,
    known: HashSet<Key>,
}

impl S3Fifo {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            small_room: (slots / 10).max(1),
            small: VecDeque::new(),
            main: VecDeque::new(),
            uses: HashMap::new(),
            ghosts: VecDeque::new(),
            known: HashSet::new(),
        }
    }

    /// Makes room for one expert.
    fn evict(&mut self) {
        while !self.uses.is_empty() {
            let gone = match self.small.len() >= self.small_room || self.main.is_empty() {
                true => self.evict_small(),
                false => self.evict_main(),
            };
            if gone {
                return;
            }
        }
    }

    /// Takes the head of the small queue out, or moves it on if it was used since it came; whether one left.
    fn evict_small(&mut self) -> bool {
        let Some(key) = self.small.pop_front() else {
            return false;
        };
        if self.uses.get(&key).is_some_and(|&uses| uses > 0) {
            self.uses.insert(key, 0);
            self.main.push_back(key);
            return false;
        }
        self.uses.remove(&key);
        self.ghosts.push_back(key);
        self.known.insert(key);
        if self.ghosts.len() > self.slots
            && let Some(forgotten) = self.ghosts.pop_front()
        {
            self.known.remove(&forgotten);
        }
        true
    }

    /// Takes the head of the main queue out, or to its end if it was used; whether one left.
    fn evict_main(&mut self) -> bool {
        let Some(key) = self.main.pop_front() else {
            return false;
        };
        match self.uses.get_mut(&key) {
            Some(uses) if *uses > 0 => {
                *uses -= 1;
                self.main.push_back(key);
                false
            }
            _ => {
                self.uses.remove(&key);
                true
            }
        }
    }
}

impl Single for S3Fifo {
    fn hit(&mut self, key: Key) -> bool {
        if let Some(uses) = self.uses.get_mut(&key) {
            *uses = (*uses + 1).min(MOST);
            return true;
        }
        if self.uses.len() == self.slots {
            self.evict();
        }
        self.uses.insert(key, 0);
        if self.known.remove(&key) {
            self.ghosts.retain(|&ghost| ghost != key);
            self.main.push_back(key);
        } else {
            self.small.push_back(key);
        }
        false
    }
}
