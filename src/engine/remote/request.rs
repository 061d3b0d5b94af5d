//! What a server is asked: the body of a request, from a conversation and how it is to be answered. Which of its fields a server
//! may do without, and what that means, stands here too.

use serde_json::{Map, Value, json};

use crate::chat::{Limits, Sampling};
use crate::text::{Message, Role, Thinking};

/// A field that a server may refuse; the answer is then asked for without it, and the person is told.
struct Optional {
    name: &'static str,
    /// What is missing then.
    without: &'static str,
}

const OPTIONAL: [Optional; 10] = [
    Optional {
        name: "chat_template_kwargs",
        without: "thinking and its effort are what the server makes of them",
    },
    Optional {
        name: "reasoning_effort",
        without: "the effort is given by chat_template_kwargs alone",
    },
    Optional {
        name: "reasoning_content",
        without: "the reasoning of earlier answers is not sent, and the model cannot build on it",
    },
    Optional {
        name: "stream_options",
        without: "the server does not say how many tokens it counted",
    },
    Optional {
        name: "stop_token_ids",
        without: "--stop-id is not obeyed",
    },
    Optional {
        name: "max_tokens",
        without: "the limit is given as max_completion_tokens",
    },
    Optional {
        name: "seed",
        without: "the same question may be answered in another way",
    },
    Optional {
        name: "top_k",
        without: "tokens are not chosen from the most probable K",
    },
    Optional {
        name: "top_p",
        without: "tokens are not chosen from a share of probability",
    },
    Optional {
        name: "temperature",
        without: "the server's own temperature holds",
    },
];

/// The optional fields that a server refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused(Vec<&'static str>);

impl Refused {
    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// Takes a refusal in: what is missing from now on, a sentence each; nothing if it is about something else. `named` is
    /// the field that the server names, `message` what it says, and `body` what it was asked.
    pub fn take(&mut self, named: Option<&str>, message: &str, body: &Value) -> Vec<String> {
        let mut notes = Vec::new();
        for field in OPTIONAL {
            let about = named.is_some_and(|named| is_named(named, field.name))
                || is_named(message, field.name);
            if about && asks(body, field.name) && !self.has(field.name) {
                self.0.push(field.name);
                notes.push(format!(
                    "the server refuses {}: {}",
                    field.name, field.without
                ));
            }
        }
        notes
    }
}

/// Whether a text has this name as a word.
fn is_named(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c: char| !word(c)).any(|part| part == name)
}

/// Whether a body has this field, at its top or in a message.
fn asks(body: &Value, name: &str) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    body.get(name).is_some()
        || messages.is_some_and(|messages| messages.iter().any(|m| m.get(name).is_some()))
}

/// How an answer is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wish<'a> {
    /// The model's name on the server.
    pub model: &'a str,
    /// The conversation; its last message is to be answered.
    pub messages: &'a [Message],
    pub thinking: Thinking,
    pub sampling: Sampling,
    pub limits: &'a Limits,
    pub refused: &'a Refused,
}

impl Wish<'_> {
    /// The body of the request.
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| {
            if !self.refused.has(name) {
                body.insert(name.to_owned(), value);
            }
        };
        set("model", json!(self.model));
        set("messages", self.messages());
        set("stream", json!(true));
        set("stream_options", json!({"include_usage": true}));
        match self.sampling {
            Sampling::Greedy => set("temperature", json!(0)),
            Sampling::Draw(draw) => {
                set("temperature", json!(draw.temperature));
                set("top_p", json!(draw.top_p));
                if let Some(k @ 1..) = draw.top_k {
                    set("top_k", json!(k));
                }
                set("seed", json!(seed(draw.seed)));
            }
        }
        if let Some(tokens) = self.limits.tokens {
            set("max_tokens", json!(tokens));
            if self.refused.has("max_tokens") {
                set("max_completion_tokens", json!(tokens));
            }
        }
        if !self.limits.stop_ids.is_empty() {
            set("stop_token_ids", json!(self.limits.stop_ids));
        }
        let template = match self.thinking {
            Thinking::Off => json!({"thinking": false}),
            Thinking::On(None) => json!({"thinking": true}),
            Thinking::On(Some(effort)) => {
                set("reasoning_effort", json!(effort.as_str()));
                json!({"thinking": true, "thinking_effort": effort.as_str()})
            }
        };
        set("chat_template_kwargs", template);
        Value::Object(body)
    }

    /// The messages. With thinking on the chat format keeps the reasoning of all earlier answers, with thinking off none.
    fn messages(&self) -> Value {
        let message = |message: &Message| {
            let mut object = Map::new();
            object.insert("role".into(), json!(message.role.as_str()));
            object.insert("content".into(), json!(message.content));
            let reasoning = message.reasoning_content.as_deref().unwrap_or_default();
            let keeps = self.thinking.is_on() && !self.refused.has("reasoning_content");
            if keeps && message.role == Role::Assistant && !reasoning.is_empty() {
                object.insert("reasoning_content".into(), json!(reasoning));
            }
            Value::Object(object)
        };
        self.messages.iter().map(message).collect()
    }
}

