//! A conversation's files, together: history, sidecar, journal and lock. What goes into which file and when, so that no
//! kill and no damage loses what was said. No network and no ids' meaning.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::facts::{Facts, seal};
use super::journal::{self, Found, Header, Journal, Left, Partial, Step};
use super::lock::Lock;
use super::original::{beside, keep};
use super::salvage::Salvage;
use super::{Error, HistoryFile, sidecar};
use crate::checkpoint::atomic::{own_options, sweep};
use crate::text::{Channel, Message, Role};

/// What the file of messages that were taken back appends to the name of the history.
const ASIDE: &str = ".taken-back";

/// How many lines that are not taken are told one by one.
const TOLD: usize = 8;

/// The files of one conversation, for this process alone.
#[derive(Debug)]
pub struct Store {
    history: HistoryFile,
    sidecar: PathBuf,
    journal: PathBuf,
    /// None where locks cannot be had.
    lock: Option<Lock>,
    /// Files to keep beside themselves before anything is written over them.
    unkept: Vec<(PathBuf, &'static str)>,
    running: Option<Journal>,
    /// What a journal held that nobody decided about yet.
    undecided: Option<Left>,
    saved: bool,
}

/// What was found on opening.
#[derive(Debug)]
pub struct Opened {
    /// The conversation, as far as it can be read.
    pub messages: Vec<Message>,
    /// What is known about each message.
    pub facts: Vec<Option<Facts>>,
    /// A turn that did not end.
    pub partial: Option<Partial>,
    /// Where a copy of the history is, if the file was not a plain one.
    pub kept: Option<PathBuf>,
    /// What the person must know, a line each.
    pub notes: Vec<String>,
}

impl Store {
    /// Opens the conversation whose history is at `path`, which need not be there yet. A history that is damaged, or has
    /// another shape, is copied before this gives it back, and is not written over while it could not be copied.
    ///
    /// # Errors
    /// Another process has it; it cannot be read; it is no history.
    pub fn open(path: &Path) -> Result<(Self, Opened), Error> {
        let history = HistoryFile::new(path);
        let path = history.path().to_owned();
        let mut notes = Vec::new();
        let lock = Lock::take(&path)?
            .inspect_err(|word| notes.push(word.clone()))
            .ok();
        let mut store = Self {
            history,
            sidecar: beside(&path, sidecar::SUFFIX),
            journal: beside(&path, journal::SUFFIX),
            lock,
            unkept: Vec::new(),
            running: None,
            undecided: None,
            saved: true,
        };
        if store.lock.is_some() {
            for path in [&path, &store.sidecar, &store.journal] {
                sweep(path);
            }
        }
        let salvage = Salvage::read(&path)?;
        let kept = store.keep_history(&path, &salvage, &mut notes);
        let facts = store.read_facts(&salvage.messages, &mut notes);
        let partial = store.recover(&salvage.messages, &facts, &mut notes);
        let opened = Opened {
            messages: salvage.messages,
            facts,
            partial,
            kept,
            notes,
        };
        Ok((store, opened))
    }

    /// Where the history is.
    pub fn path(&self) -> &Path {
        self.history.path()
    }

    /// Saves the conversation, and the facts about its messages as far as there are some. First the facts, then the history:
    /// a kill in between leaves facts about a message that is not there, which are ignored, and the journal, which has it.
    ///
    /// # Errors
    /// [`Error::NotSaved`] and [`Error::NotKept`]: the old history is as it was. [`Error::FactsNotSaved`]: only the facts
    /// are missing.
    pub fn save(&mut self, messages: &[Message], facts: &[Option<Facts>]) -> Result<(), Error> {
        self.saved = false;
        while let Some((path, word)) = self.unkept.last() {
            keep(path, word).map_err(|cause| Error::NotKept {
                path: path.clone(),
                cause,
            })?;
            self.unkept.pop();
        }
        // A conversation without facts needs no sidecar.
        let written = match facts.iter().any(Option::is_some) || self.sidecar.exists() {
            true => sidecar::write(&self.sidecar, messages, facts),
            false => Ok(()),
        };
        self.history.save(messages)?;
        self.saved = true;
        written.map_err(|cause| Error::FactsNotSaved {
            path: self.sidecar.clone(),
            cause,
        })
    }

