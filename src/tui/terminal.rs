//! Owns the terminal while the screen is up, and gives it back once: when dropped, before a panic of its own thread is
//! printed, before a sleep. Not what is drawn.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal as Ratatui;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;

use super::outward::{Progress, progress_bytes};
use super::{State, stderr, view};
use crate::cli::Exit;

/// Whether the terminal is taken. A process has one terminal, and a panic or a signal must find it without a reference.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Asks the terminal to remember the window's title, and to take it again.
const PUSH_TITLE: &str = "\x1b[22;2t";
const POP_TITLE: &str = "\x1b[23;2t";

/// Bytes that are gathered before the terminal is written to: a frame, as a rule.
const BUFFER: usize = 64 * 1024;

/// The terminal, taken.
pub struct Terminal {
    ratatui: Ratatui<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or one that can only print; or the terminal fails.
    pub fn open() -> anyhow::Result<Self> {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if dumb || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            let what = "the full screen needs a terminal on standard input and output; `k3 chat` works without one";
            return Err(Exit::Refused(what.to_owned()).into());
        }
        give_back_before_panics();
        take().context("the terminal could not be set up")?;
        // From here on, dropping gives it back.
        let backend = CrosstermBackend::new(BufWriter::with_capacity(BUFFER, io::stdout()));
        match Ratatui::new(backend) {
            Ok(ratatui) => Ok(Self { ratatui }),
            Err(error) => {
                give_back();
                Err(error).context("the size of the terminal could not be read")
            }
        }
    }

    /// Columns and rows.
    ///
    /// # Errors
    /// The terminal does not say.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.ratatui.size()?;
        Ok((size.width, size.height))
    }

    /// Draws what differs from what was drawn last, at once where the terminal can.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn draw(&mut self, state: &State) -> io::Result<()> {
        queue!(self.ratatui.backend_mut(), BeginSynchronizedUpdate)?;
        self.ratatui.draw(|frame| view(state, frame))?;
        execute!(self.ratatui.backend_mut(), EndSynchronizedUpdate)
    }

    /// Sends bytes that draw nothing: a title, a bell, a text to copy.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn say(&mut self, bytes: &str) -> io::Result<()> {
        let backend = self.ratatui.backend_mut();
        backend.write_all(bytes.as_bytes())?;
        Write::flush(backend)
    }

    /// Gives the terminal back while something else is done with it, and takes it again.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn lend<T>(&mut self, to: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        let done = to();
        self.reenter()?;
        Ok(done)
    }

    /// Forgets what was drawn last, so that the next drawing is a whole one.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn forget(&mut self) -> io::Result<()> {
        let (width, height) = self.size()?;
        // Not `clear`: that asks the terminal where its cursor is and would eat what the person types.
        self.ratatui.resize(Rect::new(0, 0, width, height))
    }

    /// Gives the terminal back, sleeps until the program is told to go on, and takes the terminal again.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        crate::system::stop_group()?;
        self.reenter()
    }

    /// Takes the terminal again after somebody else may have changed it.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn reenter(&mut self) -> io::Result<()> {
        give_back();
        take()?;
        self.forget()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    stderr::divert();
    let set_up = enable_raw_mode().and_then(|()| {
        execute!(
            io::stdout(),
            Print(PUSH_TITLE),
            EnterAlternateScreen,
            EnableBracketedPaste,
            cursor::Hide
        )
    });
    if set_up.is_err() {
        give_back();
    }
    set_up
}

/// Gives the terminal back, if it is taken. From any thread; what fails here can no longer be told to anybody.
pub fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // Each on its own: one that fails must not keep the others back.
    let _ = execute!(out, EndSynchronizedUpdate, DisableBracketedPaste);
    let _ = execute!(out, cursor::Show, LeaveAlternateScreen);
    let _ = execute!(out, Print(progress_bytes(Progress::None)), Print(POP_TITLE));
    let _ = out.flush();
    let _ = disable_raw_mode();
    stderr::restore();
}

/// A panic of this thread gives the terminal back before it is printed. That of another one leaves the screen up: its
/// words wait with all else that goes to standard error, and the screen says that the engine has ended.
fn give_back_before_panics() {
    let screen = std::thread::current().id();
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == screen {
            give_back();
        }
        print(panic);
    }));
}
