//! What was said, what is known about it, and the files that it is kept in. Nothing of the network.

use std::path::Path;

use super::facts::seal;
use super::{Answer, Ended, Error, Facts, Header, Opened, Partial, Store, now};
use crate::text::{Channel, Message, Role};

/// The messages of a conversation, saved at every change where it is kept.
#[derive(Debug, Default)]
pub struct Transcript {
    messages: Vec<Message>,
    /// One a message.
    facts: Vec<Option<Facts>>,
    store: Option<Store>,
    /// What the person must know about the files, a line each.
    warnings: Vec<String>,
}

/// Messages that were taken back, with their facts.
pub type TakenBack = (Vec<Message>, Vec<Option<Facts>>);

impl Transcript {
    /// What was found in the files, begun with a system message if one is given; a turn that did not end is given apart.
    ///
    /// # Errors
    /// The history begins otherwise.
    pub fn open(
        history: Option<(Store, Opened)>,
        system: Option<String>,
    ) -> Result<(Self, Option<Partial>), Error> {
        let (mut said, partial) = Self::new(history);
        if let Some(system) = system {
            match said.messages().first() {
                None => said.set_system(Some(system)),
                Some(first) if first.role == Role::System && first.content == system => {}
                Some(_) => {
                    let path = said.path().map(Path::to_owned).unwrap_or_default();
                    return Err(Error::OtherSystem { path });
                }
            }
        }
        Ok((said, partial))
    }

    /// What was found in the files; a turn that did not end is given apart.
    pub fn new(history: Option<(Store, Opened)>) -> (Self, Option<Partial>) {
        let Some((store, opened)) = history else {
            return Default::default();
        };
        let transcript = Self {
            messages: opened.messages,
            facts: opened.facts,
            store: Some(store),
            warnings: opened.notes,
        };
        (transcript, opened.partial)
    }

    /// The messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What is known about each.
    pub fn facts(&self) -> &[Option<Facts>] {
        &self.facts
    }

