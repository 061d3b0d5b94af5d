//! The tokenizer's two files, and completions as ids.

use std::fs;

use k3::text::{
    Channel, CompletionParser, Event, Markers, Names, Thinking, Tokenizer, render, turn,
};
use k3::text::{Message, TurnError};

use crate::harness::{Format, campaign};

#[path = "../../src/text/small_vocabulary.rs"]
#[allow(dead_code)]
mod small_vocabulary;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/model");
/// Meets merges, names of special tokens, and characters of several bytes.
const SAID: &str = "the message <|open|> 中文😀 [EOS]\n\n123 aaaa";

/// Whether a tokenizer can be used, which must hold for any that was loaded.
fn is_sound(tokenizer: &Tokenizer) {
    for names in [Names::AsText, Names::Allowed] {
        let ids = tokenizer.encode(SAID, names);
        assert_eq!(tokenizer.decode(&ids).unwrap(), SAID);
        assert!(ids.iter().all(|id| *id < tokenizer.size()));
    }
    assert!(tokenizer.decode(&[tokenizer.size()]).is_err());
    // A vocabulary without the words of the chat format is one all the same.
    let _ = Markers::find(tokenizer);
}

fn load(folder: &std::path::Path) -> Result<(), String> {
    let tokenizer = Tokenizer::load(folder).map_err(|e| e.to_string())?;
    is_sound(&tokenizer);
    Ok(())
}

#[test]
fn changed_vocabularies_end_in_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    small_vocabulary::write_to(dir.path()).unwrap();
    let path = dir.path().join("tiktoken.model");
    let good = vec![fs::read(&path).unwrap()];
    campaign(Format {
        name: "tiktoken.model",
        // An id that both files give is told of the other one.
        file: Some("tok".to_owned()),
        good,
        words: &["IQ== 0\n", "AAAA 300\n", "= ", " 4294967295\n", "\r\n"],
        memory: (256, 2 << 20),
        read: Box::new(move |bytes| {
            fs::write(&path, bytes).unwrap();
            load(dir.path())
        }),
    });
}

#[test]
fn changed_special_tokens_end_in_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    small_vocabulary::write_to(dir.path()).unwrap();
    let path = dir.path().join("tokenizer_config.json");
    let good = vec![fs::read(&path).unwrap()];
    campaign(Format {
        name: "tokenizer_config.json",
        file: Some("tokenizer_config.json".to_owned()),
        good,
        words: &[
            "\"special\": true",
            "\"300\": {",
            "<|open|>",
            "\"content\": \"\"",
            "\\u001b[2J",
        ],
        memory: (256, 2 << 20),
        read: Box::new(move |bytes| {
            fs::write(&path, bytes).unwrap();
            load(dir.path())
        }),
    });
}

/// Ids as bytes, four each.
fn bytes(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

/// Whatever ids a model makes: there is one ending, it comes last, and a completion that is whole says the same at once and
/// id by id.
#[test]
fn changed_completions_end_in_an_answer() {
    let tokenizer = Tokenizer::load(DEMO.as_ref()).unwrap();
    let markers = Markers::find(&tokenizer).unwrap();
    let thinking = Thinking::On(None);
    let opening = render::encode(&tokenizer, &markers, &render::opening(thinking));
    let completion = |message: &Message| {
        let ids = render::encode(&tokenizer, &markers, &render::message(message, thinking));
        ids.strip_prefix(opening.as_slice()).unwrap().to_vec()
    };
    let good = [
        Message::assistant(Some("Three words.".into()), "Two 中文😀."),
        Message::assistant(Some(String::new()), "<|open|>think<|sep|>"),
    ];
    let good: Vec<Vec<u8>> = good.iter().map(|m| bytes(&completion(m))).collect();
    campaign(Format {
        name: "completion",
        file: None,
        good,
        words: &[],
        memory: (256, 64 << 10),
        read: Box::new(|bytes| {
            let ids = bytes.as_chunks::<4>().0.iter();
            // Most of them in the vocabulary, or nothing would be read.
            let ids: Vec<u32> = ids
                .map(|id| u32::from_le_bytes(*id))
                .map(|id| {
                    if id > tokenizer.size() {
                        id % (tokenizer.size() + 1)
                    } else {
                        id
                    }
                })
                .collect();
            let mut parser = CompletionParser::new(thinking);
            let mut events = Vec::new();
            for &id in &ids {
                match parser.push(&tokenizer, &markers, id) {
                    Ok(more) => events.extend(more),
                    Err(error) => {
                        assert!(id >= tokenizer.size(), "{error}");
                        return Err(error.to_string());
                    }
                }
            }
            events.extend(parser.finish());
            let ended = |event: &Event| matches!(event, Event::Ended(_));
            assert_eq!(events.iter().filter(|event| ended(event)).count(), 1);
            assert!(events.last().is_some_and(ended));
            let said = |wanted: Channel| -> String {
                let texts = events.iter().filter_map(|event| match event {
                    Event::Text(channel, text) if *channel == wanted => Some(text.as_str()),
                    _ => None,
                });
                texts.collect()
            };
            match turn::parse(&tokenizer, &markers, thinking, &ids) {
                Ok(turn) => {
                    assert_eq!(turn.message.content, said(Channel::Response));
                    let thought = turn.message.reasoning_content.unwrap_or_default();
                    assert_eq!(thought, said(Channel::Think));
                    Ok(())
                }
                Err(TurnError::Text(error)) => panic!("the parser took these ids: {error}"),
                Err(error) => Err(error.to_string()),
            }
        }),
    });
}
