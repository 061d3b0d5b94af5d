//! What a slot of the ring is at, in one atomic byte.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What a slot of the ring is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotState {
    /// Nothing in it, nothing on its way.
    #[default]
    Empty,
    /// A read is in flight, and so much of it has come, in per cent.
    Reading {
        /// 0 to 100.
        percent: u8,
    },
    /// Read, and waiting for its turn.
    Ready,
    /// Its weights are being multiplied.
    Computing,
}

/// The state of one slot.
#[derive(Debug, Default)]
pub(in crate::stream) struct SlotMeter(AtomicU8);

/// Codes of the states; a read's is its per cent and this.
const READING: u8 = 3;

impl SlotMeter {
    /// Tells the state.
    pub fn set(&self, state: SlotState) {
        let code = match state {
            SlotState::Empty => 0,
            SlotState::Ready => 1,
            SlotState::Computing => 2,
            SlotState::Reading { percent } => READING + percent.min(100),
        };
        self.0.store(code, Relaxed);
    }

    /// Tells that `came` of a read's bytes are there.
    pub fn reading(&self, came: u64, of: u64) {
        let percent = (came.min(of) * 100).checked_div(of).unwrap_or(0);
        self.set(SlotState::Reading {
            percent: percent as u8,
        });
    }

    /// The state now.
    pub fn read(&self) -> SlotState {
        match self.0.load(Relaxed) {
            0 => SlotState::Empty,
            1 => SlotState::Ready,
            2 => SlotState::Computing,
            reading => SlotState::Reading {
                percent: reading - READING,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_told() {
        let slot = SlotMeter::default();
        assert_eq!(slot.read(), SlotState::Empty);
        let reads = (0..=100).map(|percent| SlotState::Reading { percent });
        for state in [SlotState::Empty, SlotState::Ready, SlotState::Computing]
            .into_iter()
            .chain(reads)
        {
            slot.set(state);
            assert_eq!(slot.read(), state);
        }
    }

    #[test]
    fn a_read_is_whole_only_when_every_byte_came() {
        let slot = SlotMeter::default();
        for (came, of, percent) in [
            (0, 7, 0),
            (6, 7, 85),
            (999, 1000, 99),
            (7, 7, 100),
            (0, 0, 0),
        ] {
            slot.reading(came, of);
            assert_eq!(slot.read(), SlotState::Reading { percent });
        }
    }
}
