//! An answer of a server, from the message to the end: asked for, again if need be, heard, told, written down. What else can be
//! asked is the thread's.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, select};

use super::{Engine, Gone, NOT_HERE};
use crate::chat::{self, Ended, Header, now};
use crate::engine::protocol::{Command, Event};
use crate::engine::remote::Fault;
use crate::engine::remote::answer::{Answer, cut};
use crate::engine::remote::call::{Call, Heard};
use crate::engine::remote::channels::Spoken;
use crate::engine::remote::client::Refusal;
use crate::engine::remote::figures::RemoteFigures;
use crate::engine::remote::request::Wish;
use crate::engine::telemetry::Activity;
use crate::text::{Channel, Message, Thinking};

/// Between two writings of the journal while text comes: a kill costs so much of an answer.
const JOURNAL: Duration = Duration::from_millis(250);

/// What is to be done with a running turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

/// How an attempt at an answer came out.
enum Attempt {
    /// It has ended.
    Ended(Ended),
    /// It failed before anything was said.
    Failed(Refusal),
}

/// A turn under way.
struct Turn {
    answer: Answer,
    /// What the journal does not have yet.
    unwritten: Vec<(Channel, String)>,
    /// When it was written last.
    written: Instant,
    /// Whether the person knows that it cannot be written.
    unwritable: bool,
}

impl Engine {
    /// Answers the last message, which says `user`.
    pub(super) fn turn(&mut self, user: String) -> Result<(), Gone> {
        self.tell(Event::TurnStarted {
            user,
            prompt_tokens: 0,
        })?;
        self.poll.busy(true);
        self.ends.telemetry.set(|telemetry| {
            telemetry.activity = Activity::Waiting;
            telemetry.tokens_per_minute = None;
            let figures = telemetry.remote.get_or_insert_default();
            (figures.first_token, figures.longest_gap, figures.pace) = (None, None, None);
        });
        let (thinking, sampling) = (self.how_to_think(), self.sampling);
        let model = format!("server: {}", self.served.id);
        let header = Header {
            model: model.clone(),
            thinking,
            sampling,
            turn: 1 + self.said.answers() as u64,
            when: now(),
            goes_on_from: None,
        };
        let answered = self.said.messages().len();
        if let Err(error) = self.said.begin_turn(answered, header, &[]) {
            self.tell(Event::Warning(error.to_string()))?;
        }
        let mut turn = Turn {
            answer: Answer::new(thinking, self.marked, Instant::now()),
            unwritten: Vec::new(),
            written: Instant::now(),
            unwritable: false,
        };
        let ended = self.answer(&mut turn, thinking)?;
        for spoken in turn.answer.finish() {
            self.tell_spoken(&mut turn, spoken)?;
        }
        self.write_down(&mut turn)?;
        let answer = turn.answer;
        self.marked = answer.marked();
        let facts = answer.facts(ended, Instant::now());
        let said_nothing = answer.think.is_empty() && answer.response.is_empty();
        self.count(&answer);
        let stands = match self.replaced.take() {
            // Stopped before it said anything: the answer that it was to replace stands.
            Some(old) if said_nothing => {
                self.said.put_back(old);
                true
            }
            _ => {
                // Of an answer that never began nothing is kept: the message waits for another try.
                if !said_nothing || !matches!(facts.ended, Ended::Failed(_)) {
                    let reasoning = thinking.is_on().then_some(answer.think);
                    let message = Message::assistant(reasoning, answer.response);
                    let made = chat::Answer::begun(model, thinking, sampling).with(&facts);
                    self.said.push(message, Some(made));
                }
                false
            }
        };
        let saved = self.said.save().and(self.said.end_turn());
        self.poll.busy(false);
        self.ends.telemetry.set(|telemetry| {
            telemetry.activity = Activity::Idle;
            if facts.positions > 0 {
                telemetry.positions.0 = facts.positions;
            }
        });
        if let Err(error) = saved {
            self.tell(Event::Warning(error.to_string()))?;
        }
        if stands {
            self.conversation(None)?;
        }
        self.tell(Event::TurnEnded(facts))
    }

