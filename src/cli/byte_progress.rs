//! Progress of work that is counted in bytes, on standard error.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::synth::size;

/// Progress on standard error: one line that changes on a terminal, else a line every ten seconds.
pub(super) struct ByteProgress {
    terminal: bool,
    last: Option<Instant>,
    open: bool,
    /// The end was said.
    complete: bool,
}

impl ByteProgress {
    /// Nothing is said yet.
    pub(super) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            last: None,
            open: false,
            complete: false,
        }
    }

    /// Says how far it is, if it is time to; false when a signal came.
    pub(super) fn told(
        &mut self,
        what: &str,
        done: u64,
        total: u64,
        interrupted: &AtomicBool,
    ) -> bool {
        let every = Duration::from_millis(if self.terminal { 250 } else { 10_000 });
        let due = self.last.is_none_or(|last| last.elapsed() >= every);
        let complete = done == total;
        if !self.complete && (due || complete) || self.complete && !complete {
            self.last = Some(Instant::now());
            let line = format!("{what} {} of {}", size(done), size(total));
            // What cannot be said does not stop the work.
            let _ = match self.terminal {
                true => write!(std::io::stderr(), "\r\x1b[Kk3: {line}"),
                false => writeln!(std::io::stderr(), "k3: {line}"),
            };
            self.open = self.terminal;
        }
        self.complete = complete;
        let stop = interrupted.load(Ordering::Relaxed);
        if stop {
            self.end();
        }
        !stop
    }

    /// Ends the line that changes.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = writeln!(std::io::stderr());
        }
    }
}
