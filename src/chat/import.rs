//! Conversations as other programs write them, taken as messages with a word for what was not taken as it stood, or
//! refused with one. Nothing is guessed.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

use crate::checkpoint::one_line;
use crate::text::Message;
use crate::text::history::misplaced;

/// Fields that say nothing of what was said.
const LEFT_OUT: [&str; 10] = [
    "id",
    "object",
    "type",
    "status",
    "created",
    "created_at",
    "timestamp",
    "model",
    "finish_reason",
    "annotations",
];
/// Fields and roles that do, and that a history has no place for.
const NO_PLACE: [&str; 8] = [
    "name",
    "tool_calls",
    "function_call",
    "tool_call_id",
    "refusal",
    "audio",
    "images",
    "tools",
];
const OTHER_ROLES: [&str; 4] = ["developer", "tool", "function", "model"];

/// What was not taken as it stood, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words(BTreeMap<String, usize>);

impl Words {
    pub fn add(&mut self, word: impl Into<String>) {
        *self.0.entry(word.into()).or_default() += 1;
    }

    pub fn extend(&mut self, other: Self) {
        for (word, count) in other.0 {
            *self.0.entry(word).or_default() += count;
        }
    }

    pub fn lines(&self) -> Vec<String> {
        let line = |(word, count): (&String, &usize)| match count {
            1 => one_line(word),
            count => format!("{} ({count} times)", one_line(word)),
        };
        self.0.iter().map(line).collect()
    }
}

/// Why a record is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Not {
    /// It is whole and says what a history cannot hold: the file is of another kind.
    Foreign(String),
    /// It is no record, or a damaged one.
    Broken(String),
}

/// Takes one record, a JSON object.
pub(super) fn record(json: &[u8]) -> Result<(Message, Words), Not> {
    let record: Record = serde_json::from_slice(json).map_err(|e| Not::Broken(e.to_string()))?;
    record.message()
}

/// Takes a whole document: an array of records, or an object whose `messages` is one. None when it is neither.
pub(super) fn document(json: &[u8]) -> Result<Option<(Vec<Message>, Words)>, String> {
    #[derive(Deserialize)]
    struct Wrapped {
        messages: Records,
    }
    let first = json.iter().find(|byte| !byte.is_ascii_whitespace());
    let (records, wrapped) = match first {
        Some(b'[') => (serde_json::from_slice::<Records>(json), false),
        Some(b'{') => match serde_json::from_slice::<Wrapped>(json) {
            // Not whole, or without messages.
            Err(e) if !e.is_data() || e.to_string().contains("missing field `messages`") => {
                return Ok(None);
            }
            read => (read.map(|wrapped| wrapped.messages), true),
        },
        _ => return Ok(None),
    };
    let Records(messages, mut words) = records.map_err(|e| e.to_string())?;
    if wrapped {
        words.add("of the object only `messages` is taken");
    }
    Ok(Some((messages, words)))
}

/// The fields of a record, of whatever shape.
#[derive(Deserialize)]
struct Record {
    role: String,
    content: Option<Content>,
    #[serde(default, deserialize_with = "present")]
    reasoning_content: Option<Option<String>>,
    reasoning: Option<String>,
    // With it serde takes no array for the fields in order.
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

/// Tells null from a field that is not there.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(d).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl Record {
    fn message(self) -> Result<(Message, Words), Not> {
        let foreign = |reason: String| Err(Not::Foreign(reason));
        let mut words = Words::default();
        if OTHER_ROLES.contains(&self.role.as_str()) {
            return foreign(format!(
                "the role {:?} has no place in a history",
                self.role
            ));
        }
        for (field, value) in &self.other {
            let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            match field.as_str() {
                known if empty || LEFT_OUT.contains(&known) => {
                    words.add(format!("the field `{field}` is left out"));
                }
                known if NO_PLACE.contains(&known) => {
                    return foreign(format!("the field `{field}` has no place in a history"));
                }
                _ => return Err(Not::Broken(format!("unknown field `{field}`"))),
            }
        }
        if self.reasoning_content == Some(None) {
            words.add("`reasoning_content` is null and taken as none");
        }
        let reasoning = match (self.reasoning_content.flatten(), self.reasoning) {
            (Some(_), Some(_)) => {
                return foreign("both `reasoning_content` and `reasoning`".into());
            }
            (None, Some(text)) => {
                words.add("`reasoning` is taken as `reasoning_content`");
                Some(text)
            }
            (text, None) => text,
        };
        let content = match self.content {
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                words.add("the text parts of a message are joined");
                let mut joined = String::new();
                for part in parts {
                    match (part.kind.as_str(), part.text) {
                        ("text" | "input_text" | "output_text", Some(text)) => joined += &text,
                        (kind, _) => {
                            return foreign(format!("a part of type {kind:?} is not text"));
                        }
                    }
                }
                joined
            }
            None if reasoning.is_some() => {
                words.add("a missing answer is taken as an empty one");
                String::new()
            }
            None => return foreign("`content` is null or missing: nothing is said".into()),
        };
        let texts = [Some(&content), reasoning.as_ref()];
        if texts.into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(Not::Broken(
                "a NUL character, which a history cannot hold".into(),
            ));
        }
        let message = match (self.role.as_str(), reasoning) {
            ("assistant", reasoning) => Message::assistant(reasoning, content),
            ("system", None) => Message::system(content),
            ("user", None) => Message::user(content),
            (role @ ("system" | "user"), Some(_)) => {
                return foreign(format!("reasoning in a message of the {role}"));
            }
            (role, _) => return Err(Not::Broken(format!("unknown role {role:?}"))),
        };
        Ok((message, words))
    }
}