    /// Asks until there is an answer, or there will be none; how it ended.
    fn answer(&mut self, turn: &mut Turn, thinking: Thinking) -> Result<Ended, Gone> {
        let mut tried_again = 0;
        loop {
            let messages = self.said.messages().to_vec();
            let wish = Wish {
                model: &self.served.id,
                messages: &messages,
                thinking,
                sampling: self.sampling,
                limits: &self.limits,
                refused: &self.refused,
            };
            let body = wish.body();
            let call = match Call::start(&self.client, body.to_string(), messages) {
                Ok(call) => call,
                Err(error) => {
                    return Ok(Ended::Failed(format!(
                        "the system refuses a thread: {error}"
                    )));
                }
            };
            let refusal = match self.hear(&call, turn)? {
                Attempt::Ended(ended) => return Ok(ended),
                Attempt::Failed(refusal) => refusal,
            };
            // Its connection is closed before another one is opened.
            drop(call);
            if let Fault::Status {
                status: 400 | 422, ..
            } = refusal.fault
            {
                let named = refusal.field.as_deref();
                let notes = self.refused.take(named, &refusal.words, &body);
                if !notes.is_empty() {
                    for note in notes {
                        self.tell(Event::Note(note))?;
                    }
                    continue;
                }
            }
            let Some(wait) = self.retry.wait(&refusal.fault, tried_again) else {
                return Ok(cut(&refusal.fault));
            };
            tried_again += 1;
            self.figures(|figures| figures.again += 1);
            self.tell(Event::Note(format!(
                "{}; asking again in {:.0} s",
                refusal.fault,
                wait.as_secs_f64().ceil()
            )))?;
            if self.wait(wait)? == Go::Stop {
                return Ok(Ended::Cancelled);
            }
        }
    }

    /// Waits, and does what is asked meanwhile.
    fn wait(&mut self, wait: Duration) -> Result<Go, Gone> {
        let until = Instant::now() + wait;
        loop {
            match self.ends.asked.recv_deadline(until) {
                Err(RecvTimeoutError::Timeout) => return Ok(Go::On),
                Err(RecvTimeoutError::Disconnected) => return Err(Gone),
                Ok(command) => {
                    if self.meanwhile(command)? == Go::Stop {
                        return Ok(Go::Stop);
                    }
                }
            }
        }
    }

    /// Hears a call to its end.
    fn hear(&mut self, call: &Call, turn: &mut Turn) -> Result<Attempt, Gone> {
        let patience = self.client.patience();
        let mut last = Instant::now();
        loop {
            let silence = match turn.answer.is_begun() {
                true => patience.between,
                false => patience.first,
            };
            let silent = last + silence;
            let until = match turn.unwritten.is_empty() {
                true => silent,
                false => silent.min(turn.written + JOURNAL),
            };
            let left = until.saturating_duration_since(Instant::now());
            let mut heard = None;
            let mut command = None;
            select! {
                recv(self.ends.asked) -> asked => command = Some(asked.map_err(|_| Gone)?),
                recv(call.heard) -> came => heard = Some(came),
                default(left) => {}
            }
            if let Some(command) = command {
                if self.meanwhile(command)? == Go::Stop {
                    return Ok(Attempt::Ended(Ended::Cancelled));
                }
                continue;
            }
            let now = Instant::now();
            if !turn.unwritten.is_empty() && now >= turn.written + JOURNAL {
                self.write_down(turn)?;
            }
            let fault = match heard {
                None if now < silent => continue,
                None => Fault::Silent {
                    host: self.client.host(),
                    after: silence,
                }
                .into(),
                Some(Ok(Heard::Alive)) => {
                    last = now;
                    continue;
                }
                Some(Ok(Heard::Pieces(pieces))) => {
                    last = now;
                    for piece in pieces {
                        for spoken in turn.answer.take(piece, now) {
                            self.tell_spoken(turn, spoken)?;
                        }
                    }
                    self.show(&turn.answer);
                    continue;
                }
                Some(Ok(Heard::Ended(Ok(())))) => {
                    // What was held back may be the last that is missing.
                    for spoken in turn.answer.finish() {
                        self.tell_spoken(turn, spoken)?;
                    }
                    return Ok(Attempt::Ended(turn.answer.ended(&self.limits)));
                }
                Some(Ok(Heard::Ended(Err(fault)))) => fault.into(),
                Some(Ok(Heard::Refused(refusal))) => refusal,
                Some(Err(_)) => self.client.broken("the thread that reads it failed").into(),
            };
            return Ok(match turn.answer.is_begun() {
                true => Attempt::Ended(cut(&fault.fault)),
                false => Attempt::Failed(fault),
            });
        }
    }

