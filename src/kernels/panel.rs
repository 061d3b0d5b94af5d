//! Sixteen rows, widened and turned, as a product of many tokens reads them. Who multiplies has the room for them.

use super::lanes::Lanes;
use super::matmat::ORDER;
use super::rows::{BLOCK, Row};
use super::turn::{ROWS, Strip, Turn};
use super::{LINE, prefetch};

/// Elements of a lane in a block of columns.
const STEPS: usize = BLOCK / 16;

/// Where each lane stands in [`ORDER`].
const PLACES: [usize; 16] = {
    let mut places = [0; 16];
    let mut place = 0;
    while place < 16 {
        places[ORDER[place]] = place;
        place += 1;
    }
    places
};

/// How a panel lies in memory: lane by lane in [`ORDER`], of each the elements in ascending order, of each all rows.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// Elements of a lane.
    steps: usize,
    /// From one lane to the next: one more than there are, so that the same element of all lanes does not fall on the same
    /// place of the cache.
    stride: usize,
}

impl Panel {
    /// Of rows whose lanes have as many elements.
    pub fn new(steps: usize) -> Self {
        let stride = steps.next_multiple_of(STEPS) + 1;
        Self { steps, stride }
    }

    /// The room that it takes.
    pub fn size(self) -> usize {
        ORDER.len() * self.stride
    }

    /// Puts `rows` into `room`. As many behind them are asked for meanwhile.
    #[inline(always)]
    pub fn fill<const N: usize, R: Row<N>>(
        self,
        room: &mut [Lanes],
        rows: [R; ROWS],
        set: impl Turn,
    ) {
        let [first, second] = [0, 1].map(|r| rows[r].place().0.addr());
        let ahead = ROWS * second.wrapping_sub(first);
        let mut strip = Strip::ZERO;
        for block in 0..self.steps.div_ceil(STEPS) {
            for (r, row) in rows.iter().enumerate() {
                let (begin, unit) = row.place();
                let bytes = STEPS / N * unit;
                for line in (0..bytes).step_by(LINE) {
                    prefetch(begin.wrapping_add(ahead + block * bytes + line));
                }
                let [upper, lower] = row.bits(block);
                strip.0[0][r] = upper;
                if !R::NARROW {
                    strip.0[1][r] = lower;
                }
            }
            let at = |c: usize| PLACES[c % 16] * self.stride + block * STEPS + c / 16;
            match R::NARROW {
                true => set.turn::<true>(&strip, room, at),
                false => set.turn::<false>(&strip, room, at),
            }
        }
    }

    /// A lane's elements.
    #[inline(always)]
    pub fn lane(self, room: &[Lanes], lane: usize) -> &[Lanes] {
        &room[lane * self.stride..][..self.steps]
    }
}
