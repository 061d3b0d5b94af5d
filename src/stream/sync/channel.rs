//! A channel without bounds for several senders and receivers, as the one that the program uses, made of locks that a scheduler
//! drives. Only for the feature `interleave`.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::{Condvar, Mutex, MutexGuard};

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something was sent, or the last sender went.
    news: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    receivers: usize,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that sends.
pub struct Sender<T>(Arc<Shared<T>>);

/// The end that receives.
pub struct Receiver<T>(Arc<Shared<T>>);

/// There is nobody at the other end, or nothing to receive now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

/// Both ends of a new channel.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            queue: VecDeque::new(),
            senders: 1,
            receivers: 1,
        }),
        news: Condvar::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Puts something behind what waits.
    ///
    /// # Errors
    /// Nobody will receive it.
    pub fn send(&self, what: T) -> Result<(), Nothing> {
        let mut state = self.0.lock();
        if state.receivers == 0 {
            return Err(Nothing);
        }
        state.queue.push_back(what);
        drop(state);
        self.0.news.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Waits for the next.
    ///
    /// # Errors
    /// Nothing waits and nobody will send.
    pub fn recv(&self) -> Result<T, Nothing> {
        let mut state = self.0.lock();
        loop {
            if let Some(what) = state.queue.pop_front() {
                return Ok(what);
            }
            if state.senders == 0 {
                return Err(Nothing);
            }
            let waited = self.0.news.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next, if it is there.
    ///
    /// # Errors
    /// Nothing waits.
    pub fn try_recv(&self) -> Result<T, Nothing> {
        self.0.lock().queue.pop_front().ok_or(Nothing)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.lock().receivers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.news.notify_all();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.lock().receivers -= 1;
    }
}