    fn tell_spoken(&mut self, turn: &mut Turn, spoken: Spoken) -> Result<(), Gone> {
        match spoken {
            Spoken::Text(channel, text) => {
                self.figures(|figures| figures.tokens += 1);
                turn.unwritten.push((channel, text.clone()));
                self.tell(Event::Delta {
                    channel: Some(channel),
                    text,
                })
            }
            Spoken::WasReasoning => {
                // What was shown and written down as the answer is not: from the beginning, in the right place.
                turn.unwritten.clear();
                self.begin_journal_anew(&turn.answer)?;
                let mut messages = self.said.messages().to_vec();
                let reasoning = Some(turn.answer.think.clone());
                messages.push(Message::assistant(reasoning, ""));
                self.tell(Event::Conversation {
                    messages,
                    taken_back: None,
                    cost: None,
                })?;
                self.tell(Event::TurnResumed { prompt_tokens: 0 })?;
                self.tell(Event::Note(
                    "the server does not separate reasoning from answer; it is done here. Start it with its reasoning parser to have them apart from the first word"
                        .to_owned(),
                ))
            }
        }
    }

    /// Writes the journal of the running turn from its beginning, with what is reasoning now.
    fn begin_journal_anew(&mut self, answer: &Answer) -> Result<(), Gone> {
        let header = Header {
            model: format!("server: {}", self.served.id),
            thinking: self.how_to_think(),
            sampling: self.sampling,
            turn: 1 + self.said.answers() as u64,
            when: now(),
            goes_on_from: None,
        };
        let answered = self.said.messages().len();
        let begun = self
            .said
            .begin_turn(answered, header, &[])
            .and_then(|()| self.said.text(Channel::Think, &answer.think));
        match begun {
            Ok(()) => Ok(()),
            Err(error) => self.tell(Event::Warning(error.to_string())),
        }
    }

    /// Writes down what came since it was done last.
    fn write_down(&mut self, turn: &mut Turn) -> Result<(), Gone> {
        turn.written = Instant::now();
        let mut together: Vec<(Channel, String)> = Vec::new();
        for (channel, text) in turn.unwritten.drain(..) {
            // No history keeps tools apart.
            let channel = match channel {
                Channel::Tools => Channel::Response,
                other => other,
            };
            match together.last_mut() {
                Some((last, before)) if *last == channel => before.push_str(&text),
                _ => together.push((channel, text)),
            }
        }
        for (channel, text) in together {
            if let Err(error) = self.said.text(channel, &text)
                && !std::mem::replace(&mut turn.unwritable, true)
            {
                self.tell(Event::Warning(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// What is asked while an answer is made.
    fn meanwhile(&mut self, command: Command) -> Result<Go, Gone> {
        match command {
            Command::Cancel => return Ok(Go::Stop),
            // The answer is stopped first; the command itself is carried out when it has ended.
            Command::Reset | Command::Quit => {
                self.waiting.push_back(command);
                return Ok(Go::Stop);
            }
            Command::Pause => self.refuse("a server does not halt; Esc stops the answer")?,
            Command::Continue => self.refuse("the answer is being made")?,
            Command::Preset(_) | Command::Budget(_) | Command::Offers => self.refuse(NOT_HERE)?,
            Command::Sampling(_) => self.waiting.push_back(command),
            Command::Send(_) => self.refuse(
                "an answer is being made; wait for it, or stop it first. The message was not sent",
            )?,
            Command::Regenerate | Command::Undo | Command::System(_) | Command::Load(_) => {
                self.refuse("an answer is being made; wait for it, or stop it first")?;
            }
            Command::Effort(_) | Command::Think(_) => self.set_thinking(&command)?,
        }
        Ok(Go::On)
    }

    fn figures(&self, change: impl FnOnce(&mut RemoteFigures)) {
        self.ends
            .telemetry
            .set(|telemetry| change(telemetry.remote.get_or_insert_default()));
    }

    /// The figures of an answer under way.
    fn show(&self, answer: &Answer) {
        let context = self.served.context();
        self.ends.telemetry.set(|telemetry| {
            if answer.is_begun() {
                telemetry.activity = Activity::Decode;
            }
            telemetry.tokens_per_minute = answer.pace().map(|pace| pace * 60.0);
            telemetry.positions.1 = context;
            let figures = telemetry.remote.get_or_insert_default();
            figures.first_token = answer.first_token();
            figures.longest_gap = answer.longest_gap();
            figures.pace = answer.pace();
        });
    }

    /// The figures of an answer that has ended.
    fn count(&self, answer: &Answer) {
        self.show(answer);
        self.figures(|figures| {
            figures.last = answer.counted;
            if let Some(counted) = answer.counted {
                figures.all = figures.all.and(counted);
            }
        });
    }
}
