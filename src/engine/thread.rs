//! The thread itself: takes commands, runs turns, tells what happens.

use std::collections::VecDeque;
use std::path::Path;

use crossbeam_channel::{Receiver, Sender};

use super::Handle;
use super::offers::Source;
use super::protocol::{Command, Event, ModelFacts, Reread};
use super::spawn::{Ends, spawn};
use super::telemetry::{Activity, Cache, TelemetryCell};
use super::watch::{self, Watch};
use crate::chat::{Change, Error, Session, Store};
use crate::text::Message;

/// Starts the inference thread. `open` runs on it: opening a model takes its time, and the screen is there meanwhile.
///
/// # Errors
/// The system refuses the thread.
pub fn start(
    open: impl FnOnce() -> anyhow::Result<(ModelFacts, Session)> + Send + 'static,
) -> std::io::Result<Handle> {
    spawn(move |ends| {
        let Ends {
            asked,
            told,
            telemetry,
        } = ends;
        let (model, session) = open()?;
        telemetry.watch(session.network().meters());
        session.network().give_way();
        Engine {
            session,
            asked,
            told,
            telemetry,
            waiting: VecDeque::new(),
        }
        .run(model);
        Ok(())
    })
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
        let (messages, unanswered) = self.unanswered();
        self.session.recall();
        self.telemetry.set(|t| t.activity = Activity::Idle);
        self.snapshot();
        self.tell(Event::Ready {
            model,
            messages,
            effort: self.session.effort(),
            open: self.session.open_ended().cloned(),
            sampling: self.session.sampling(),
            history: self.session.history().map(Path::to_owned),
        })?;
        self.tell_notes()?;
        if let Some(message) = unanswered {
            self.turn(Some(message.content))?;
        }
        loop {
            let command = match self.waiting.pop_front() {
                Some(command) => command,
                None => self.asked.recv().map_err(|_| Gone)?,
            };
            if command == Command::Quit {
                // What cannot be saved now is read again.
                let _ = self.session.keep_state(true);
                return Ok(());
            }
            if let Err(error) = self.carry_out(command)? {
                self.refuse(&error.to_string())?;
            }
            self.tell_notes()?;
        }
    }

    /// The conversation, and apart from it a last message that has no answer yet.
    fn unanswered(&self) -> (Vec<Message>, Option<Message>) {
        let mut messages = self.session.messages().to_vec();
        let unanswered = match self.session.awaits_answer() {
            true => messages.pop(),
            false => None,
        };
        (messages, unanswered)
    }

    /// Takes another memory plan.
    fn change_plan(&mut self, change: Change) -> Result<Result<(), Error>, Gone> {
        let planned = self.session.change_plan(change);
        self.snapshot();
        match planned {
            Ok(plan) => self.tell(watch::planned(&plan)).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Goes over to another conversation.
    fn load(&mut self, path: &Path) -> Result<Result<(), Error>, Gone> {
        let loaded = Store::open(path).and_then(|history| self.session.load(history));
        if let Err(error) = loaded {
            return Ok(Err(error));
        }
        self.session.recall();
        self.snapshot();
        let (messages, unanswered) = self.unanswered();
        self.tell(Event::Loaded {
            history: path.to_owned(),
            messages,
            open: self.session.open_ended().cloned(),
        })?;
        match unanswered {
            Some(message) => self.turn(Some(message.content)).map(Ok),
            None => Ok(Ok(())),
        }
    }

    /// Carries a command out and answers it, unless it fails: then it is to be refused with what went wrong.
    fn carry_out(&mut self, command: Command) -> Result<Result<(), Error>, Gone> {
        let outcome = match command {
            // The loop ends with it.
            Command::Quit => Ok(()),
            Command::Cancel | Command::Pause => Err(Error::Nothing("nothing running")),
            Command::Continue => match self.session.can_go_on() || self.session.awaits_answer() {
                true => return self.turn(None).map(Ok),
                false => Err(Error::Nothing("no answer to go on with")),
            },
            Command::Send(text) => match self.session.say(&text) {
                Ok(()) => return self.turn(Some(text)).map(Ok),
                Err(error) => Err(error),
            },
            Command::Regenerate => match self.session.take_back_answer() {
                Ok(text) => return self.anew(text).map(Ok),
                Err(error) => Err(error),
            },
            Command::Undo => match self.session.take_back_message() {
                Ok(text) => return self.conversation(Some(text), None).map(Ok),
                Err(error) => Err(error),
            },
            Command::Reset => {
                if let Err(error) = self.session.reset() {
                    self.tell(Event::Warning(error.to_string()))?;
                }
                self.snapshot();
                let messages = self.session.messages().to_vec();
                return self.tell(Event::Reset { messages }).map(Ok);
            }
            Command::System(text) => {
                let before = self.session.unread();
                if let Err(error) = self.session.set_system(text) {
                    self.tell(Event::Warning(error.to_string()))?;
                }
                let cost = self.cost(before);
                return self.conversation(None, cost).map(Ok);
            }
            Command::Sampling(sampling) => match self.session.set_sampling(sampling) {
                Ok(()) => return self.tell(Event::SamplingIs(sampling)).map(Ok),
                Err(error) => Err(error),
            },
            Command::Preset(preset) => return self.change_plan(Change::Preset(preset)),
            Command::Budget(change) => return self.change_plan(change),
            Command::Offers => match Source::of(&self.session).offers(self.session.request()) {
                Ok(offers) => return self.tell(Event::Offers(offers)).map(Ok),
                Err(error) => Err(error),
            },
            Command::Load(path) => return self.load(&path),
            Command::Effort(_) | Command::Think(_) => {
                return self.set_thinking(&[command]).map(Ok);
            }
        };
        Ok(outcome)
    }

    /// Sets how much to think and tells what that costs.
    fn set_thinking(&mut self, commands: &[Command]) -> Result<(), Gone> {
        let before = self.session.unread();
        for command in commands {
            match command {
                Command::Effort(effort) => self.session.set_effort(*effort),
                Command::Think(on) => self.session.set_thinking(*on),
                _ => {}
            }
        }
        let cost = self.cost(before);
        self.snapshot();
        self.tell(Event::ThinkingIs {
            effort: self.session.effort(),
            cost,
        })
    }

    /// What is to be read now and was not before.
    fn cost(&self, before: usize) -> Option<Reread> {
        let tokens = self.session.unread().saturating_sub(before);
        let per_token = self.session.seconds_to_read();
        (tokens > 0).then(|| Reread {
            tokens,
            seconds: per_token.map(|seconds| seconds * tokens as f64),
        })
    }

    fn conversation(
        &mut self,
        taken_back: Option<String>,
        cost: Option<Reread>,
    ) -> Result<(), Gone> {
        self.snapshot();
        self.tell(Event::Conversation {
            messages: self.session.messages().to_vec(),
            taken_back,
            cost,
        })
    }

    /// Answers the last message again.
    fn anew(&mut self, user: String) -> Result<(), Gone> {
        let mut messages = self.session.messages().to_vec();
        messages.pop();
        self.tell(Event::Conversation {
            messages,
            taken_back: None,
            cost: None,
        })?;
        self.turn(Some(user))
    }

    /// Answers the last message, which says `user`; or goes on with the last answer.
    fn turn(&mut self, user: Option<String>) -> Result<(), Gone> {
        self.session.recall();
        self.tell_notes()?;
        let prompt_tokens = self.session.unread();
        self.tell(match user {
            Some(user) => Event::TurnStarted {
                user,
                prompt_tokens,
            },
            None => Event::TurnResumed { prompt_tokens },
        })?;
        // What is to be read is being read.
        self.telemetry.set(|t| t.unread = None);
        let mut watch = Watch::new(&self.session, &self.asked, &self.told, &self.telemetry);
        let (facts, saved) = self.session.answer(&mut watch);
        let left = watch.left();
        self.waiting = left.waiting;
        if let Some(request) = left.request {
            self.session.set_request(request);
        }
        self.telemetry.set(|t| t.activity = Activity::Idle);
        self.snapshot();
        if left.gone {
            return Err(Gone);
        }
        if let Err(error) = saved {
            self.tell(Event::Warning(error.to_string()))?;
        }
        if self.session.old_answer_stands() {
            self.conversation(None, None)?;
        }
        // What was set while the turn ran holds from the next one on, and what it costs is known only now.
        if !left.settings.is_empty() {
            self.set_thinking(&left.settings)?;
        }
        self.tell(Event::TurnEnded(facts))?;
        // After the last word of the turn: nobody waits for this.
        match self.session.keep_state(false) {
            Ok(()) => Ok(()),
            Err(error) => self.tell(Event::Warning(error.to_string())),
        }
    }

    fn tell_notes(&mut self) -> Result<(), Gone> {
        let warnings = self.session.take_warnings().into_iter();
        let notes = self.session.take_notes().into_iter();
        let mut events = warnings.map(Event::Warning).chain(notes.map(Event::Note));
        events.try_for_each(|event| self.tell(event))
    }

    fn refuse(&self, why: &str) -> Result<(), Gone> {
        self.tell(Event::Refused(why.to_owned()))
    }

    fn tell(&self, event: Event) -> Result<(), Gone> {
        self.told.send(event).map_err(|_| Gone)
    }

    fn snapshot(&self) {
        let positions = self.session.positions();
        let unread = self.session.unread();
        let cache = Cache::of(self.session.network());
        self.telemetry.set(|t| {
            t.positions = positions;
            t.unread = Some(unread);
            t.left = None;
            t.cache = cache;
        });
    }
}