    /// Where it is kept.
    pub fn path(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::path)
    }

    /// What is known about the last message, if it is an answer that was made here.
    pub fn last_answer(&self) -> Option<&Answer> {
        self.facts.last()?.as_ref()?.answer.as_ref()
    }

    /// Who said the last message.
    pub fn last_role(&self) -> Option<Role> {
        self.messages.last().map(|message| message.role)
    }

    /// Whether the last message is a user's: one that was sent and not answered.
    pub fn awaits_answer(&self) -> bool {
        self.last_role() == Some(Role::User)
    }

    /// Appends a user's message; it is not saved yet.
    ///
    /// # Errors
    /// The last message has no answer, or no history can hold this one.
    pub fn ask(&mut self, text: &str) -> Result<(), Error> {
        if self.awaits_answer() {
            return Err(Error::Unanswered);
        }
        if text.contains('\0') {
            return Err(Error::Nul);
        }
        self.push(Message::user(text), None);
        Ok(())
    }

    /// Removes the last message, which could not be saved.
    pub fn withdraw(&mut self) {
        self.cut(self.messages.len().saturating_sub(1));
    }

    /// Takes the last answer back, so that its message can be answered anew. Gives what the message says, and the answer, if
    /// there was one.
    ///
    /// # Errors
    /// There is none, or the history cannot be saved; the conversation is as it was.
    pub fn take_back_answer(&mut self) -> Result<(String, Option<TakenBack>), Error> {
        let answered = self.last_role() == Some(Role::Assistant);
        let taken = match answered {
            true => Some(self.take_back(self.messages.len() - 1)?),
            false => None,
        };
        match self.messages.last() {
            Some(message) if message.role == Role::User => Ok((message.content.clone(), taken)),
            _ => Err(Error::Nothing("no answer to take back")),
        }
    }

    /// Takes the last message and its answer back. Gives what the message said.
    ///
    /// # Errors
    /// There is none, or the history cannot be saved; the conversation is as it was.
    pub fn take_back_message(&mut self) -> Result<String, Error> {
        let count = 1 + usize::from(!self.awaits_answer());
        let at = self.messages.len().checked_sub(count);
        let message = at.and_then(|at| Some((at, self.messages.get(at)?)));
        let Some((at, message)) = message.filter(|(_, m)| m.role == Role::User) else {
            return Err(Error::Nothing("no message to take back"));
        };
        let text = message.content.clone();
        self.take_back(at)?;
        Ok(text)
    }

    /// Forgets everything but an initial system message.
    ///
    /// # Errors
    /// The history cannot be saved; the conversation is reset all the same.
    pub fn reset(&mut self) -> Result<(), Error> {
        let system = usize::from(self.system().is_some());
        let saved = self.take_back(system);
        if saved.is_err() {
            self.cut(system);
        }
        saved.map(drop)
    }

    /// Takes in the text of a turn that a server was making when the program ended: an answer that was cut. A word about it.
    pub fn take_up_text(&mut self, partial: Partial) -> &'static str {
        let header = partial.header;
        self.cut(partial.messages);
        let thought = header.thinking.is_on();
        let message = Message::assistant(thought.then_some(partial.think), partial.response);
        let answer = Answer {
            ended: Ended::Killed,
            ..Answer::begun(header.model, header.thinking, header.sampling)
        };
        self.push(message, Some(answer));
        "the program ended in the middle of the last answer; it is kept as far as it came"
    }

    /// Messages of assistants.
    pub fn answers(&self) -> usize {
        let roles = self.messages.iter().map(|message| message.role);
        roles.filter(|role| *role == Role::Assistant).count()
    }

    /// The system message.
    pub fn system(&self) -> Option<&Message> {
        let first = self.messages.first();
        first.filter(|message| message.role == Role::System)
    }

    /// Sets or removes the system message, which is the first.
    pub fn set_system(&mut self, text: Option<String>) {
        if self.system().is_some() {
            self.messages.remove(0);
            self.facts.remove(0);
        }
        if let Some(text) = text {
            self.messages.insert(0, Message::system(text));
            self.facts.insert(0, None);
        }
    }

    /// Appends a message.
    pub fn push(&mut self, message: Message, answer: Option<Answer>) {
        self.messages.push(message);
        let when = now();
        self.facts.push(Some(Facts { when, answer }));
    }

    /// Removes all from message `at` on, and gives it.
    pub fn cut(&mut self, at: usize) -> TakenBack {
        let at = at.min(self.messages.len());
        (self.messages.split_off(at), self.facts.split_off(at))
    }

    /// Puts back what was removed from the end.
    pub fn put_back(&mut self, (messages, facts): TakenBack) {
        self.messages.extend(messages);
        self.facts.extend(facts);
    }

    /// Removes all from message `at` on and saves. What is removed is kept beside the history: somebody may have waited hours
    /// for it.
    ///
    /// # Errors
    /// It cannot be saved; nothing is removed then.
    pub fn take_back(&mut self, at: usize) -> Result<TakenBack, Error> {
        let taken = self.cut(at);
        match self.save() {
            Ok(()) => {
                if let Some(store) = &self.store
                    && let Err(error) = store.put_aside(&taken.0)
                {
                    self.warn(&error);
                }
                Ok(taken)
            }
            Err(error) => {
                self.put_back(taken);
                Err(error)
            }
        }
    }

    /// Saves it, where it is kept.
    ///
    /// # Errors
    /// The history cannot be saved; the old one is as it was.
    pub fn save(&mut self) -> Result<(), Error> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        match store.save(&self.messages, &self.facts) {
            // The conversation itself is saved: nothing is to be taken back.
            Err(error @ Error::FactsNotSaved { .. }) => {
                self.warn(&error);
                Ok(())
            }
            saved => saved,
        }
    }

    /// Begins the journal of a turn that answers to the first `messages`, and has `ids` already.
    ///
    /// # Errors
    /// There can be none: the turn can be made without.
    pub fn begin_turn(
        &mut self,
        messages: usize,
        header: Header,
        ids: &[u32],
    ) -> Result<(), Error> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let begun = self.messages.get(messages);
        let header = Header {
            goes_on_from: begun.map(|begun| seal(begun, &[])),
            ..header
        };
        store.begin_turn(&self.messages[..messages], &header, ids)
    }

    /// Writes a token of the running turn down.
    ///
    /// # Errors
    /// It cannot be written now.
    pub fn token(&mut self, id: u32) -> Result<(), Error> {
        self.store.as_mut().map_or(Ok(()), |store| store.token(id))
    }

    /// The same of text that a server made.
    ///
    /// # Errors
    /// It cannot be written now.
    pub fn text(&mut self, channel: Channel, text: &str) -> Result<(), Error> {
        self.store
            .as_mut()
            .map_or(Ok(()), |store| store.text(channel, text))
    }

    /// Ends the journal of a turn whose message was saved.
    ///
    /// # Errors
    /// The journal stays, and why.
    pub fn end_turn(&mut self) -> Result<(), Error> {
        self.store.as_mut().map_or(Ok(()), Store::end_turn)
    }

    /// Removes the journal of a turn that did not end and was taken in.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn drop_partial(&mut self) -> Result<(), Error> {
        self.store.as_mut().map_or(Ok(()), Store::drop_partial)
    }

    /// Remembers something that the person must know.
    pub fn warn(&mut self, what: &dyn std::fmt::Display) {
        self.warnings.push(what.to_string());
    }

    /// What the person must know, a line each; once.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
