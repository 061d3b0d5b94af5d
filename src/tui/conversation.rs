//! The conversation as the screen has heard it, for copying and exporting. Not how it is drawn.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::{Channel, Message, Role};

/// All messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    messages: Vec<Message>,
}

impl Conversation {
    /// These messages.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages }
    }

    /// A message of the person's.
    pub fn user(&mut self, text: &str) {
        self.messages.push(Message::user(text));
    }

    /// A piece of the answer.
    pub fn answer(&mut self, channel: Option<Channel>, text: &str) {
        if self.messages.last().map(|message| message.role) != Some(Role::Assistant) {
            self.messages.push(Message::assistant(None, ""));
        }
        let Some(message) = self.messages.last_mut() else {
            return;
        };
        match channel {
            Some(Channel::Think) => message
                .reasoning_content
                .get_or_insert_default()
                .push_str(text),
            Some(Channel::Response) => message.content.push_str(text),
            Some(Channel::Tools) | None => {}
        }
    }

    /// All messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What the system message says.
    pub fn system(&self) -> Option<&str> {
        let first = self.messages.first()?;
        (first.role == Role::System).then_some(first.content.as_str())
    }

    /// The last answer's response.
    pub fn last_answer(&self) -> Option<&str> {
        let answers = self.messages.iter().rev();
        answers
            .filter(|message| message.role == Role::Assistant)
            .map(|message| message.content.as_str())
            .next()
    }

    /// Blocks of code in the last answer, from the first.
    pub fn code_blocks(&self) -> Vec<String> {
        let mut blocks = Vec::new();
        let mut block: Option<String> = None;
        let answer = self.last_answer().unwrap_or_default();
        for event in Parser::new_ext(answer, Options::ENABLE_TABLES) {
            match (event, &mut block) {
                (Event::Start(Tag::CodeBlock(_)), _) => block = Some(String::new()),
                (Event::Text(text), Some(block)) => block.push_str(&text),
                (Event::End(TagEnd::CodeBlock), _) => blocks.extend(block.take()),
                _ => {}
            }
        }
        blocks
    }

    /// As a history file has it: JSON lines.
    pub fn json_lines(&self) -> String {
        let lines = self
            .messages
            .iter()
            .filter_map(|m| serde_json::to_string(m).ok());
        lines.map(|line| line + "\n").collect()
    }

    /// As a text to be read: markdown, with the reasoning as quotes.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for message in &self.messages {
            let who = match message.role {
                Role::System => "System",
                Role::User => "You",
                Role::Assistant => "Kimi K3",
            };
            text.push_str(&format!("## {who}\n\n"));
            if let Some(reasoning) = message
                .reasoning_content
                .as_deref()
                .filter(|r| !r.is_empty())
            {
                for line in reasoning.lines() {
                    text.push_str(format!("> {line}").trim_end());
                    text.push('\n');
                }
                text.push('\n');
            }
            text.push_str(message.content.trim_end());
            text.push_str("\n\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        let mut conversation = Conversation::new(vec![Message::system("Be kind.")]);
        conversation.user("Hello");
        conversation.answer(Some(Channel::Think), "They\n\ngreet.");
        conversation.answer(
            Some(Channel::Response),
            "Hi:\n```rust\nlet a;\n```\nand\n\n    b\n",
        );
        conversation
    }

    #[test]
    fn it_is_written_as_histories_are() {
        assert_eq!(
            conversation().json_lines(),
            "{\"role\":\"system\",\"content\":\"Be kind.\"}\n{\"role\":\"user\",\"content\":\"Hello\"}\n{\"role\":\"assistant\",\"content\":\"Hi:\\n```rust\\nlet a;\\n```\\nand\\n\\n    b\\n\",\"reasoning_content\":\"They\\n\\ngreet.\"}\n"
        );
        assert!(conversation().markdown().starts_with(
            "## System\n\nBe kind.\n\n## You\n\nHello\n\n## Kimi K3\n\n> They\n>\n> greet.\n\nHi:\n"
        ));
    }

    #[test]
    fn code_blocks_are_found() {
        assert_eq!(conversation().code_blocks(), ["let a;\n", "b\n"]);
        assert_eq!(Conversation::default().code_blocks(), Vec::<String>::new());
        assert_eq!(conversation().system(), Some("Be kind."));
    }
}
