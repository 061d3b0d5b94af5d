//! One conversation for a caller that waits for its answers: an engine's thread, asked and listened to. No pointers.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use super::K3Code;
use crate::chat::{Limits, ModelFiles, Opening, Sampling};
use crate::engine::{self, Command, Ended, Event, Handle, ModelFacts, Telemetry, TelemetryReader};
use crate::stream::{Preset, Request};
use crate::text::{Channel, Effort};

/// Positions that are planned when none are asked for.
const CONTEXT: usize = 8192;

/// Why a call did not do what it should.
pub(super) struct Problem {
    pub(super) code: K3Code,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(code: K3Code, text: impl ToString) -> Self {
        let text = text.to_string();
        Self { code, text }
    }

    pub(super) fn refused<T: ToString>(text: T) -> Self {
        Self::new(K3Code::Refused, text)
    }
}

/// What to open.
pub(super) struct Options {
    pub(super) model: Option<PathBuf>,
    pub(super) cache: Option<PathBuf>,
    pub(super) tokenizer: Option<PathBuf>,
    pub(super) trunk_folder: Option<PathBuf>,
    pub(super) preset: Preset,
    /// None when thinking is off.
    pub(super) effort: Option<Effort>,
    pub(super) trunk: Option<u64>,
    pub(super) cache_bytes: Option<u64>,
    pub(super) ring: Option<usize>,
    pub(super) context: Option<usize>,
    pub(super) threads: Option<usize>,
    pub(super) tokens: Option<usize>,
    pub(super) sampling: Sampling,
}

/// An answer that is being made.
#[derive(Default)]
struct Running {
    /// Whether there is one.
    is: bool,
    /// Whether it was asked to stop.
    cancelled: bool,
}

/// A model and its conversation.
pub(super) struct Talk {
    engine: Handle,
    telemetry: Mutex<TelemetryReader>,
    running: Mutex<Running>,
    /// Held by the one who asks and listens.
    turn: Mutex<()>,
    sampling: Sampling,
}

impl Talk {
    /// Opens a model and waits until it is there.
    pub(super) fn open(options: Options) -> Result<Self, Problem> {
        let files = match options.model {
            Some(folder) => ModelFiles::in_folder(folder),
            None => {
                let usual = || {
                    let folders = directories::ProjectDirs::from("", "", "k3-tui");
                    folders.map(|folders| folders.cache_dir().to_owned())
                };
                let cache = options.cache.or_else(usual).ok_or_else(|| {
                    Problem::refused("there is no folder to unpack the demo model in; name a cache")
                })?;
                ModelFiles::demo(&cache).map_err(Problem::refused)?
            }
        };
        let files = ModelFiles {
            tokenizer: options.tokenizer,
            trunk: options.trunk_folder,
            ..files
        };
        let config = files.config().map_err(Problem::refused)?;
        let longest = config.max_positions.unwrap_or(usize::MAX);
        let context = options.context.unwrap_or(CONTEXT.min(longest));
        if !(2..=longest).contains(&context) {
            return Err(Problem::refused(format!(
                "a context of {context} positions: the model has 2 to {longest}"
            )));
        }
        let usual = Request::of(options.preset, context);
        let request = Request {
            trunk: options.trunk,
            cache: options.cache_bytes,
            ring: options.ring,
            threads: options.threads.unwrap_or(usual.threads),
            ..usual
        };
        let model = files.check(config, request).map_err(Problem::refused)?;
        let facts = ModelFacts::of(&model);
        let opening = Opening {
            sampling: options.sampling,
            limits: Limits {
                tokens: options.tokens,
                stop_ids: Vec::new(),
            },
            ..Opening::default()
        };
        let effort = options.effort;
        let opened = engine::start(move || {
            let mut session = model.open(opening)?;
            match effort {
                Some(effort) => session.set_effort(effort),
                None => session.set_thinking(false),
            }
            Ok((facts, session))
        });
        let engine = opened.map_err(|e| Problem::new(K3Code::Failed, e))?;
        let talk = Self {
            telemetry: Mutex::new(engine.telemetry.reader()),
            engine,
            running: Mutex::default(),
            turn: Mutex::new(()),
            sampling: options.sampling,
        };
        talk.wait(|event| matches!(event, Event::Ready { .. }))?;
        Ok(talk)
    }

