//! The thread itself: takes commands, runs turns, tells what happens.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::protocol::{Command, Event, ModelFacts};
use super::telemetry::{Activity, TelemetryCell};
use super::{EVENT_CAPACITY, Handle};
use crate::chat::{Observer, Session};
use crate::text::{Channel, Effort};

/// Starts the inference thread. `open` runs on it: opening a model takes its time, and the screen is there meanwhile.
///
/// # Errors
/// The system refuses the thread.
pub fn start(
    open: impl FnOnce() -> anyhow::Result<(ModelFacts, Session)> + Send + 'static,
) -> std::io::Result<Handle> {
    let (commands, asked) = unbounded();
    let (told, events) = bounded(EVENT_CAPACITY);
    let telemetry = TelemetryCell::default();
    let cell = telemetry.clone();
    std::thread::Builder::new()
        .name("k3-engine".into())
        .spawn(move || {
            let work = || -> anyhow::Result<()> {
                let (model, session) = open()?;
                cell.watch(session.network().meters());
                Engine {
                    session,
                    asked,
                    told: told.clone(),
                    telemetry: cell.clone(),
                    waiting: VecDeque::new(),
                }
                .run(model);
                Ok(())
            };
            let reason = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(panic) => Some(format!(
                    "the inference thread failed: {}",
                    panic_text(panic.as_ref())
                )),
            };
            cell.set(|t| t.activity = Activity::Stopped);
            // With no reader left there is nobody to tell.
            let _ = told.send(Event::Stopped(reason));
        })?;
    Ok(Handle {
        commands,
        events,
        telemetry,
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

struct Engine {
    session: Session,
    asked: Receiver<Command>,
    told: Sender<Event>,
    telemetry: TelemetryCell,
    /// What a turn could not do itself, to be done when it is over.
    waiting: VecDeque<Command>,
}

/// Nobody listens any more: the screen is gone.
struct Gone;

impl Engine {
    fn run(mut self, model: ModelFacts) {
        // A send fails only when the screen is gone, and then the thread has no purpose.
        let _ = self.listen(model);
    }

    fn listen(&mut self, model: ModelFacts) -> Result<(), Gone> {
        let mut messages = self.session.messages().to_vec();
        let unanswered = if self.session.awaits_answer() {
            messages.pop()
        } else {
            None
        };
        let effort = self.session.effort();
        self.telemetry.set(|t| t.activity = Activity::Idle);
        self.snapshot();
        self.tell(Event::Ready {
            model,
            messages,
            effort,
        })?;
        if let Some(message) = unanswered {
            self.turn(message.content)?;
        }
        loop {
            let command = match self.waiting.pop_front() {
                Some(command) => command,
                None => self.asked.recv().map_err(|_| Gone)?,
            };
            match command {
                Command::Quit => return Ok(()),
                Command::Cancel => self.refuse("nothing is running")?,
                Command::Send(text) => match self.session.say(&text) {
                    Ok(()) => self.turn(text)?,
                    Err(error) => self.tell(Event::Refused(error.to_string()))?,
                },
                Command::Reset => {
                    if let Err(error) = self.session.reset() {
                        self.tell(Event::Warning(error.to_string()))?;
                    }
                    self.snapshot();
                    self.tell(Event::Reset {
                        messages: self.session.messages().to_vec(),
                    })?;
                }
                Command::Preset(preset) => {
                    let told = match self.session.set_preset(preset) {
                        Ok(plan) => Event::Planned {
                            preset,
                            total_bytes: plan.total(),
                            trunk_read: plan.per_token.trunk_read,
                        },
                        Err(error) => Event::Refused(error.to_string()),
                    };
                    self.snapshot();
                    self.tell(told)?;
                }
                Command::Effort(effort) => {
                    self.session.set_effort(effort);
                    self.tell(Event::ThinkingIs(self.session.effort()))?;
                }
                Command::Think(on) => {
                    self.session.set_thinking(on);
                    self.tell(Event::ThinkingIs(self.session.effort()))?;
                }
            }
        }
    }

    /// Answers the last message.
    fn turn(&mut self, user: String) -> Result<(), Gone> {
        self.tell(Event::TurnStarted {
            user,
            prompt_tokens: self.session.unread(),
        })?;
        let (used, planned) = self.session.positions();
        let mut watch = Watch {
            asked: &self.asked,
            told: &self.told,
            telemetry: &self.telemetry,
            effort: self.session.effort(),
            remembered: self.session.effort().unwrap_or(Effort::Max),
            settings: Vec::new(),
            waiting: VecDeque::new(),
            stop: false,
            gone: false,
            tokens: 0,
            first: None,
            positions: (used, planned),
        };
        let (facts, saved) = self.session.answer(&mut watch);
        let Watch {
            settings,
            waiting,
            gone,
            ..
        } = watch;
        // What was set while the turn ran holds from the next one on.
        for command in settings {
            match command {
                Command::Effort(effort) => self.session.set_effort(effort),
                Command::Think(on) => self.session.set_thinking(on),
                _ => {}
            }
        }
        self.waiting = waiting;
        self.telemetry.set(|t| t.activity = Activity::Idle);
        self.snapshot();
        if gone {
            return Err(Gone);
        }
        if let Err(error) = saved {
            self.tell(Event::Warning(error.to_string()))?;
        }
        self.tell(Event::TurnEnded(facts))
    }

    fn refuse(&self, why: &str) -> Result<(), Gone> {
        self.tell(Event::Refused(why.to_owned()))
    }

    fn tell(&self, event: Event) -> Result<(), Gone> {
        self.told.send(event).map_err(|_| Gone)
    }

    fn snapshot(&self) {
        let positions = self.session.positions();
        self.telemetry.set(|t| t.positions = positions);
    }
}

/// Watches a turn for the screen, and the commands for the turn.
struct Watch<'a> {
    asked: &'a Receiver<Command>,
    told: &'a Sender<Event>,
    telemetry: &'a TelemetryCell,
    /// The thinking that the next turn will have.
    effort: Option<Effort>,
    remembered: Effort,
    /// Settings that came while the turn ran.
    settings: Vec<Command>,
    waiting: VecDeque<Command>,
    stop: bool,
    gone: bool,
    tokens: usize,
    first: Option<Instant>,
    positions: (usize, usize),
}

impl Watch<'_> {
    fn tell(&mut self, event: Event) {
        self.gone |= self.told.send(event).is_err();
    }

    fn set(&mut self, command: Command) {
        match command {
            Command::Effort(effort) => {
                self.remembered = effort;
                self.effort = Some(effort);
            }
            Command::Think(on) => self.effort = on.then_some(self.remembered),
            _ => {}
        }
        self.settings.push(command);
        self.tell(Event::ThinkingIs(self.effort));
    }
}

