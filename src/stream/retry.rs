//! How often a read is tried. Trunk and experts alike.

use super::Error;

/// Tries of a read before it fails the pass, or counts as a drop.
const ATTEMPTS: usize = 3;

/// Reads, and reads again if it fails: the last failure is what is told.
///
/// # Errors
/// Every try failed.
pub(super) fn retried<T>(mut read: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut tried = 1;
    loop {
        match read() {
            Err(_) if tried < ATTEMPTS => tried += 1,
            done => return done,
        }
    }
}
