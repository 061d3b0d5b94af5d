//! What comes from outside, each from a thread of its own that does nothing else: keys, and signals.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind};

use super::escape;
use super::message::Message;
use super::terminal;
use crate::system::{Signal, Signals, die_of};

/// Between two looks of the reader of keys at its gate.
const LOOK: Duration = Duration::from_millis(250);

/// Within this time the rest of a key comes whose escape character came alone; Esc is late by as much.
const SPLIT: Duration = Duration::from_millis(40);

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

/// What comes next, if anything does within a time.
fn next(within: Duration) -> io::Result<Option<Event>> {
    event::poll(within).and_then(|there| there.then(event::read).transpose())
}

fn lone_esc(key: &KeyEvent) -> bool {
    key.code == KeyCode::Esc && key.modifiers.is_empty() && key.kind == KeyEventKind::Press
}

fn message(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) => Some(Message::Key(key)),
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Resize(width, height) => Some(Message::Resize(width, height)),
        Event::Mouse(_) | Event::FocusGained | Event::FocusLost => None,
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
            let came = match next(LOOK) {
                Ok(None) => continue,
                Ok(Some(Event::Key(key))) if lone_esc(&key) => {
                    escape::whole(key, || next(SPLIT).ok().flatten())
                }
                Ok(Some(event)) => vec![event],
                Err(_) => {
                    // Nobody can type any more.
                    let _ = messages.send(Message::Terminate);
                    return;
                }
            };
            for message in came.into_iter().filter_map(message) {
                if messages.send(message).is_err() {
                    return;
                }
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
    let signals = Signals::of(&[
        Signal::Terminate,
        Signal::HangUp,
        Signal::Interrupt,
        Signal::Suspend,
        Signal::Continue,
    ])?;
    let wait = move || {
        let mut asked = false;
        for signal in signals {
            let message = match signal {
                Signal::Suspend => Message::Suspend,
                Signal::Continue => Message::Continued,
                _ if asked => {
                    terminal::give_back();
                    die_of(signal);
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