impl Observer for Watch<'_> {
    fn prefill(&mut self, done: usize, of: usize) {
        self.telemetry
            .update(|t| t.activity = Activity::Prefill { done, of });
    }

    fn delta(&mut self, channel: Option<Channel>, text: &str) {
        let first = *self.first.get_or_insert_with(Instant::now);
        self.tokens += 1;
        let (tokens, positions) = (self.tokens, self.positions);
        self.telemetry.update(|t| {
            t.activity = Activity::Decode;
            t.positions = (positions.0 + tokens, positions.1);
            let seconds = first.elapsed().as_secs_f64();
            t.tokens_per_minute =
                (tokens > 1 && seconds > 0.0).then(|| (tokens - 1) as f64 * 60.0 / seconds);
        });
        self.tell(Event::Delta {
            channel,
            text: text.to_owned(),
        });
    }

    fn stop(&mut self) -> bool {
        while let Ok(command) = self.asked.try_recv() {
            match command {
                Command::Cancel => self.stop = true,
                // The turn is cancelled first; the command itself is carried out when it has ended.
                Command::Reset | Command::Quit => {
                    self.stop = true;
                    self.waiting.push_back(command);
                    // Whatever came after it comes after it.
                    break;
                }
                Command::Preset(_) => self.waiting.push_back(command),
                Command::Send(_) => self.tell(Event::Refused(
                    "an answer is being made; wait for it, or stop it first. The message was not sent".into(),
                )),
                command @ (Command::Effort(_) | Command::Think(_)) => self.set(command),
            }
        }
        self.stop || self.gone
    }
}
