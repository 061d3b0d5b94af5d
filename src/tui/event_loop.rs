//! Turns the world into messages, and effects into the world. Sleeps until something happens; draws only what changed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, never, select};

use super::Options;
use super::backends::Backends;
use super::effect::{Effect, Outcome};
use super::input::Gate;
use super::message::Message;
use super::outward::{self, Progress};
use super::settings::Settings;
use super::state::{Phase, State};
use super::terminal::Terminal;
use super::unsent::{Keeper, Unsent};
use super::update::update;
use super::{clipboard, editor, files};
use crate::chat::{Shelf, shelf};
use crate::checkpoint::atomic;
use crate::engine::{Command, Event, Handle, TelemetryReader};

/// Between two looks at the telemetry while the engine works: 4 a second.
const LOOK_BUSY: Duration = Duration::from_millis(250);

/// The same while it does not.
const LOOK_IDLE: Duration = Duration::from_secs(1);

/// Between two drawings. What comes in between is drawn together.
const FRAME: Duration = Duration::from_millis(16);

/// Until a full command channel is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// Messages taken before a drawing, so that a flood of them cannot hold it up.
const BATCH: usize = 512;

/// The loop and what it holds.
pub struct Loop {
    state: State,
    terminal: Terminal,
    inputs: Receiver<Message>,
    /// For threads that have something to say later.
    messages: Sender<Message>,
    engine: Handle,
    backends: Backends,
    telemetry: TelemetryReader,
    /// Commands that the engine had no room for yet.
    waiting: VecDeque<Command>,
    keys: Gate,
    options: Options,
    start: Instant,
    looked: Option<Instant>,
    drawn: Option<Instant>,
    drafts: Keeper,
    /// The title and the progress that were told last.
    told: (String, Progress),
}

impl Loop {
    /// A loop that has not begun.
    pub fn new(
        state: State,
        terminal: Terminal,
        (messages, inputs): (Sender<Message>, Receiver<Message>),
        (engine, backends): (Handle, Backends),
        keys: Gate,
        options: Options,
    ) -> Self {
        Self {
            state,
            terminal,
            inputs,
            messages,
            telemetry: engine.telemetry.reader(),
            engine,
            backends,
            waiting: VecDeque::new(),
            keys,
            drafts: Keeper::start(),
            options,
            told: (String::new(), Progress::None),
            start: Instant::now(),
            looked: None,
            drawn: None,
        }
    }

