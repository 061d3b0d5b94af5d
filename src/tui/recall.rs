//! What was sent before, to be had back one after the other; what was being written meanwhile is kept.

use crate::text::{Message, Role};

/// The messages that were sent, and where one is among them.
#[derive(Clone, Debug, Default)]
pub struct Recall {
    sent: Vec<String>,
    /// Which one is shown, and what was written before the first was.
    at: Option<(usize, String)>,
}

impl Recall {
    /// Those of a conversation that was opened.
    pub fn begin(messages: &[Message]) -> Self {
        let said = messages.iter().filter(|message| message.role == Role::User);
        Self {
            sent: said.map(|message| message.content.clone()).collect(),
            at: None,
        }
    }

    /// Remembers a message, without leaving one that is shown.
    pub fn said(&mut self, text: &str) {
        if self.sent.last().map(String::as_str) != Some(text) {
            self.sent.push(text.to_owned());
        }
    }

    /// Remembers a message that was sent. Gives what was being written before one was recalled.
    pub fn sent(&mut self, text: &str) -> Option<String> {
        self.said(text);
        self.at.take().map(|(_, draft)| draft)
    }

    /// The message before the one that is shown; `draft` is what is written now.
    pub fn older(&mut self, draft: &str) -> Option<String> {
        let (at, kept) = match self.at.take() {
            Some((at, kept)) => (at.saturating_sub(1), kept),
            None => (self.sent.len().checked_sub(1)?, draft.to_owned()),
        };
        let text = self.sent.get(at).cloned();
        self.at = Some((at, kept));
        text
    }

    /// The message after the one that is shown; after the last what was being written.
    pub fn newer(&mut self) -> Option<String> {
        let (at, kept) = self.at.take()?;
        match self.sent.get(at + 1) {
            Some(text) => {
                self.at = Some((at + 1, kept));
                Some(text.clone())
            }
            None => Some(kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_being_written_comes_back() {
        let mut recall = Recall::default();
        assert_eq!(recall.older("draft"), None);
        recall.sent("one");
        recall.sent("two");
        recall.sent("two");
        assert_eq!(recall.older("draft").as_deref(), Some("two"));
        assert_eq!(recall.older("two").as_deref(), Some("one"));
        assert_eq!(recall.older("one").as_deref(), Some("one"));
        assert_eq!(recall.newer().as_deref(), Some("two"));
        assert_eq!(recall.newer().as_deref(), Some("draft"));
        assert_eq!(recall.newer(), None);
        recall.older("draft");
        let opened = [Message::user("a"), Message::assistant(None, "b")];
        assert_eq!(Recall::begin(&opened).older(""), Some("a".to_owned()));
        assert_eq!(recall.sent("two, changed").as_deref(), Some("draft"));
    }
}
