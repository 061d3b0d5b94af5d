//! A running turn and the commands that come meanwhile: what stops it, what waits for its end, what is told of it.

use std::collections::VecDeque;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use super::offers::Source;
use super::protocol::{Command, Event};
use super::telemetry::{Activity, Cache, TelemetryCell};
use crate::chat::{Change, Observer, Session, replan};
use crate::model::Network;
use crate::stream::{Plan, Request};
use crate::text::{Channel, Effort};

/// Watches a turn for the screen, and the commands for the turn.
pub(super) struct Watch<'a> {
    asked: &'a Receiver<Command>,
    told: &'a Sender<Event>,
    telemetry: &'a TelemetryCell,
    /// The thinking that the next turn will have.
    effort: Option<Effort>,
    remembered: Effort,
    /// What was asked of the memory plan.
    request: Request,
    /// What is to be done about the plan when the running pass is through.
    changes: VecDeque<Change>,
    offers: Source,
    left: Left,
    stop: bool,
    paused: bool,
    activity: Activity,
    tokens: usize,
    first: Option<Instant>,
    /// Positions of the prompt, and planned.
    positions: (usize, usize),
    /// Tokens that the answer may have at most.
    limit: Option<usize>,
}

/// What is to be done when the turn is over.
#[derive(Default)]
pub(super) struct Left {
    /// Settings of the thinking that came while it ran.
    pub settings: Vec<Command>,
    /// Commands that it could not carry out itself.
    pub waiting: VecDeque<Command>,
    /// What is asked of the memory plan now.
    pub request: Option<Request>,
    /// Nobody listens any more.
    pub gone: bool,
}

/// The answer to a change of the plan.
pub(super) fn planned(plan: &Plan) -> Event {
    Event::Planned {
        preset: plan.preset,
        total_bytes: plan.total(),
        trunk_read: plan.per_token.trunk_read,
    }
}

impl<'a> Watch<'a> {
    pub fn new(
        session: &Session,
        asked: &'a Receiver<Command>,
        told: &'a Sender<Event>,
        telemetry: &'a TelemetryCell,
    ) -> Self {
        Self {
            asked,
            told,
            telemetry,
            effort: session.effort(),
            remembered: session.effort().unwrap_or(Effort::Max),
            request: session.request().clone(),
            changes: VecDeque::new(),
            offers: Source::of(session),
            limit: session.limit(),
            left: Left::default(),
            stop: false,
            paused: false,
            activity: Activity::Idle,
            tokens: 0,
            first: None,
            positions: (session.prompt().len(), session.positions().1),
        }
    }

    /// What is to be done now.
    pub fn left(mut self) -> Left {
        // Plans that the turn ended before come first: they were asked for first.
        for change in self.changes.into_iter().rev() {
            self.left.waiting.push_front(match change {
                Change::Preset(preset) => Command::Preset(preset),
                change => Command::Budget(change),
            });
        }
        self.left.request = Some(self.request);
        self.left
    }

    fn tell(&mut self, event: Event) {
        self.left.gone |= self.told.send(event).is_err();
    }

    fn refuse(&mut self, why: &str) {
        self.tell(Event::Refused(why.to_owned()));
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
        self.left.settings.push(command);
        self.tell(Event::ThinkingIs {
            effort: self.effort,
            cost: None,
        });
    }

    fn pause(&mut self, paused: bool) {
        self.paused = paused;
        let activity = if paused {
            Activity::Paused
        } else {
            self.activity
        };
        self.telemetry.set(|t| t.activity = activity);
        self.tell(if paused {
            Event::Paused
        } else {
            Event::Unpaused
        });
    }

    /// The next command: if the turn is halted it is waited for.
    fn next(&mut self) -> Option<Command> {
        if !self.paused {
            return self.asked.try_recv().ok();
        }
        let command = self.asked.recv().ok();
        self.left.gone |= command.is_none();
        command
    }

    fn doing(&mut self, activity: Activity) {
        self.activity = activity;
        self.telemetry.update(|t| t.activity = activity);
    }
}

impl Observer for Watch<'_> {
    fn prefill(&mut self, done: usize, of: usize) {
        self.doing(Activity::Prefill { done, of });
        let through = self.positions.0.saturating_sub(of) + done;
        self.telemetry.update(|t| t.positions.0 = through);
    }

    fn between(&mut self, network: &mut Network) {
        while let Some(change) = self.changes.pop_front() {
            let request = change.of(&self.request);
            match replan(network, &request) {
                Ok(plan) => {
                    self.request = request;
                    let cache = Cache::of(network);
                    self.telemetry.set(|t| t.cache = cache);
                    self.tell(planned(&plan));
                }
                Err(error) => self.refuse(&error.to_string()),
            }
        }
    }

    fn delta(&mut self, channel: Option<Channel>, text: &str) {
        let first = *self.first.get_or_insert_with(Instant::now);
        self.tokens += 1;
        let (tokens, positions, limit) = (self.tokens, self.positions, self.limit);
        self.activity = Activity::Decode;
        self.telemetry.update(|t| {
            t.activity = Activity::Decode;
            t.positions = (positions.0 + tokens, positions.1);
            let room = positions.1.saturating_sub(positions.0 + tokens);
            let limit = limit.map(|limit| limit.saturating_sub(tokens));
            t.left = Some(limit.map_or(room, |limit| limit.min(room)));
            let seconds = first.elapsed().as_secs_f64();
            t.tokens_per_minute =
                (tokens > 1 && seconds > 0.0).then(|| (tokens - 1) as f64 * 60.0 / seconds);
        });
        self.tell(Event::Delta {
            channel,
            text: text.to_owned(),
        });
    }

    fn warn(&mut self, why: &str) {
        self.tell(Event::Warning(why.to_owned()));
    }

    fn stop(&mut self) -> bool {
        while let Some(command) = self.next() {
            match command {
                Command::Cancel => {
                    (self.stop, self.paused) = (true, false);
                }
                // The turn is cancelled first; the command itself is carried out when it has ended.
                Command::Reset | Command::Quit => {
                    (self.stop, self.paused) = (true, false);
                    self.left.waiting.push_back(command);
                    // Whatever came after it comes after it.
                    break;
                }
                Command::Pause if self.paused => self.refuse("the turn is halted already"),
                Command::Pause => self.pause(true),
                Command::Continue if self.paused => self.pause(false),
                Command::Continue => self.refuse("the answer is being made"),
                Command::Preset(preset) => {
                    self.changes.push_back(Change::Preset(preset));
                }
                Command::Budget(change) => self.changes.push_back(change),
                Command::Offers => match self.offers.offers(&self.request) {
                    Ok(offers) => self.tell(Event::Offers(offers)),
                    Err(error) => self.refuse(&error.to_string()),
                },
                Command::Sampling(_) => self.left.waiting.push_back(command),
                Command::Send(_) => self.refuse(
                    "an answer is being made; wait for it, or stop it first. The message was not sent",
                ),
                Command::Regenerate | Command::Undo | Command::System(_) | Command::Load(_) => self.refuse(
                    "an answer is being made; wait for it, or stop it first",
                ),
                Command::Effort(_) | Command::Think(_) => self.set(command),
            }
        }
        self.stop || self.left.gone
    }
}
