//! What comes from outside, each from a thread of its own: lines of standard input, and signals. What they mean is not
//! known here.

use crate::cli::say;
use std::io::{self, BufRead, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

use crate::system::{Signal, Signals, die_of};

/// What was typed, or came in its place.
pub(super) enum Typed {
    /// A line without its end.
    Line(String),
    /// A line that is not UTF-8.
    NotText,
    /// There are no more lines.
    End,
    /// A signal asks the program to stop.
    Signal,
}

/// Lines and signals.
pub(super) struct Input {
    lines: Receiver<io::Result<Vec<u8>>>,
    /// Signals that ask the program to stop.
    pub signals: Receiver<Signal>,
    /// A signal was sent on that nobody has dealt with yet.
    pending: Arc<AtomicBool>,
    /// Whether a person types the lines.
    pub terminal: bool,
}

impl Input {
    /// Begins to listen. A signal that comes while another waits to be dealt with ends the program at once.
    ///
    /// # Errors
    /// The system refuses signals or threads.
    pub fn start() -> io::Result<Self> {
        // One line is read ahead, no more: the rest stays where it comes from.
        let (typed, lines) = bounded(0);
        let read = move || read_lines(&typed);
        thread::Builder::new().name("lines".into()).spawn(read)?;
        let caught = Signals::of(&[Signal::Interrupt, Signal::Terminate, Signal::HangUp])?;
        let (came, signals) = unbounded();
        let pending = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&pending);
        let listen = move || {
            for signal in caught {
                if waits.swap(true, Ordering::Relaxed) {
                    die_of(signal);
                }
                if came.send(signal).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("signals".into())
            .spawn(listen)?;
        Ok(Self {
            lines,
            signals,
            pending,
            terminal: io::stdin().is_terminal(),
        })
    }

    /// The signal was dealt with; the next one is another wish.
    pub fn settled(&self) {
        self.pending.store(false, Ordering::Relaxed);
    }

    /// The next line; where a person types, asked for with `prompt`.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn ask(&self, prompt: &str) -> io::Result<Typed> {
        if self.terminal {
            say::ask(prompt);
        }
        let line = select! {
            recv(self.signals) -> _ => return Ok(Typed::Signal),
            recv(self.lines) -> line => line,
        };
        let Ok(line) = line else {
            if self.terminal {
                say!("");
            }
            return Ok(Typed::End);
        };
        Ok(match String::from_utf8(line?) {
            Ok(text) => Typed::Line(text.trim_end_matches(['\n', '\r']).to_owned()),
            Err(_) => Typed::NotText,
        })
    }
}

/// Sends lines on until there are no more.
fn read_lines(typed: &Sender<io::Result<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let read = io::stdin().lock().read_until(b'\n', &mut line);
        let (last, line) = match read {
            Ok(0) => return,
            Ok(_) => (false, Ok(line)),
            Err(error) => (true, Err(error)),
        };
        if typed.send(line).is_err() || last {
            return;
        }
    }
}
