//! The loop: a line goes to the engine, what the engine tells is shown. Text goes to standard output, everything else to
//! standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crossbeam_channel::{SendError, select};

use super::input::{Input, Typed};
use super::line::{Line, parse};
use super::offer::Begin;
use super::progress::Progress;
use crate::chat::Sampling;
use crate::cli::{Exit, sampling, say};
use crate::engine::{Command, Ended, Event, Handle, Reread, TelemetryReader, TurnFacts};
use crate::system::Signal;
use crate::text::{Channel, Effort, visible};

/// How often a running turn is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A conversation with the engine.
pub(super) struct Repl {
    engine: Handle,
    telemetry: TelemetryReader,
    input: Input,
    /// How tokens are chosen.
    sampling: Sampling,
    progress: Progress,
    /// Whether a turn runs.
    running: bool,
    /// The running turn was asked to stop.
    cancelled: bool,
    /// Answers of the engine to wishes that came too late. They are not shown.
    late: usize,
    /// A signal asked the program to end.
    ending: bool,
    /// The system message is being changed: the conversation is the answer.
    changing: bool,
    /// What was asked last is a message.
    sent: bool,
    /// Messages that were refused, and answers that an error cut.
    failed: usize,
    /// The channel whose tag is open on standard output.
    speaking: Option<Channel>,
    /// A line on the terminal's standard error that will be replaced.
    open: bool,
}

impl Repl {
    pub fn new(engine: Handle, input: Input, sampling: Sampling, chunk: usize) -> Self {
        // A terminal's line is replaced; lines of a log stay, and a few say enough.
        let every = match std::io::stderr().is_terminal() {
            true => LOOK,
            false => Duration::from_secs(10),
        };
        Self {
            telemetry: engine.telemetry.reader(),
            engine,
            input,
            sampling,
            progress: Progress::new(every, chunk, Instant::now()),
            running: false,
            cancelled: false,
            late: 0,
            ending: false,
            changing: false,
            sent: false,
            failed: 0,
            speaking: None,
            open: false,
        }
    }

    /// Talks until there is nothing more to say.
    ///
    /// # Errors
    /// The engine fails, or a signal came.
    pub fn run(mut self, begin: Begin) -> anyhow::Result<()> {
        self.wait()?;
        match begin {
            Begin::Answer => self.wait()?,
            Begin::GoOn => self.ask(Command::Continue)?,
            Begin::Ask | Begin::Leave | Begin::Interrupted => {}
        }
        while !self.ending {
            let line = match self.input.ask("user> ")? {
                Typed::Line(line) => line,
                Typed::NotText => {
                    self.say("that line is not UTF-8, and was not sent");
                    continue;
                }
                Typed::End => break,
                Typed::Signal => {
                    self.ending = true;
                    break;
                }
            };
            match parse(&line, self.sampling) {
                Line::Nothing => {}
                Line::Exit => break,
                Line::Say(text) => say!("{text}"),
                Line::Ask(command) => self.ask(command)?,
            }
        }
        // The thread may have ended already; then there is nothing to ask of it.
        let _ = self.engine.commands.send(Command::Quit);
        self.drain()?;
        match (self.ending, self.failed) {
            (true, _) => Err(Exit::Interrupted.into()),
            // A person has seen it; a script looks at the exit code.
            (false, failed @ 1..) if !self.input.terminal => {
                anyhow::bail!("{failed} of the messages got no whole answer, as said above")
            }
            (false, _) => Ok(()),
        }
    }

    fn ask(&mut self, command: Command) -> anyhow::Result<()> {
        self.changing = matches!(command, Command::System(_));
        self.sent = matches!(command, Command::Send(_));
        // If nobody takes it, the engine's last word says why.
        let _: Result<(), SendError<Command>> = self.engine.commands.send(command);
        self.wait()
    }

    /// Shows what comes until the engine waits for the next command.
    fn wait(&mut self) -> anyhow::Result<()> {
        loop {
            let event = select! {
                recv(self.engine.events) -> event => event?,
                recv(self.input.signals) -> signal => {
                    self.signal(signal.unwrap_or(Signal::Interrupt));
                    continue;
                }
                default(LOOK) => {
                    self.look();
                    continue;
                }
            };
            if self.take(event)? {
                self.running = false;
                if !self.ending {
                    self.input.settled();
                }
                return Ok(());
            }
        }
    }

    /// Ctrl-C of a person stops the answer; anything else that ends programs, and Ctrl-C where nobody types, stops it and
    /// then ends the program.
    fn signal(&mut self, signal: Signal) {
        self.ending |= signal != Signal::Interrupt || !self.input.terminal || !self.running;
        if self.running && !self.cancelled {
            self.cancelled = true;
            self.say("stopping at the next layer; once more ends at once");
            let _ = self.engine.commands.send(Command::Cancel);
        }
    }

    fn look(&mut self) {
        if !self.running {
            return;
        }
        let now = Instant::now();
        let line = self.progress.reading(&self.telemetry.read(now), now);
        if let Some(line) = line {
            if std::io::stderr().is_terminal() {
                say::replace_line(&format!("k3: {line}"));
                self.open = true;
            } else {
                self.say(&line);
            }
        }
    }

    fn begin(&mut self, line: &str) {
        (self.running, self.cancelled) = (true, false);
        self.progress.begin(Instant::now());
        self.say(line);
    }