    /// Says a message and hands the answer out; `take` says whether it is to go on.
    pub(super) fn generate(
        &self,
        message: String,
        take: &mut dyn FnMut(Channel, &str) -> bool,
    ) -> Result<(), Problem> {
        let _turn = self.turn()?;
        let drops = self.telemetry().drops;
        self.say(Command::Send(message))?;
        self.wait(|event| matches!(event, Event::TurnStarted { .. }))?;
        locked(&self.running).is = true;
        let ended = self.listen(take);
        let cancelled = {
            let mut running = locked(&self.running);
            let cancelled = running.cancelled;
            *running = Running::default();
            cancelled
        };
        let ended = ended?;
        if cancelled {
            // It may have come too late, and its answer would be taken for another's. This one cannot be.
            self.say(Command::Sampling(self.sampling))?;
            while !matches!(self.hear()?, Event::SamplingIs(_)) {}
        }
        match ended {
            Ended::Finished | Ended::Length | Ended::Limit | Ended::StopId(_) => Ok(()),
            Ended::Cancelled => Err(Problem::new(K3Code::Cancelled, "the answer was stopped")),
            Ended::Failed(why) if self.telemetry().drops > drops => {
                Err(Problem::new(K3Code::Drop, why))
            }
            Ended::Failed(why) | Ended::Malformed(why) => Err(Problem::new(K3Code::Failed, why)),
            Ended::Killed => Err(Problem::new(K3Code::Failed, "the answer was cut")),
        }
    }

    /// Forgets the conversation.
    pub(super) fn reset(&self) -> Result<(), Problem> {
        let _turn = self.turn()?;
        self.say(Command::Reset)?;
        self.wait(|event| matches!(event, Event::Reset { .. }))
    }

    /// Stops the running answer, if there is one.
    pub(super) fn cancel(&self) {
        let mut running = locked(&self.running);
        if running.is && !running.cancelled {
            // An engine that is gone makes no answer either.
            running.cancelled = self.engine.commands.send(Command::Cancel).is_ok();
        }
    }

    /// What is going on.
    pub(super) fn telemetry(&self) -> Telemetry {
        locked(&self.telemetry).read(Instant::now())
    }

    /// Events up to the end of the turn.
    fn listen(&self, take: &mut dyn FnMut(Channel, &str) -> bool) -> Result<Ended, Problem> {
        loop {
            match self.hear()? {
                Event::Delta {
                    channel: Some(channel),
                    text,
                } if !text.is_empty() => {
                    let goes_on = take(channel, &text);
                    if !goes_on {
                        self.cancel();
                    }
                }
                Event::TurnEnded(turn) => return Ok(turn.ended),
                _ => {}
            }
        }
    }

    /// Whether nobody else asks and listens; then it is this caller.
    fn turn(&self) -> Result<MutexGuard<'_, ()>, Problem> {
        match self.turn.try_lock() {
            Ok(turn) => Ok(turn),
            Err(TryLockError::Poisoned(turn)) => Ok(turn.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Problem::new(
                K3Code::Busy,
                "another thread has an answer made",
            )),
        }
    }

    fn say(&self, command: Command) -> Result<(), Problem> {
        let sent = self.engine.commands.send(command);
        sent.map_err(|_| Problem::new(K3Code::Failed, "the inference thread has ended"))
    }

    /// The next event; that the engine has stopped is a problem.
    fn hear(&self) -> Result<Event, Problem> {
        match self.engine.events.recv() {
            Ok(Event::Stopped(why)) => Err(Problem::new(
                K3Code::Failed,
                why.unwrap_or_else(|| "the inference thread has ended".into()),
            )),
            Ok(event) => Ok(event),
            Err(_) => Err(Problem::new(
                K3Code::Failed,
                "the inference thread has ended",
            )),
        }
    }

    /// Waits for an answer.
    fn wait(&self, answer: impl Fn(&Event) -> bool) -> Result<(), Problem> {
        loop {
            match self.hear()? {
                Event::Refused(why) => return Err(Problem::refused(why)),
                event if answer(&event) => return Ok(()),
                _ => {}
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // Memory and files are given back when this returns, not some time later.
        if self.say(Command::Quit).is_ok() {
            while self.hear().is_ok() {}
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