/// A seed as every server takes it: the lowest 31 bits.
fn seed(seed: u64) -> u64 {
    seed & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Draw;
    use crate::text::Effort;

    fn body(thinking: Thinking, sampling: Sampling, limits: &Limits, refused: &Refused) -> Value {
        let messages = [
            Message::system("Be kind."),
            Message::user("Hello"),
            Message::assistant(Some("They greet.".into()), "Hi!"),
            Message::user("And?"),
        ];
        let wish = Wish {
            model: "k3",
            messages: &messages,
            thinking,
            sampling,
            limits,
            refused,
        };
        wish.body()
    }

    #[test]
    fn everything_that_is_set_has_its_field() {
        let draw = Sampling::Draw(Draw {
            temperature: 0.7,
            top_p: 0.9,
            top_k: Some(40),
            seed: u64::MAX,
        });
        let limits = Limits {
            tokens: Some(100),
            stop_ids: vec![5],
        };
        let thinking = Thinking::On(Some(Effort::Low));
        let want = json!({
            "model": "k3",
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi!", "reasoning_content": "They greet."},
                {"role": "user", "content": "And?"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0.7, "top_p": 0.9, "top_k": 40, "seed": 2_147_483_647,
            "max_tokens": 100,
            "stop_token_ids": [5],
            "reasoning_effort": "low",
            "chat_template_kwargs": {"thinking": true, "thinking_effort": "low"},
        });
        assert_eq!(body(thinking, draw, &limits, &Refused::default()), want);
    }

    #[test]
    fn without_thinking_earlier_reasoning_is_left_out() {
        let body = body(
            Thinking::Off,
            Sampling::Greedy,
            &Limits::default(),
            &Refused::default(),
        );
        assert_eq!(body["chat_template_kwargs"], json!({"thinking": false}));
        assert_eq!(body["messages"][2]["content"], "Hi!");
        for absent in ["reasoning_effort", "seed", "top_p", "max_tokens"] {
            assert_eq!(body.get(absent), None, "{absent}");
        }
        assert_eq!(body["messages"][2].get("reasoning_content"), None);
        assert_eq!(body["temperature"], 0);
    }

    #[test]
    fn a_refused_field_is_left_out_and_told_once() {
        let limits = Limits {
            tokens: Some(9),
            stop_ids: Vec::new(),
        };
        let mut refused = Refused::default();
        let thinking = Thinking::On(Some(Effort::Max));
        let asked = |refused: &Refused| body(thinking, Sampling::Greedy, &limits, refused);
        let first = asked(&refused);
        let message = "Input should be 'low' or 'high': reasoning_effort, 'seed'";
        let notes = refused.take(None, message, &first);
        assert_eq!(notes.len(), 1, "there is no seed in the request");
        assert!(notes[0].contains("reasoning_effort"), "{notes:?}");
        assert_eq!(asked(&refused).get("reasoning_effort"), None);
        assert!(refused.take(None, message, &asked(&refused)).is_empty());
        assert_eq!(
            refused
                .take(Some("messages.2.reasoning_content"), "", &first)
                .len(),
            1
        );
        refused.take(None, "Unsupported: 'max_tokens'", &first);
        let last = asked(&refused);
        assert_eq!(last["max_completion_tokens"], 9);
        assert_eq!(last["messages"][2].get("reasoning_content"), None);
        // About something else.
        assert!(refused.take(None, "the model is gone", &first).is_empty());
    }
}