    /// Runs until an effect ends it. Gives the terminal back in any case. The outcome, what is to be said of the session on the
    /// normal screen, and where the engine tells its last word if it has not done so.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn run(mut self) -> std::io::Result<(Outcome, Option<String>, Option<Receiver<Event>>)> {
        let outcome = self.go();
        self.keep_draft();
        let summary = outward::summary(&self.state);
        // The terminal first: the drive may take its time.
        drop(self.terminal);
        self.drafts.finish();
        let stopped = matches!(self.state.phase, Phase::Stopped(_));
        Ok((outcome?, summary, (!stopped).then_some(self.engine.events)))
    }

    fn go(&mut self) -> std::io::Result<Outcome> {
        loop {
            if let Some(outcome) = self.look()? {
                return Ok(outcome);
            }
            let now = Instant::now();
            if self.state.dirty && self.next_frame(now) <= now {
                self.terminal.draw(&self.state)?;
                self.state.dirty = false;
                self.drawn = Some(now);
                self.tell_outward()?;
            }
            if let Some(message) = self.wait()
                && let Some(outcome) = self.take(message)?
            {
                return Ok(outcome);
            }
        }
    }

    /// Takes a message and those that wait behind it.
    fn take(&mut self, message: Message) -> std::io::Result<Option<Outcome>> {
        let mut next = Some(message);
        for _ in 0..BATCH {
            let Some(message) = next else {
                break;
            };
            if let Some(outcome) = self.update(message)? {
                return Ok(Some(outcome));
            }
            // Keys first: they are few, and a person waits for them.
            next = self
                .inputs
                .try_recv()
                .ok()
                .or_else(|| self.engine_message());
        }
        // What was taken last when the batch was full is not lost.
        match next {
            Some(message) => self.update(message),
            None => Ok(None),
        }
    }

    /// The next thing that the engine told, if there is one.
    fn engine_message(&mut self) -> Option<Message> {
        match self.engine.events.try_recv() {
            Ok(event) => Some(Message::Engine(event)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(self.gone()),
        }
    }

    /// The engine's thread is gone. Said once; its channel would go on saying so.
    fn gone(&mut self) -> Message {
        self.engine.events = never();
        Message::EngineGone
    }

    /// Sleeps until a message comes or the time for a look or a drawing has come.
    fn wait(&mut self) -> Option<Message> {
        let now = Instant::now();
        let mut until = self.next_look(now);
        if self.state.dirty {
            until = until.min(self.next_frame(now));
        }
        if !self.waiting.is_empty() {
            until = until.min(now + RETRY);
        }
        let timeout = until.saturating_duration_since(now);
        select! {
            recv(self.inputs) -> message => message.ok(),
            recv(self.engine.events) -> event => match event {
                Ok(event) => Some(Message::Engine(event)),
                Err(_) => Some(self.gone()),
            },
            default(timeout) => None,
        }
    }

    fn next_frame(&self, now: Instant) -> Instant {
        self.drawn.map_or(now, |drawn| drawn + FRAME)
    }

    fn next_look(&self, now: Instant) -> Instant {
        let between = match self.state.phase {
            Phase::Idle | Phase::Stopped(_) => LOOK_IDLE,
            Phase::Loading | Phase::Waiting(_) | Phase::Turn(_) => LOOK_BUSY,
        };
        self.looked.map_or(now, |looked| looked + between)
    }

    /// Tells the state the time and, when it is due, what the engine is doing.
    fn look(&mut self) -> std::io::Result<Option<Outcome>> {
        self.send_waiting();
        let now = Instant::now();
        if now >= self.next_look(now) {
            self.looked = Some(now);
            self.keep_draft();
            self.fit()?;
            let telemetry = self.telemetry.read(now);
            return self.update(Message::Telemetry(Box::new(telemetry)));
        }
        Ok(None)
    }

    fn update(&mut self, message: Message) -> std::io::Result<Option<Outcome>> {
        update(&mut self.state, Message::Now(self.start.elapsed()));
        // What the engine just told may show in its figures, too.
        if matches!(message, Message::Engine(ref event) if !matches!(event, Event::Delta { .. })) {
            self.looked = None;
        }
        for effect in update(&mut self.state, message) {
            if let Some(outcome) = self.carry_out(effect)? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    fn carry_out(&mut self, effect: Effect) -> std::io::Result<Option<Outcome>> {
        let message = match effect {
            Effect::Send(command) => {
                self.waiting.push_back(command);
                self.send_waiting();
                None
            }
            Effect::Suspend => {
                self.terminal.suspend()?;
                self.taken_again()?;
                None
            }
            Effect::Reenter => {
                self.terminal.reenter()?;
                self.taken_again()?;
                None
            }
            Effect::Redraw => {
                self.terminal.forget()?;
                None
            }
            Effect::Exit(outcome) => return Ok(Some(outcome)),
            Effect::Recover(history) => {
                let mut unsent = Unsent::of(&history);
                // A new conversation takes what one left behind in which nothing was said.
                let folder = atomic::folder(&history);
                if unsent.is_empty() && self.shelf().is_some_and(|shelf| shelf.is_at(folder)) {
                    unsent = Unsent::orphan(folder);
                }
                Some(Message::Recovered(unsent))
            }
            Effect::Simulate(offers) => {
                let told = self.messages.clone();
                // It takes a second of computing. Without a thread for it nothing is said about it.
                let _ = std::thread::Builder::new()
                    .name("simulate".to_owned())
                    .spawn(move || {
                        // A screen that is gone needs no answer.
                        let _ = told.send(Message::Retained(offers.retained()));
                    });
                None
            }
            Effect::Open(name, carried) => {
                let opened = match self.backends.open(&name, carried) {
                    Ok(engine) => {
                        self.telemetry = engine.telemetry.reader();
                        self.engine = engine;
                        self.waiting.clear();
                        self.looked = None;
                        Ok(())
                    }
                    Err(error) => Err(format!("{error:#}")),
                };
                Some(Message::Opened(name, opened))
            }
            Effect::Bell => {
                if self.options.bell {
                    self.terminal.say("\x07")?;
                }
                None
            }
            Effect::Edit(text) => {
                let edited = self.lend(|| editor::edit(&text))?;
                Some(Message::Edited(edited))
            }
            Effect::EditSettings => Some(Message::Told(match self.options.settings.clone() {
                Some(path) => self.lend(|| Settings::edit(&path))?,
                None => "There is no folder for settings; --settings names a file.".to_owned(),
            })),
            Effect::Copy(name, text) => Some(Message::Told(self.copy(name, &text)?)),
            Effect::Write(file, text) => Some(Message::Told(files::write_new(&file, &text))),
            Effect::ListSessions => Some(Message::Sessions(
                self.shelf().map_or(Vec::new(), Shelf::list),
            )),
            Effect::Rename(path, title) => {
                Some(Message::Told(match shelf::rename(&path, &title) {
                    Ok(()) => format!("This conversation is called {title}."),
                    Err(error) => format!("The name could not be kept: {error}."),
                }))
            }
            Effect::Fork(path) => Some(match self.shelf().map(|shelf| shelf.fork(&path)) {
                Some(Ok(copy)) => Message::Forked(copy),
                Some(Err(error)) => {
                    Message::Told(format!("The conversation could not be copied: {error}."))
                }
                None => Message::Told("There is no folder for conversations.".to_owned()),
            }),
        };
        match message {
            Some(message) => self.update(message),
            None => Ok(None),
        }
    }

    /// Leaves the terminal, keys and all, to another program for a while.
    fn lend<T>(&mut self, to: impl FnOnce() -> T) -> std::io::Result<T> {
        self.keys.close();
        let done = self.terminal.lend(to);
        self.keys.open();
        self.taken_again()?;
        done
    }

    fn shelf(&self) -> Option<&Shelf> {
        self.options.shelf.as_ref()
    }

    /// Copies through the terminal, and to a file, since nobody knows whether the terminal obeyed. What came of it.
    fn copy(&mut self, name: &str, text: &str) -> std::io::Result<String> {
        let in_tmux = std::env::var_os("TMUX").is_some();
        let asked = clipboard::bytes(text, in_tmux);
        if let Some(bytes) = &asked {
            self.terminal.say(bytes)?;
        }
        let file = match &self.options.copies {
            Some(folder) => clipboard::to_file(text, folder).ok(),
            None => None,
        };
        let copied = match asked {
            Some(_) => format!("{name} is copied, if the terminal allows it."),
            None => format!("{name} is too long for a terminal to copy."),
        };
        Ok(match file {
            Some(path) => format!("{copied} It is in {} too.", path.display()),
            None => copied,
        })
    }

    /// Tells what somebody sees who looks away, where it has changed.
    fn tell_outward(&mut self) -> std::io::Result<()> {
        if !self.options.titles {
            return Ok(());
        }
        let now = (outward::title(&self.state), outward::progress(&self.state));
        if now.0 != self.told.0 {
            self.terminal.say(&outward::title_bytes(&now.0))?;
        }
        if now.1 != self.told.1 {
            self.terminal.say(&outward::progress_bytes(now.1))?;
        }
        self.told = now;
        Ok(())
    }

    /// After the terminal was somebody else's.
    fn taken_again(&mut self) -> std::io::Result<()> {
        self.fit()?;
        self.told = (String::new(), Progress::None);
        self.state.dirty = true;
        Ok(())
    }

    /// Takes the terminal's size if it has changed unseen: during a sleep, or at the same moment as a key. Of a key and a
    /// change of size that come together the reader of the keyboard tells only the key.
    fn fit(&mut self) -> std::io::Result<()> {
        let (width, height) = self.terminal.size()?;
        if (width, height) != self.state.size {
            update(&mut self.state, Message::Resize(width, height));
        }
        Ok(())
    }

    /// Keeps what is written and not sent, where the conversation is kept.
    fn keep_draft(&mut self) {
        if let Some(history) = &self.state.history {
            let queue = self.state.queue.iter().cloned();
            let waiting = match &self.state.phase {
                Phase::Waiting(text) => Some(text.clone()),
                _ => None,
            };
            let unsent = Unsent {
                draft: self.state.draft.text(),
                queue: waiting.into_iter().chain(queue).collect(),
            };
            self.drafts.keep(history, unsent);
        }
    }

    /// Sends what the engine has room for. It may compute for a minute without looking; the screen does not wait.
    fn send_waiting(&mut self) {
        while let Some(command) = self.waiting.pop_front() {
            match self.engine.commands.try_send(command) {
                Ok(()) => {}
                Err(TrySendError::Full(command)) => {
                    self.waiting.push_front(command);
                    return;
                }
                // Its last words are on their way through the other channel.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

/// Waits for the engine's last word, so that it can save; not for long.
pub fn wait_for_end(events: &Receiver<Event>, at_most: Duration) {
    let deadline = Instant::now() + at_most;
    loop {
        match events.recv_deadline(deadline) {
            Ok(Event::Stopped(_)) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