    /// Begins the journal of a turn that answers to `messages`; `ids` are those that it has already, when it is gone on
    /// with. A journal that nobody decided about is kept beside it.
    ///
    /// # Errors
    /// [`Error::Journal`]: the turn can be made without.
    pub fn begin_turn(
        &mut self,
        messages: &[Message],
        header: &Header,
        ids: &[u32],
    ) -> Result<(), Error> {
        if let Some(left) = self.running.take() {
            self.undecided = Some(left.into_left());
        }
        if let Some(undecided) = &self.undecided
            && (undecided.text || !ids.starts_with(&undecided.ids))
            && self.journal.exists()
        {
            keep(&self.journal, "kept").map_err(|cause| self.journal_error(cause))?;
        }
        let running = Journal::begin(&self.journal, messages, header, ids);
        self.running = Some(running.map_err(|cause| self.journal_error(cause))?);
        self.undecided = None;
        Ok(())
    }

    /// Puts a token of the running turn on the drive. Without a journal nothing is done.
    ///
    /// # Errors
    /// [`Error::Journal`]: the token is written with the next one, if that can be.
    pub fn token(&mut self, id: u32) -> Result<(), Error> {
        self.write_down(Step::Id(id))
    }

    /// The same of text that a server made, of which ids are not known.
    ///
    /// # Errors
    /// [`Error::Journal`]: the text is written with the next, if that can be.
    pub fn text(&mut self, channel: Channel, text: &str) -> Result<(), Error> {
        self.write_down(Step::Text(channel, text.to_owned()))
    }