/// Records one after the other, so that an error names the one it is in.
struct Records(Vec<Message>, Words);

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Records;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Records, A::Error> {
                let (mut messages, mut words) = (Vec::new(), Words::default());
                loop {
                    let number = messages.len() + 1;
                    let refuse = |reason: &dyn fmt::Display| {
                        A::Error::custom(format!("record {number}: {reason}"))
                    };
                    let Some(record) = seq.next_element::<Record>().map_err(|e| refuse(&e))? else {
                        return Ok(Records(messages, words));
                    };
                    match record.message() {
                        Ok((message, more)) => {
                            messages.push(message);
                            words.extend(more);
                        }
                        Err(Not::Foreign(reason) | Not::Broken(reason)) => {
                            return Err(refuse(&reason));
                        }
                    }
                    if let Some(reason) = misplaced(&messages) {
                        return Err(refuse(&reason));
                    }
                }
            }
        }
        deserializer.deserialize_seq(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(json: &str) -> (Message, Vec<String>) {
        let (message, words) = record(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e:?}"));
        (message, words.lines())
    }

    #[test]
    fn other_shapes_are_taken_with_a_word() {
        for (json, message, word) in [
            (
                r#"{"role":"assistant","content":"y","reasoning_content":null}"#,
                Message::assistant(None, "y"),
                "`reasoning_content` is null",
            ),
            (
                r#"{"role":"user","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}"#,
                Message::user("a b"),
                "joined",
            ),
            (
                r#"{"role":"assistant","content":null,"reasoning_content":"hm"}"#,
                Message::assistant(Some("hm".into()), ""),
                "empty one",
            ),
            (
                r#"{"role":"assistant","content":"y","reasoning":"hm"}"#,
                Message::assistant(Some("hm".into()), "y"),
                "`reasoning` is taken",
            ),
            (
                r#"{"id":"m1","role":"system","content":"y"}"#,
                Message::system("y"),
                "`id` is left out",
            ),
            (
                r#"{"role":"assistant","content":"y","tool_calls":[]}"#,
                Message::assistant(None, "y"),
                "`tool_calls` is left out",
            ),
        ] {
            let (got, words) = taken(json);
            assert_eq!(got, message, "{json}");
            assert!(words.len() == 1 && words[0].contains(word), "{words:?}");
        }
    }

    #[test]
    fn what_a_history_cannot_hold_is_refused() {
        for (json, part) in [
            (
                r#"{"role":"tool","content":"y","tool_call_id":"1"}"#,
                "\"tool\"",
            ),
            (r#"{"role":"developer","content":"y"}"#, "\"developer\""),
            (
                r#"{"role":"function","content":"y","name":"f"}"#,
                "\"function\"",
            ),
            (r#"{"role":"user","content":"y","name":"n"}"#, "`name`"),
            (r#"{"role":"assistant","content":null}"#, "nothing is said"),
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}"#,
                "`tool_calls`",
            ),
            (
                r#"{"role":"user","content":[{"type":"image_url","image_url":{}}]}"#,
                "image_url",
            ),
            (
                r#"{"role":"user","content":"x","reasoning_content":"hm"}"#,
                "of the user",
            ),
        ] {
            match record(json.as_bytes()) {
                Err(Not::Foreign(reason)) => assert!(reason.contains(part), "{json}: {reason}"),
                other => panic!("{json} gave {other:?}"),
            }
        }
        for json in [
            r#"["user","x"]"#,
            r#"{"role":"user","content":7}"#,
            r#"{"role":"user","content":"x","content":"y"}"#,
            r#"{"role":"robot","content":"x"}"#,
            r#"{"role":"user","contemt":"x"}"#,
            r#"{"role":"user","content":"\u0000"}"#,
            r#"{"role":"user","content":"x"#,
            "{}",
        ] {
            assert!(
                matches!(record(json.as_bytes()), Err(Not::Broken(_))),
                "{json}"
            );
        }
    }

    #[test]
    fn documents_are_taken_whole_or_not_at_all() {
        let two = r#"[{"role":"user","content":"x"},
            {"role":"assistant","content":"y","reasoning_content":null}]"#;
        let (messages, words) = document(two.as_bytes()).unwrap().unwrap();
        assert_eq!(
            messages,
            [Message::user("x"), Message::assistant(None, "y")]
        );
        assert_eq!(
            words.lines(),
            ["`reasoning_content` is null and taken as none"]
        );
        let wrapped = format!("{{\"model\":\"m\",\"messages\":{two}}}");
        let (again, words) = document(wrapped.as_bytes()).unwrap().unwrap();
        assert_eq!((again, words.lines().len()), (messages, 2));
        for (json, part) in [
            (
                two.replace("assistant", "tool"),
                "record 2: the role \"tool\"",
            ),
            (
                two.replace("assistant", "user"),
                "record 2: a message of the user",
            ),
            (two.replace("\"y\"", "7"), "record 2"),
            (two.replace("}]", ""), "record 2"),
            (format!("{two} x"), "trailing"),
            ("[[\"user\",\"x\"]]".into(), "record 1"),
        ] {
            let error = document(json.as_bytes()).expect_err(&json);
            assert!(error.contains(part), "{json}: {error}");
        }
        for other in [
            "",
            "x",
            "{}",
            r#"{"role":"user","content":"x"}"#,
            r#"{"role":"user","#,
        ] {
            assert_eq!(document(other.as_bytes()), Ok(None), "{other}");
        }
    }
}
