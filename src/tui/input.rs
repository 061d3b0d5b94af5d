//! What comes from outside, each from a thread of its own that does nothing else: keys, and signals.

use std::io;
use std::thread;

use crossbeam_channel::Sender;
use crossterm::event::{self, Event};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::message::Message;
use super::terminal;

/// Sends on what the terminal says.
///
/// # Errors
/// No thread could be started.
pub fn listen_to_keys(messages: Sender<Message>) -> io::Result<()> {
    let read = move || {
        loop {
            let message = match event::read() {
                Ok(Event::Key(key)) => Message::Key(key),
                Ok(Event::Paste(text)) => Message::Paste(text),
                Ok(Event::Resize(width, height)) => Message::Resize(width, height),
                Ok(Event::Mouse(_) | Event::FocusGained | Event::FocusLost) => continue,
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
