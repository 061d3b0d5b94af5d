//! Which experts the last tokens chose: what a cache of another size would have kept is found out by replaying them. Not a
//! record of a whole run; that is a trace.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::Wanted;
use super::trace::{Call, Step};

/// Tokens that are remembered: 0.8 MB on the release.
const KEPT: usize = 128;

/// The choices of one token: layer and expert, in the order of the layers, in each the best first.
pub type Choices = Arc<[(u16, u16)]>;

/// The choices of the last tokens, oldest first.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Choices>>);

impl Recent {
    /// A token is through. Whoever looks holds this up for as long as it takes to count references.
    pub(crate) fn push(&self, choices: &[(u16, u16)]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(choices.into());
    }

    /// All that is remembered.
    pub fn all(&self) -> Vec<Choices> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }
}

/// The requests of one token, as a trace has them.
pub fn step(choices: &[(u16, u16)]) -> Step {
    let mut step = Step::new();
    for &(layer, expert) in choices {
        let (layer, expert) = (usize::from(layer), usize::from(expert));
        let known = step.last().is_some_and(|call| call.layer == layer);
        if !known {
            step.push(Call {
                layer,
                wanted: Vec::new(),
            });
        }
        if let Some(call) = step.last_mut() {
            call.wanted.push(Wanted {
                expert,
                rank: call.wanted.len(),
                ago: 0,
            });
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tokens_are_kept_and_say_what_a_trace_says() {
        let recent = Recent::default();
        for token in 0..KEPT as u16 + 3 {
            recent.push(&[(1, token), (1, 7), (2, 9)]);
        }
        let all = recent.all();
        assert_eq!((all.len(), all[0][0]), (KEPT, (1, 3)));
        let step = step(&all[0]);
        let calls: Vec<_> = step
            .iter()
            .map(|call| (call.layer, call.wanted.len()))
            .collect();
        assert_eq!(calls, [(1, 2), (2, 1)]);
        assert_eq!((step[0].wanted[1].expert, step[0].wanted[1].rank), (7, 1));
    }
}
