//! The engine's thread for a model on a server: takes commands, asks, tells what comes. The same protocol as for a model here;
//! what only that can do is refused with a word.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, select};

use super::super::Handle;
use super::super::protocol::{Command, Event, ModelFacts};
use super::super::spawn::{Ends, spawn};
use super::super::telemetry::Activity;
use super::answer::{Answer, cut};
use super::call::{Call, Heard};
use super::channels::Spoken;
use super::client::{Client, Refusal};
use super::figures::RemoteFigures;
use super::models::{self, Served};
use super::poll::Poll;
use super::request::{Refused, Wish};
use super::{Fault, Patience, Retry, Server};
use crate::chat::{
    self, Ended, Error, Header, Limits, Opened, Sampling, Store, TakenBack, Transcript, now,
};
use crate::text::{Channel, Effort, Message, Thinking};

/// How a conversation with a server begins.
#[derive(Debug)]
pub struct Opening {
    /// The server.
    pub server: Server,
    /// Where the conversation is kept, and what was found there.
    pub history: Option<(Store, Opened)>,
    /// Begins a new conversation, and must be what a history begins with.
    pub system: Option<String>,
    /// How much to think; none not at all.
    pub effort: Option<Effort>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Where answers end.
    pub limits: Limits,
    /// How long the server is waited for.
    pub patience: Patience,
    /// When is asked again.
    pub retry: Retry,
}

/// Between two writings of the journal while text comes: a kill costs so much of an answer.
const JOURNAL: Duration = Duration::from_millis(250);

/// How often the list of models is asked for again: somebody waits for a word.
const AT_THE_START: u32 = 2;

/// Starts the thread. The server is first spoken to there: that may take its time, and the screen is there meanwhile.
///
/// # Errors
/// The system refuses the thread.
pub fn start(opening: Opening) -> std::io::Result<Handle> {
    spawn(move |ends| {
        let mut engine = Engine::open(opening, ends)?;
        // A send fails only when the screen is gone, and then the thread has no purpose.
        let _ = engine.listen();
        Ok(())
    })
}

struct Engine {
    ends: Ends,
    client: Client,
    retry: Retry,
    served: Served,
    said: Transcript,
    /// What was taken back to be answered anew, until there is another answer.
    replaced: Option<TakenBack>,
    thinking: bool,
    effort: Effort,
    sampling: Sampling,
    limits: Limits,
    /// What the server does without.
    refused: Refused,
    /// Whether it was found to leave the marks of channels in the text.
    marked: bool,
    poll: Poll,
    /// What is to be told once there is a screen.
    notes: Vec<String>,
    /// What a turn could not do itself, to be done when it is over.
    waiting: VecDeque<Command>,
}

/// Nobody listens any more: the screen is gone.
struct Gone;

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

const NOT_HERE: &str = "the model runs on a server: its memory is planned there. /backend local goes over to the one here";

impl Engine {
    fn open(opening: Opening, ends: Ends) -> anyhow::Result<Self> {
        let Opening {
            server,
            history,
            system,
            effort,
            sampling,
            limits,
            patience,
            retry,
        } = opening;
        let (mut said, partial) = Transcript::open(history, system)?;
        let mut notes = Vec::new();
        if server.is_bare() {
            notes.push(format!(
                "the key goes to {} without encryption: everybody on the way can read it",
                server.host()
            ));
        }
        let client = Client::new(server, patience);
        let served = serve(&client, &retry)?;
        let taken_up = partial.is_some_and(|partial| take_up(partial, &mut said, &mut notes));
        said.save()?;
        if taken_up {
            said.drop_partial()?;
        }
        Ok(Self {
            poll: Poll::start(client.clone(), ends.telemetry.clone())?,
            ends,
            client,
            retry,
            served,
            said,
            replaced: None,
            thinking: effort.is_some(),
            effort: effort.unwrap_or(Effort::Max),
            sampling,
            limits,
            refused: Refused::default(),
            marked: false,
            notes,
            waiting: VecDeque::new(),
        })
    }

