//! Signals. Windows has two of them, which come as flags; there a thread looks at these.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A signal that is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// Somebody asks the program to end.
    Terminate,
    /// The terminal is gone.
    HangUp,
    /// Ctrl-Z.
    Suspend,
    /// The program goes on after a sleep.
    Continue,
}

/// Has `flag` set by the first interrupt or wish to end; a second one ends the program at once with exit code 130.
///
/// # Errors
/// The system refuses.
pub fn flag_at_interrupt(flag: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))?;
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Ends this process as the signal would have ended it.
pub fn die_of(signal: Signal) {
    if let Some(number) = number(signal) {
        let _ = signal_hook::low_level::emulate_default_handler(number);
    }
}

/// Puts the whole process group to sleep, as a terminal does at Ctrl-Z: a shell script around the program sleeps as well. Returns
/// when it goes on. Where there is no such thing, nothing happens.
///
/// # Errors
/// What the system says.
pub fn stop_group() -> io::Result<()> {
    #[cfg(unix)]
    rustix::process::kill_current_process_group(rustix::process::Signal::STOP)?;
    Ok(())
}

#[cfg(unix)]
const NUMBERS: [(Signal, i32); 5] = [
    (Signal::Interrupt, signal_hook::consts::SIGINT),
    (Signal::Terminate, signal_hook::consts::SIGTERM),
    (Signal::HangUp, signal_hook::consts::SIGHUP),
    (Signal::Suspend, signal_hook::consts::SIGTSTP),
    (Signal::Continue, signal_hook::consts::SIGCONT),
];
#[cfg(not(unix))]
const NUMBERS: [(Signal, i32); 2] = [
    (Signal::Interrupt, signal_hook::consts::SIGINT),
    (Signal::Terminate, signal_hook::consts::SIGTERM),
];

fn number(signal: Signal) -> Option<i32> {
    let found = NUMBERS.iter().find(|(known, _)| *known == signal);
    found.map(|(_, number)| *number)
}

/// Signals as they come, without end.
#[cfg(unix)]
pub struct Signals(signal_hook::iterator::Signals);

#[cfg(unix)]
impl Signals {
    /// Listens to these.
    ///
    /// # Errors
    /// The system refuses.
    pub fn of(signals: &[Signal]) -> io::Result<Self> {
        let numbers = signals.iter().filter_map(|signal| number(*signal));
        signal_hook::iterator::Signals::new(numbers).map(Self)
    }
}

#[cfg(unix)]
impl Iterator for Signals {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        loop {
            let number = self.0.forever().next()?;
            let found = NUMBERS.iter().find(|(_, known)| *known == number);
            if let Some((signal, _)) = found {
                return Some(*signal);
            }
        }
    }
}

/// Signals as they come, without end.
#[cfg(not(unix))]
pub struct Signals(Vec<(Signal, Arc<AtomicBool>)>);

#[cfg(not(unix))]
impl Signals {
    /// Listens to those of these that there are here.
    ///
    /// # Errors
    /// The system refuses.
    pub fn of(signals: &[Signal]) -> io::Result<Self> {
        let known = signals
            .iter()
            .filter_map(|signal| Some((*signal, number(*signal)?)));
        let listen = |(signal, number)| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag)).map(|_| (signal, flag))
        };
        known.map(listen).collect::<io::Result<_>>().map(Self)
    }
}

#[cfg(not(unix))]
impl Iterator for Signals {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        /// Between two looks.
        const LOOK: std::time::Duration = std::time::Duration::from_millis(100);
        loop {
            let came = |(_, flag): &&(Signal, Arc<AtomicBool>)| {
                flag.swap(false, std::sync::atomic::Ordering::Relaxed)
            };
            if let Some((signal, _)) = self.0.iter().find(came) {
                return Some(*signal);
            }
            std::thread::sleep(LOOK);
        }
    }
}
