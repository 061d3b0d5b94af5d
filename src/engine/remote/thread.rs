//! The engine's thread for a model on a server: takes commands, asks, tells what comes. The same protocol as for a model here;
//! what only that can do is refused with a word. A running answer is [`turn`]'s.

mod turn;

use std::collections::VecDeque;
use std::path::Path;

use super::super::Handle;
use super::super::protocol::{Command, Event, ModelFacts};
use super::super::spawn::{Ends, spawn};
use super::super::telemetry::Activity;
use super::client::Client;
use super::models::{self, Served};
use super::poll::Poll;
use super::request::Refused;
use super::{Fault, Patience, Retry, Server};
use crate::chat::{self, Ended, Error, Limits, Opened, Sampling, Store, TakenBack, Transcript};
use crate::text::{Effort, Message, Thinking};

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
