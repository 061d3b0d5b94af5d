//! What is known about a message beyond its text: when it was said, and how an answer was made. Where it is saved is not
//! known here.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::{Ended, Sampling, TurnFacts};
use crate::checkpoint::hex;
use crate::text::{Effort, Message, Thinking};

/// Of any message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// When it was sent, or its first token came: RFC 3339 in UTC.
    pub when: String,
    /// Of an assistant's message that was made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// How an answer was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The identity of the model; its vocabulary is that of the ids.
    pub model: String,
    /// Every id that was generated, an end id included.
    pub ids: Vec<u32>,
    /// How much it was asked to think.
    #[serde(with = "thinking")]
    pub thinking: Thinking,
    /// How its tokens were chosen.
    pub sampling: Sampling,
    /// Tokens in the think channel.
    pub think_tokens: usize,
    /// Tokens in the response channel.
    pub response_tokens: usize,
    /// Until the first token. Finite.
    pub seconds_prefill: f64,
    /// From the first token on. Finite.
    pub seconds_decode: f64,
    /// Share of the experts' bytes that were not read again, 0 to 1. None if no expert was asked for.
    pub retained: Option<f64>,
    /// Experts that could not be read.
    pub drops: u64,
    /// How it ended.
    pub ended: Ended,
}

impl Answer {
    /// Of a turn that has begun and said nothing yet.
    pub(crate) fn begun(model: String, thinking: Thinking, sampling: Sampling) -> Self {
        Self {
            model,
            ids: Vec::new(),
            thinking,
            sampling,
            think_tokens: 0,
            response_tokens: 0,
            seconds_prefill: 0.0,
            seconds_decode: 0.0,
            retained: None,
            drops: 0,
            ended: Ended::Killed,
        }
    }

    /// Of an answer that was gone on with: what was before and what came after, as one.
    pub(super) fn after(self, before: &Self) -> Self {
        Self {
            seconds_prefill: before.seconds_prefill + self.seconds_prefill,
            seconds_decode: before.seconds_decode + self.seconds_decode,
            retained: self.retained.or(before.retained),
            drops: before.drops + self.drops,
            ..self
        }
    }

    /// Takes a turn's figures over.
    pub(crate) fn with(self, facts: &TurnFacts) -> Self {
        Self {
            think_tokens: facts.think_tokens,
            response_tokens: facts.response_tokens,
            seconds_prefill: facts.seconds_prefill,
            seconds_decode: facts.seconds_decode,
            retained: facts.retained,
            drops: facts.drops,
            ended: facts.ended.clone(),
            ..self
        }
    }
}

/// Thinking as one word: off, on, or on with an effort.
pub(super) mod thinking {
    use super::{Deserialize, Deserializer, Effort, Serializer, Thinking};

    pub fn serialize<S: Serializer>(thinking: &Thinking, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(match thinking {
            Thinking::Off => "off",
            Thinking::On(None) => "on",
            Thinking::On(Some(effort)) => effort.as_str(),
        })
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Thinking, D::Error> {
        let word = String::deserialize(d)?;
        match word.as_str() {
            "off" => Ok(Thinking::Off),
            "on" => Ok(Thinking::On(None)),
            word => word
                .parse::<Effort>()
                .map(|effort| Thinking::On(Some(effort)))
                .map_err(serde::de::Error::custom),
        }
    }
}

/// A hash of one message and of the ids that belong to it, in hexadecimal: 128 bits of SHA-256.
pub(super) fn seal(message: &Message, ids: &[u32]) -> String {
    let mut hash = Sha256::new();
    add(&mut hash, message);
    for id in ids {
        hash.update(id.to_le_bytes());
    }
    shorten(hash)
}

/// The same of a conversation, without ids.
pub(super) fn seal_of_all(messages: &[Message]) -> String {
    let mut hash = Sha256::new();
    for message in messages {
        add(&mut hash, message);
    }
    shorten(hash)
}

/// Lengths are hashed too, so that no two messages give the same bytes.
fn add(hash: &mut Sha256, message: &Message) {
    let reasoning = message.reasoning_content.as_deref();
    for field in [
        message.role.as_str(),
        &message.content,
        reasoning.unwrap_or_default(),
    ] {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    hash.update([u8::from(reasoning.is_some())]);
}

fn shorten(hash: Sha256) -> String {
    hex(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use super::super::Draw;
    use super::*;

    #[test]
    fn a_seal_sees_every_field() {
        let message = Message::assistant(Some("a".into()), "b");
        let seals = [
            seal(&message, &[]),
            seal(&message, &[1]),
            seal(&message, &[2]),
            seal(&Message::assistant(Some("ab".into()), ""), &[]),
            seal(&Message::assistant(None, "b"), &[]),
            seal(&Message::assistant(Some(String::new()), "b"), &[]),
            seal(&Message::user("b"), &[]),
        ];
        for (i, seal) in seals.iter().enumerate() {
            assert_eq!(seal.len(), 32);
            assert!(!seals[..i].contains(seal), "{i}");
        }
    }

    #[test]
    fn the_words_of_the_file_stay() {
        let answer = Answer {
            model: "m".into(),
            ids: vec![5, 163_585],
            thinking: Thinking::On(Some(Effort::Low)),
            sampling: Sampling::Draw(Draw {
                temperature: 0.7,
                top_p: 0.95,
                top_k: None,
                seed: u64::MAX,
            }),
            think_tokens: 1,
            response_tokens: 2,
            seconds_prefill: 0.1,
            seconds_decode: 2.5,
            retained: None,
            drops: 0,
            ended: Ended::Malformed("why".into()),
        };
        let json = r#"{"model":"m","ids":[5,163585],"thinking":"low","sampling":{"draw":{"temperature":0.7,"top_p":0.95,"top_k":null,"seed":18446744073709551615}},"think_tokens":1,"response_tokens":2,"seconds_prefill":0.1,"seconds_decode":2.5,"retained":null,"drops":0,"ended":{"malformed":"why"}}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), json);
        assert_eq!(serde_json::from_str::<Answer>(json).unwrap(), answer);
        let greedy = json.replace(
            r#"{"draw":{"temperature":0.7,"top_p":0.95,"top_k":null,"seed":18446744073709551615}}"#,
            "\"greedy\"",
        );
        let greedy = greedy
            .replace("low", "off")
            .replace(r#"{"malformed":"why"}"#, "\"finished\"");
        let read: Answer = serde_json::from_str(&greedy).unwrap();
        assert_eq!(
            (read.sampling, read.thinking, read.ended),
            (Sampling::Greedy, Thinking::Off, Ended::Finished)
        );
        assert!(serde_json::from_str::<Answer>(&json.replace("low", "medium")).is_err());
    }
}