    /// Shows an event; whether the engine now waits for the next command.
    fn take(&mut self, event: Event) -> anyhow::Result<bool> {
        match event {
            Event::Ready { .. } => return Ok(true),
            Event::TurnStarted { prompt_tokens, .. } => {
                self.begin(&format!("reading {prompt_tokens} tokens"));
            }
            Event::TurnResumed { prompt_tokens } => {
                self.begin(&format!(
                    "going on with the answer, reading {prompt_tokens} tokens"
                ));
            }
            Event::Paused | Event::Unpaused => {}
            Event::Delta { channel, text } => {
                let slow = self.progress.token(Instant::now());
                self.show(channel, &text)?;
                if let Some(slow) = slow {
                    self.say(&slow);
                }
            }
            Event::TurnEnded(facts) => {
                // Then the wish to stop came behind the last token, and is still to be answered.
                self.late += usize::from(self.cancelled && facts.ended != Ended::Cancelled);
                self.end(&facts)?;
                return Ok(true);
            }
            Event::Reset { .. } => {
                self.say("the conversation is forgotten");
                return Ok(true);
            }
            Event::Conversation {
                taken_back: Some(text),
                ..
            } => {
                self.say(&format!("taken back: {}", visible(&text)));
                return Ok(true);
            }
            Event::Conversation { cost, .. } => {
                if self.changing {
                    self.say("the system message is changed");
                    self.cost(cost);
                }
                return Ok(self.changing);
            }
            // Only a screen asks for another conversation.
            Event::Loaded { .. } | Event::Offers(_) => return Ok(true),
            Event::SamplingIs(sampling) => {
                self.sampling = sampling;
                self.say(&sampling::words(&sampling));
                return Ok(true);
            }
            Event::ThinkingIs { effort, cost } => {
                self.say(&format!(
                    "thinking {}",
                    effort.map_or("off", Effort::as_str)
                ));
                self.cost(cost);
                return Ok(true);
            }
            Event::Planned {
                preset,
                total_bytes,
                ..
            } => {
                let gigabytes = total_bytes as f64 / 1e9;
                self.say(&format!("preset {preset}, up to {gigabytes:.2} GB"));
                return Ok(true);
            }
            Event::Refused(_) if self.late > 0 => self.late -= 1,
            Event::Refused(why) => {
                self.failed += usize::from(self.sent);
                self.say(&why);
                return Ok(true);
            }
            Event::Warning(why) | Event::Note(why) => self.say(&why),
            Event::Stopped(reason) => {
                anyhow::bail!(reason.unwrap_or_else(|| "the engine has ended".into()))
            }
        }
        Ok(false)
    }

    /// Waits for the engine's last word.
    fn drain(&mut self) -> anyhow::Result<()> {
        loop {
            match self.engine.events.recv() {
                Ok(Event::Stopped(Some(reason))) => anyhow::bail!(reason),
                Ok(Event::Stopped(None)) | Err(_) => return Ok(()),
                Ok(Event::Warning(why)) => self.say(&why),
                Ok(_) => {}
            }
        }
    }

    /// A line on standard error, on a line of its own.
    fn say(&mut self, line: &str) {
        self.clear();
        // In the middle of an answer that is on the same terminal.
        if self.speaking.is_some() && std::io::stdout().is_terminal() {
            say!("");
        }
        say!("k3: {line}");
    }

    /// Takes the line away that is to be replaced.
    fn clear(&mut self) {
        if std::mem::take(&mut self.open) {
            say::replace_line("");
        }
    }

    fn cost(&mut self, cost: Option<Reread>) {
        if let Some(Reread { tokens, seconds }) = cost {
            let about = seconds.map_or(String::new(), |s| format!(", about {s:.0} s"));
            self.say(&format!(
                "the next answer reads {tokens} tokens again{about}"
            ));
        }
    }

    fn show(&mut self, channel: Option<Channel>, text: &str) -> std::io::Result<()> {
        self.clear();
        if text.is_empty() {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        if channel != self.speaking {
            if let Some(open) = self.speaking {
                writeln!(out, "</{open}>")?;
            }
            if let Some(channel) = channel {
                write!(out, "<{channel}>")?;
            }
            self.speaking = channel;
        }
        match out.is_terminal() {
            true => write!(out, "{}", visible(text))?,
            false => write!(out, "{text}")?,
        }
        out.flush()
    }

    fn end(&mut self, facts: &TurnFacts) -> anyhow::Result<()> {
        self.clear();
        if let Some(open) = self.speaking.take() {
            let mut out = std::io::stdout().lock();
            writeln!(out, "</{open}>")?;
            out.flush()?;
        }
        let tokens = facts.think_tokens + facts.response_tokens;
        self.say(&format!(
            "{} and {} tokens, {:.2} s reading, {:.2} tokens a second",
            facts.think_tokens,
            facts.response_tokens,
            facts.seconds_prefill,
            tokens as f64 / facts.seconds_decode.max(1e-9),
        ));
        match &facts.ended {
            Ended::Finished | Ended::Killed => {}
            Ended::Cancelled => self.say("stopped; /continue goes on"),
            Ended::Limit => self.say("as many tokens as --gen allows; /continue goes on"),
            Ended::StopId(id) => self.say(&format!("stopped at id {id}; /continue goes on")),
            Ended::Length => self.say("the context is full; /reset starts anew"),
            Ended::Malformed(why) | Ended::Failed(why) => {
                self.failed += 1;
                self.say(&format!("the answer is cut: {why}"));
            }
        }
        Ok(())
    }
}
