//! One message of a conversation, and how much the model is asked to think. Not how either is written down for the
//! model, and not where it is saved.

use serde::{Deserialize, Deserializer, Serialize};

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Role {
    /// What holds for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The word for it in history files and in the chat format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl TryFrom<String> for Role {
    type Error = String;
    fn try_from(word: String) -> Result<Self, String> {
        [Self::System, Self::User, Self::Assistant]
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| format!("unknown role {word:?}, expected system, user or assistant"))
    }
}

/// A message. The names of its fields are those of a history file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said; of an assistant, what stands in the response channel.
    pub content: String,
    /// What stands in an assistant's think channel. None if it had no such channel.
    #[serde(
        default,
        deserialize_with = "string",
        skip_serializing_if = "Option::is_none"
    )]
    pub reasoning_content: Option<String>,
    /// Who of several people or models says it. The chat format has a place for it, a history file has not.
    #[serde(skip)]
    pub name: Option<String>,
}

/// A string and not null, where serde would take null for None.
fn string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

impl Message {
    fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning_content: None,
            name: None,
        }
    }

    /// A system message.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// A person's message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// A model's message; `reasoning` is None if it had no think channel.
    pub fn assistant(reasoning: Option<String>, content: impl Into<String>) -> Self {
        Self {
            reasoning_content: reasoning,
            ..Self::new(Role::Assistant, content)
        }
    }
}

/// How much the model is asked to think. The model's own text names a `medium` as well, but the official encoder
/// refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Little.
    Low,
    /// More.
    High,
    /// As much as it likes.
    Max,
}

impl Effort {
    /// The word for it on the command line and in the chat format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl std::str::FromStr for Effort {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Low, Self::High, Self::Max]
            .into_iter()
            .find(|effort| effort.as_str() == word)
            .ok_or_else(|| format!("unknown thinking effort {word:?}, expected low, high or max"))
    }
}

/// Whether the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// No think channels, neither new ones nor those of earlier messages.
    Off,
    /// A think channel in every assistant message. With an effort, a message in front of the conversation states it;
    /// the programs always state one.
    On(Option<Effort>),
}

impl Default for Thinking {
    fn default() -> Self {
        Self::On(Some(Effort::Max))
    }
}

impl Thinking {
    /// Whether there are think channels.
    pub fn is_on(self) -> bool {
        matches!(self, Self::On(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_files() {
        let message = Message::assistant(Some("why".into()), "because");
        let json = r#"{"role":"assistant","content":"because","reasoning_content":"why"}"#;
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
        assert_eq!(serde_json::from_str::<Message>(json).unwrap(), message);
        let without = serde_json::to_string(&Message::assistant(None, "")).unwrap();
        assert_eq!(without, r#"{"role":"assistant","content":""}"#);
        let empty = serde_json::to_string(&Message::assistant(Some(String::new()), "")).unwrap();
        assert_eq!(
            empty,
            r#"{"role":"assistant","content":"","reasoning_content":""}"#
        );
    }

    #[test]
    fn medium_is_no_effort() {
        for effort in [Effort::Low, Effort::High, Effort::Max] {
            assert_eq!(effort.as_str().parse(), Ok(effort));
        }
        let refusal = "medium".parse::<Effort>().expect_err("refused");
        assert_eq!(
            refusal,
            "unknown thinking effort \"medium\", expected low, high or max"
        );
        assert!("Max".parse::<Effort>().is_err());
    }

    #[test]
    fn the_default_is_to_think_as_much_as_it_likes() {
        assert_eq!(Thinking::default(), Thinking::On(Some(Effort::Max)));
    }
}
