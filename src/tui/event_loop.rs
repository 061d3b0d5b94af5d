//! Turns the world into messages, and effects into the world. Sleeps until something happens; draws only what changed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, TrySendError, never, select};

use super::effect::{Effect, Outcome};
use super::message::Message;
use super::state::{Phase, State};
use super::terminal::Terminal;
use super::update::update;
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
    engine: Handle,
    telemetry: TelemetryReader,
    /// Commands that the engine had no room for yet.
    waiting: VecDeque<Command>,
    start: Instant,
    looked: Option<Instant>,
    drawn: Option<Instant>,
}

impl Loop {
    /// A loop that has not begun.
    pub fn new(
        state: State,
        terminal: Terminal,
        inputs: Receiver<Message>,
        engine: Handle,
    ) -> Self {
        Self {
            state,
            terminal,
            inputs,
            telemetry: engine.telemetry.reader(),
            engine,
            waiting: VecDeque::new(),
            start: Instant::now(),
            looked: None,
            drawn: None,
        }
    }

    /// Runs until an effect ends it. Gives the terminal back in any case.
    ///
    /// # Errors
    /// The terminal fails.
    pub fn run(mut self) -> std::io::Result<Outcome> {
        loop {
            if let Some(outcome) = self.look()? {
                return Ok(outcome);
            }
            let now = Instant::now();
            if self.state.dirty && self.next_frame(now) <= now {
                self.terminal.draw(&self.state)?;
                self.state.dirty = false;
                self.drawn = Some(now);
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
            self.fit()?;
            let telemetry = self.telemetry.read(now);
            return self.update(Message::Telemetry(Box::new(telemetry)));
        }
        Ok(None)
    }

    fn update(&mut self, message: Message) -> std::io::Result<Option<Outcome>> {
        update(&mut self.state, Message::Now(self.start.elapsed()));
        for effect in update(&mut self.state, message) {
            if let Some(outcome) = self.carry_out(effect)? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    fn carry_out(&mut self, effect: Effect) -> std::io::Result<Option<Outcome>> {
        match effect {
            Effect::Send(command) => {
                self.waiting.push_back(command);
                self.send_waiting();
            }
            Effect::Suspend => {
                self.terminal.suspend()?;
                self.fit()?;
                self.state.dirty = true;
            }
            Effect::Reenter => {
                self.terminal.reenter()?;
                self.fit()?;
                self.state.dirty = true;
            }
            Effect::Redraw => self.terminal.forget()?,
            Effect::Exit(outcome) => return Ok(Some(outcome)),
        }
        Ok(None)
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
