//! Teacher forcing: how often the most probable token after each position of a prompt is the prompt's own next id.

use crate::cli::say;
use crate::kernels::argmax;
use crate::model::Logits;

/// So many disagreements are listed.
const LISTED: usize = 20;

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Teacher {
    positions: usize,
    matches: usize,
    /// Position, its id, and the id that was predicted for it; the first of them.
    misses: Vec<(usize, u32, u32)>,
}

impl Teacher {
    /// Compares the logits of the positions from `first` on with the ids of the prompt.
    pub(super) fn compare(&mut self, first: usize, logits: &Logits, ids: &[u32]) {
        // The last position predicts what is not in the prompt.
        let next = (first + 1..).zip(ids.iter().skip(first + 1));
        for (row, (position, &id)) in logits.rows().zip(next) {
            self.positions += 1;
            match argmax(row) {
                Some(predicted) if predicted == id as usize => self.matches += 1,
                Some(predicted) if self.misses.len() < LISTED => {
                    self.misses.push((position, id, predicted as u32));
                }
                _ => {}
            }
        }
    }

    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    pub(super) fn matches(&self) -> usize {
        self.matches
    }

    /// Share of positions that agree, 0 to 1; 0 where there are none.
    pub(super) fn agreement(&self) -> f64 {
        self.matches as f64 / self.positions.max(1) as f64
    }

    /// What came out, on standard error.
    pub(super) fn summary(&self, seconds: f64) {
        for (position, id, predicted) in &self.misses {
            say!("k3: position {position}: {predicted} predicted, {id} in the prompt");
        }
        let missed = self.positions - self.matches;
        if missed > self.misses.len() {
            say!("k3: and {} more", missed - self.misses.len());
        }
        say!(
            "k3: {} of {} predictions agree, {:.2} %, in {seconds:.3} s",
            self.matches,
            self.positions,
            100.0 * self.agreement()
        );
    }
}
