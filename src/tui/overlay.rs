//! What is open over everything else: help, figures, the list of conversations. Not what stands in it.

use super::tune::Tune;
use crate::chat::Kept;

/// What is open.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// Commands and keys; rows above the visible part.
    Help(usize),
    /// Figures of the session; rows above the visible part.
    Stats(usize),
    /// Memory plans, and the one that is being made.
    Tune(Box<Tune>),
    /// Conversations, and which one is chosen.
    Sessions(Vec<Kept>, usize),
}