    fn write_down(&mut self, step: Step) -> Result<(), Error> {
        match self.running.as_mut().map(|journal| journal.append(step)) {
            Some(Err(cause)) => Err(self.journal_error(cause)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Ends the journal of a turn, after its message was saved.
    ///
    /// # Errors
    /// [`Error::JournalKept`]: the last [`Store::save`] failed, so the journal is all there is of the turn.
    /// [`Error::Journal`]: it cannot be removed; the next start will see that its turn is in the history.
    pub fn end_turn(&mut self) -> Result<(), Error> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        if !self.saved {
            self.undecided = Some(running.into_left());
            return Err(Error::JournalKept {
                path: self.journal.clone(),
            });
        }
        self.remove_journal()
    }

    /// Removes the journal of a turn that did not end, after the person dropped it, or kept it and it was saved.
    ///
    /// # Errors
    /// [`Error::Journal`]: it cannot be removed.
    pub fn drop_partial(&mut self) -> Result<(), Error> {
        self.remove_journal()?;
        self.undecided = None;
        Ok(())
    }

    /// Appends messages that were taken back to a file beside the history, which nothing here reads.
    ///
    /// # Errors
    /// [`Error::NotPutAside`]: they are gone.
    pub fn put_aside(&self, messages: &[Message]) -> Result<(), Error> {
        let path = beside(self.path(), ASIDE);
        let append = || -> io::Result<()> {
            let mut text = Vec::new();
            for message in messages {
                serde_json::to_writer(&mut text, message)?;
                text.push(b'\n');
            }
            let mut file = own_options().create(true).append(true).open(&path)?;
            io::Write::write_all(&mut file, &text)?;
            file.sync_data()
        };
        append().map_err(|cause| Error::NotPutAside {
            path: path.clone(),
            cause,
        })
    }

    fn remove_journal(&self) -> Result<(), Error> {
        match fs::remove_file(&self.journal) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(self.journal_error(cause)),
            _ => Ok(()),
        }
    }

    fn journal_error(&self, cause: io::Error) -> Error {
        Error::Journal {
            path: self.journal.clone(),
            cause,
        }
    }

    /// Keeps the history beside itself if saving it would change more than its messages, and says what is wrong.
    fn keep_history(
        &mut self,
        path: &Path,
        salvage: &Salvage,
        notes: &mut Vec<String>,
    ) -> Option<PathBuf> {
        if salvage.is_plain() {
            return None;
        }
        let (word, name) = match salvage.trouble.is_empty() {
            true => ("original", path.display().to_string()),
            false => ("damaged", format!("{} is damaged", path.display())),
        };
        for trouble in salvage.trouble.iter().take(TOLD) {
            notes.push(format!("{name}: {trouble}"));
        }
        if let Some(more) = salvage.trouble.len().checked_sub(TOLD + 1) {
            notes.push(format!("{name}: and {} places more", more + 1));
        }
        for taken in &salvage.words {
            notes.push(format!("{}: imported: {taken}", path.display()));
        }
        let count = salvage.messages.len();
        self.keep_or_wait(path, word, &format!("{count} messages were read"), notes)
    }

    /// Copies a file, or remembers to do it before the next save.
    fn keep_or_wait(
        &mut self,
        path: &Path,
        word: &'static str,
        what: &str,
        notes: &mut Vec<String>,
    ) -> Option<PathBuf> {
        match keep(path, word) {
            Ok(copy) => {
                notes.push(format!(
                    "{what}; the file as it was is kept as {}",
                    copy.display()
                ));
                Some(copy)
            }
            Err(cause) => {
                notes.push(format!(
                    "{what}; no copy of {} can be made ({cause}), so it will not be written over",
                    path.display()
                ));
                self.unkept.push((path.to_owned(), word));
                None
            }
        }
    }

    fn read_facts(&mut self, messages: &[Message], notes: &mut Vec<String>) -> Vec<Option<Facts>> {
        let path = self.sidecar.clone();
        let read = sidecar::read(&path, messages);
        if read.outdated > 0 {
            notes.push(format!(
                "{}: {} messages were changed elsewhere or are gone; what was known about them is not used",
                path.display(),
                read.outdated
            ));
        }
        if let Some(damage) = read.damage {
            let what = format!(
                "{} is damaged: {damage}; the conversation is whole without it",
                path.display()
            );
            self.keep_or_wait(&path, "damaged", &what, notes);
        }
        read.facts
    }

    fn recover(
        &mut self,
        messages: &[Message],
        facts: &[Option<Facts>],
        notes: &mut Vec<String>,
    ) -> Option<Partial> {
        let path = self.journal.clone();
        let aside = |why: String, notes: &mut Vec<String>| {
            let kept = keep(&path, "kept").and_then(|copy| fs::remove_file(&path).map(|()| copy));
            notes.push(match kept {
                Ok(copy) => format!(
                    "{}: {why}; it is kept as {}",
                    path.display(),
                    copy.display()
                ),
                Err(cause) => format!("{}: {why}; it cannot be set aside: {cause}", path.display()),
            });
        };
        let (partial, damage) = match journal::recover(&path, messages) {
            Found::Nothing => return None,
            Found::Garbage(reason) => {
                aside(format!("a journal that cannot be read, {reason}"), notes);
                return None;
            }
            Found::Stale => {
                aside(
                    "the journal of a turn of another conversation".into(),
                    notes,
                );
                return None;
            }
            Found::Turn(partial, damage) => (*partial, damage),
        };
        if let Some(damage) = damage {
            let what = format!("{} is damaged: {damage}", path.display());
            self.keep_or_wait(&path, "damaged", &what, notes);
        }
        let answer = facts
            .get(partial.messages)
            .and_then(|facts| facts.as_ref()?.answer.as_ref());
        let done = match (messages.get(partial.messages), answer) {
            // Its first token was torn.
            _ if partial.is_empty() => true,
            (None, _) => false,
            (Some(message), _) if partial.is_text() && partial.begins(message) => true,
            (Some(_), Some(answer)) if !partial.is_text() => answer.ids.starts_with(&partial.ids),
            // Its beginning; the facts that were saved last are of the whole, and the history did not get it.
            (Some(message), None) if partial.header.goes_on_from == Some(seal(message, &[])) => {
                false
            }
            (Some(message), _) => {
                let why = match message.role {
                    Role::Assistant => "the journal of a turn that is answered in the history",
                    _ => "the journal of a turn of another conversation",
                };
                aside(why.into(), notes);
                return None;
            }
        };
        if done {
            // One that stays is found done again.
            let _ = fs::remove_file(&path);
            return None;
        }
        self.undecided = Some(Left {
            ids: partial.ids.clone(),
            text: partial.is_text(),
        });
        Some(partial)
    }
}
