//! What comes from outside, each from a thread of its own that does nothing else: keys, and signals.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use crossterm::event::{self, Event};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::message::Message;
use super::terminal;

/// Between two looks of the reader of keys at its gate.
const LOOK: Duration = Duration::from_millis(250);

/// Keeps the reader of keys away from the terminal while another program has it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Passage {
    #[default]
    Open,
    /// The reader is still there, and leaves at its next look.
    Closing,
    Closed,
}

impl Gate {
    /// Closes it, and waits until the reader has left.
    pub fn close(&self) {
        let mut passage = self.lock();
        *passage = Passage::Closing;
        // A reader that ended does not answer; it is in nobody's way.
        let left = |passage: &mut Passage| *passage != Passage::Closed;
        drop(self.0.1.wait_timeout_while(passage, 4 * LOOK, left));
    }

    /// Opens it.
    pub fn open(&self) {
        *self.lock() = Passage::Open;
        self.0.1.notify_all();
    }

    /// The reader passes, or waits until it can.
    fn pass(&self) {
        let mut passage = self.lock();
        if *passage == Passage::Closing {
            *passage = Passage::Closed;
            self.0.1.notify_all();
        }
        let closed = |passage: &mut Passage| *passage == Passage::Closed;
        drop(self.0.1.wait_while(passage, closed));
    }

    fn lock(&self) -> MutexGuard<'_, Passage> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends on what the terminal says, while the gate is open.
///
/// # Errors
/// No thread could be started.
pub fn listen_to_keys(messages: Sender<Message>, gate: Gate) -> io::Result<()> {
    let read = move || {
        loop {
            gate.pass();
            let message =
                match event::poll(LOOK).and_then(|there| there.then(event::read).transpose()) {
                    Ok(None) => continue,
                    Ok(Some(Event::Key(key))) => Message::Key(key),
                    Ok(Some(Event::Paste(text))) => Message::Paste(text),
                    Ok(Some(Event::Resize(width, height))) => Message::Resize(width, height),
                    Ok(Some(Event::Mouse(_) | Event::FocusGained | Event::FocusLost)) => continue,
                    // Nobody can type any more.
                    Err(_) => Message::Terminate,
                };
            let last = message == Message::Terminate;
            if messages.send(message).is_err() || last {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(read)?;
    Ok(())
}

/// Sends on what signals say. One that ends the program, come a second time, ends it at once.
///
/// # Errors
/// The signals could not be registered, or no thread could be started.
pub fn listen_to_signals(messages: Sender<Message>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT])?;
    let wait = move || {
        let mut asked = false;
        for signal in &mut signals {
            let message = match signal {
                SIGTSTP => Message::Suspend,
                SIGCONT => Message::Continued,
                _ if asked => {
                    terminal::give_back();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                    return;
                }
                _ => {
                    asked = true;
                    Message::Terminate
                }
            };
            if messages.send(message).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(())
}