    fn listen(&mut self) -> Result<(), Gone> {
        let context = self.served.context();
        self.ends.telemetry.set(|telemetry| {
            telemetry.activity = Activity::Idle;
            telemetry.positions = (0, context);
            telemetry.remote.get_or_insert_default();
        });
        let (messages, unanswered) = self.unanswered();
        self.tell(Event::Ready {
            model: ModelFacts {
                name: self.served.id.clone(),
                demo: false,
                layers: 0,
                context,
                server: Some(self.client.host()),
            },
            messages,
            effort: self.effort(),
            open: self.open_ended(),
            sampling: self.sampling,
            history: self.said.path().map(Path::to_owned),
        })?;
        self.tell_notes()?;
        if let Some(message) = unanswered {
            self.turn(message.content)?;
        }
        loop {
            let command = match self.waiting.pop_front() {
                Some(command) => command,
                None => self.ends.asked.recv().map_err(|_| Gone)?,
            };
            if command == Command::Quit {
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
        let mut messages = self.said.messages().to_vec();
        let unanswered = match self.said.awaits_answer() {
            true => messages.pop(),
            false => None,
        };
        (messages, unanswered)
    }

    /// How the last answer ended, if it was cut.
    fn open_ended(&self) -> Option<Ended> {
        let ended = self.said.last_answer().map(|answer| answer.ended.clone());
        ended.filter(Ended::is_open)
    }

    fn effort(&self) -> Option<Effort> {
        self.thinking.then_some(self.effort)
    }

    fn how_to_think(&self) -> Thinking {
        match self.thinking {
            true => Thinking::On(Some(self.effort)),
            false => Thinking::Off,
        }
    }

    /// Carries a command out and answers it, unless it fails: then it is to be refused with what went wrong.
    fn carry_out(&mut self, command: Command) -> Result<Result<(), Error>, Gone> {
        match command {
            // The loop ends with it.
            Command::Quit => Ok(Ok(())),
            Command::Cancel | Command::Pause => Ok(Err(Error::Nothing("nothing running"))),
            Command::Continue => match self.said.messages().last() {
                Some(message) if self.said.awaits_answer() => {
                    let text = message.content.clone();
                    self.turn(text).map(Ok)
                }
                _ => {
                    self.refuse("a server cannot go on with an answer: /regen answers anew")?;
                    Ok(Ok(()))
                }
            },
            Command::Send(text) => match self.say(&text) {
                Ok(()) => self.turn(text).map(Ok),
                Err(error) => Ok(Err(error)),
            },
            Command::Regenerate => match self.said.take_back_answer() {
                Ok((text, taken)) => {
                    self.replaced = taken;
                    let (messages, _) = self.unanswered();
                    self.tell(Event::Conversation {
                        messages,
                        taken_back: None,
                        cost: None,
                    })?;
                    self.turn(text).map(Ok)
                }
                Err(error) => Ok(Err(error)),
            },
            Command::Undo => match self.said.take_back_message() {
                Ok(text) => self.conversation(Some(text)).map(Ok),
                Err(error) => Ok(Err(error)),
            },
            Command::Reset => {
                if let Err(error) = self.said.reset() {
                    self.tell(Event::Warning(error.to_string()))?;
                }
                self.ends
                    .telemetry
                    .set(|telemetry| telemetry.positions.0 = 0);
                let messages = self.said.messages().to_vec();
                self.tell(Event::Reset { messages }).map(Ok)
            }
            Command::System(text) => {
                self.said.set_system(text);
                if let Err(error) = self.said.save() {
                    self.tell(Event::Warning(error.to_string()))?;
                }
                self.conversation(None).map(Ok)
            }
            Command::Sampling(sampling) => {
                if let Sampling::Draw(draw) = sampling
                    && let Err(error) = draw.check()
                {
                    return Ok(Err(error.into()));
                }
                self.sampling = sampling;
                self.tell(Event::SamplingIs(sampling)).map(Ok)
            }
            Command::Effort(_) | Command::Think(_) => self.set_thinking(&command).map(Ok),
            Command::Preset(_) | Command::Budget(_) | Command::Offers => {
                self.refuse(NOT_HERE).map(Ok)
            }
            Command::Load(path) => self.load(&path),
        }
    }

    fn set_thinking(&mut self, command: &Command) -> Result<(), Gone> {
        match command {
            Command::Effort(effort) => (self.effort, self.thinking) = (*effort, true),
            Command::Think(on) => self.thinking = *on,
            _ => {}
        }
        self.tell(Event::ThinkingIs {
            effort: self.effort(),
            cost: None,
        })
    }

    /// Goes over to another conversation.
    fn load(&mut self, path: &Path) -> Result<Result<(), Error>, Gone> {
        let opened = Store::open(path).and_then(|history| Transcript::open(Some(history), None));
        let (said, partial) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let warnings = self.said.take_warnings();
        self.said = said;
        self.replaced = None;
        for warning in &warnings {
            self.said.warn(warning);
        }
        if partial.is_some_and(|partial| take_up(partial, &mut self.said, &mut self.notes))
            && let Err(error) = self.said.save().and_then(|()| self.said.drop_partial())
        {
            self.said.warn(&error);
        }
        let (messages, unanswered) = self.unanswered();
        self.tell(Event::Loaded {
            history: path.to_owned(),
            messages,
            open: self.open_ended(),
        })?;
        match unanswered {
            Some(message) => self.turn(message.content).map(Ok),
            None => Ok(Ok(())),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Error> {
        self.said.ask(text)?;
        self.replaced = None;
        self.said.save().inspect_err(|_| self.said.withdraw())
    }

    fn conversation(&mut self, taken_back: Option<String>) -> Result<(), Gone> {
        self.tell(Event::Conversation {
            messages: self.said.messages().to_vec(),
            taken_back,
            cost: None,
        })
    }

    /// Answers the last message, which says `user`.
    fn turn(&mut self, user: String) -> Result<(), Gone> {
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

    fn tell_notes(&mut self) -> Result<(), Gone> {
        for warning in self.said.take_warnings() {
            self.tell(Event::Warning(warning))?;
        }
        for note in std::mem::take(&mut self.notes) {
            self.tell(Event::Note(note))?;
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> Result<(), Gone> {
        self.tell(Event::Refused(why.to_owned()))
    }

    fn tell(&self, event: Event) -> Result<(), Gone> {
        self.ends.told.send(event).map_err(|_| Gone)
    }
}

/// Takes in a turn that did not end; false if it cannot be taken in.
fn take_up(partial: chat::Partial, said: &mut Transcript, notes: &mut Vec<String>) -> bool {
    if partial.is_text() {
        notes.push(said.take_up_text(partial).to_owned());
        return true;
    }
    said.warn(
        &"the last answer was cut, and the model on this computer made it: it stays in the journal",
    );
    false
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

/// Finds the model out.
fn serve(client: &Client, retry: &Retry) -> anyhow::Result<Served> {
    let address = client.server().api("/models");
    let wanted = client.server().model();
    let mut again = 0;
    let listed = loop {
        match client.fetch(&address) {
            Ok(list) => break list,
            // Some have no list; then the name that was given is believed.
            Err(Fault::Status { status: 404, .. }) if wanted.is_some() => {
                return Ok(Served::named(wanted.unwrap_or_default()));
            }
            Err(fault) => {
                let wait = retry.wait(&fault, again).filter(|_| again < AT_THE_START);
                let Some(wait) = wait else {
                    return Err(fault.into());
                };
                again += 1;
                // Nothing is listened to before there is a model.
                std::thread::sleep(wait);
            }
        }
    };
    let picked = models::list(&listed).and_then(|models| models::pick(models, wanted));
    picked.map_err(|why| {
        Fault::Model {
            host: client.host(),
            why,
        }
        .into()
    })
}
