//! What was said, what is known about it, and the files that it is kept in. Nothing of the network.

use std::path::Path;

use super::facts::seal;
use super::{Answer, Error, Facts, Header, Opened, Partial, Store, now};
use crate::text::{Message, Role};

/// The messages of a conversation, saved at every change where it is kept.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    messages: Vec<Message>,
    /// One a message.
    facts: Vec<Option<Facts>>,
    store: Option<Store>,
    /// What the person must know about the files, a line each.
    warnings: Vec<String>,
}

/// Messages that were taken back, with their facts.
pub(super) type TakenBack = (Vec<Message>, Vec<Option<Facts>>);

impl Transcript {
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
