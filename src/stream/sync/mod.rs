//! The threads, locks and channels of the ring and of the expert store: the system's. With the feature `interleave` they are
//! those of a scheduler that `tests/interleavings.rs` drives through one order of steps after another. Nothing else.

#[cfg(feature = "interleave")]
mod channel;

#[cfg(feature = "interleave")]
pub use channel::{Receiver, Sender, unbounded};
#[cfg(feature = "interleave")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "interleave")]
pub use shuttle::thread::{Builder, JoinHandle};

#[cfg(not(feature = "interleave"))]
pub use crossbeam_channel::{Receiver, Sender, unbounded};
#[cfg(not(feature = "interleave"))]
pub use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "interleave"))]
pub use std::thread::{Builder, JoinHandle};
