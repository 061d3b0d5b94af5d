//! What the model reads, over any conversation: the ids after a reload are the ids that were live, and every prompt goes on
//! from what the network had seen, whatever the model spelled and wherever a turn was cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../src/text/small_vocabulary.rs"]
mod small_vocabulary;

use k3::chat::prompt::{self, Spoken};
use k3::chat::{Answer, Ended, Facts, Sampling, Store, Words, now};
use k3::text::{
    Channel, CompletionParser, Event, Marker, Message, Names, Thinking, Tokenizer, render,
};
use proptest::prelude::*;

fn words() -> Words {
    let folder = tempfile::tempdir().unwrap();
    small_vocabulary::write_to(folder.path()).unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    Words::new(tokenizer, 1 << 20).unwrap()
}

/// Text with what is hard in it: names of special tokens, any character.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>()
            .prop_filter("no history holds NUL", |c| *c != '\0')
            .prop_map(String::from),
        prop::sample::select(small_vocabulary::NAMES.to_vec()).prop_map(|(_, n)| n.to_owned()),
        prop::sample::select(small_vocabulary::MERGES.to_vec()).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// A turn: what was asked, the ids of think and response (any tokens of text, however they would be encoded), the end id,
/// and where it was cut.
type Spelled = (
    String,
    Vec<u32>,
    Vec<u32>,
    bool,
    Option<prop::sample::Index>,
);

fn turn() -> impl Strategy<Value = Spelled> {
    let ids = || prop::collection::vec(0u32..256 + small_vocabulary::MERGES.len() as u32, 0..10);
    (
        text(),
        ids(),
        ids(),
        any::<bool>(),
        proptest::option::of(any::<prop::sample::Index>()),
    )
}

/// The ids of a whole completion.
fn completion(
    words: &Words,
    thinking: bool,
    think: &[u32],
    response: &[u32],
    eos: bool,
) -> Vec<u32> {
    let tag = |marker: Marker, name: &str| {
        let mut ids = vec![words.markers.id(marker)];
        ids.extend(words.tokenizer.encode(name, Names::AsText));
        ids.push(words.markers.id(Marker::Sep));
        ids
    };
    let mut ids = Vec::new();
    if thinking {
        ids.extend(think);
        ids.extend(tag(Marker::Close, "think"));
        ids.extend(tag(Marker::Open, "response"));
    }
    ids.extend(response);
    ids.extend(tag(Marker::Close, "response"));
    ids.extend(tag(Marker::Close, "message"));
    ids.push(words.markers.ends()[usize::from(eos)]);
    ids
}

/// The message that a live turn keeps of such ids.
fn heard(words: &Words, thinking: Thinking, ids: &[u32]) -> Message {
    let mut parser = CompletionParser::new(thinking);
    let mut events = Vec::new();
    for &id in ids {
        events.extend(parser.push(&words.tokenizer, &words.markers, id).unwrap());
    }
    events.extend(parser.finish());
    let (mut think, mut response) = (String::new(), String::new());
    for event in events {
        match event {
            Event::Text(Channel::Think, text) => think += &text.replace('\0', "\u{fffd}"),
            Event::Text(_, text) => response += &text.replace('\0', "\u{fffd}"),
            _ => {}
        }
    }
    Message::assistant(thinking.is_on().then_some(think), response)
}

fn ids(
    words: &Words,
    messages: &[Message],
    facts: &[Option<Facts>],
    thinking: Thinking,
) -> Vec<u32> {
    let spoken = facts.iter().map(|facts| {
        let answer = facts.as_ref()?.answer.as_ref()?;
        Some(Spoken {
            ids: &answer.ids,
            thought: answer.thinking.is_on(),
        })
    });
    prompt::conversation(words, messages, spoken, thinking)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_reloaded_conversation_is_read_by_the_same_ids(
        system in proptest::option::of(text()),
        turns in prop::collection::vec(turn(), 1..5),
        thinks in any::<bool>(),
    ) {
        let words = words();
        let thinking = if thinks { Thinking::default() } else { Thinking::Off };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.jsonl");
        let (mut messages, mut facts) = (Vec::new(), Vec::new());
        if let Some(system) = system {
            messages.push(Message::system(system));
            facts.push(None);
        }
        for (user, think, response, eos, cut) in turns {
            messages.push(Message::user(user));
            facts.push(None);
            let mut before = ids(&words, &messages, &facts, thinking);
            before.extend(prompt::opening(&words, thinking));
            let mut made = completion(&words, thinks, &think, &response, eos);
            if let Some(cut) = cut {
                made.truncate(cut.index(made.len()));
            }
            messages.push(heard(&words, thinking, &made));
            facts.push(Some(Facts { when: now(), answer: Some(Answer {
                model: "m".into(), ids: made.clone(), thinking, sampling: Sampling::Greedy,
                think_tokens: 0, response_tokens: 0, seconds_prefill: 0.0, seconds_decode: 0.0,
                retained: None, drops: 0, ended: Ended::Finished,
            }) }));
            let live = ids(&words, &messages, &facts, thinking);
            // What the network has seen is a beginning of what it reads next: all but an end id and the start of a tag.
            prop_assert!(live.starts_with(&before));
            let seen = live[before.len()..].iter().zip(&made).take_while(|(a, b)| a == b).count();
            prop_assert!(made.len() - seen <= 4, "{} of {} ids", seen, made.len());

            let (mut store, _) = Store::open(&path).unwrap();
            store.save(&messages, &facts).unwrap();
            drop(store);
            let (_, opened) = Store::open(&path).unwrap();
            prop_assert_eq!(&opened.messages, &messages);
            prop_assert_eq!(ids(&words, &opened.messages, &opened.facts, thinking), live.clone());

            // Without the sidecar it is the text, encoded anew.
            let anew = ids(&words, &messages, &vec![None; messages.len()], thinking);
            let rendered = render::conversation(&messages, thinking);
            prop_assert_eq!(&anew, &render::encode(&words.tokenizer, &words.markers, &rendered));
            // Ids of a message that says something else are not used.
            let mut edited = messages.clone();
            edited.last_mut().unwrap().content.push('!');
            let last = edited.len() - 1;
            let mut without = facts.clone();
            without[last] = None;
            prop_assert_eq!(
                ids(&words, &edited, &facts, thinking),
                ids(&words, &edited, &without, thinking)
            );
        }
    }
}
