//! Words through the public surface: the vectors of the oracle, and what holds for every text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../src/text/small_vocabulary.rs"]
mod small_vocabulary;
mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use k3::text::split::Splitter;
use k3::text::{
    Channel, CompletionParser, Effort, Ending, Event, Markers, Message, Names, Role, Thinking,
    Tokenizer, Utf8Stream, render, turn,
};
use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};

fn small_tokenizer() -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    small_vocabulary::write_to(folder.path()).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

/// The folder of chat vectors, if there is one.
fn oracle(test: &str) -> Option<PathBuf> {
    support::oracle(test).map(|folder| folder.join("chat"))
}

fn vectors<T: for<'de> Deserialize<'de>>(folder: &Path, file: &str) -> T {
    serde_json::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

/// The fixture's vocabulary, filled up to the size of the released one with tokens that no text has.
fn fixture_tokenizer(oracle: &Path) -> Tokenizer {
    use base64::Engine as _;
    let mut model = std::fs::read_to_string(oracle.join("fixture-head.tiktoken")).unwrap();
    for rank in model.lines().count() as u32..163_584 {
        let [_, high, middle, low] = rank.to_be_bytes();
        let token = base64::engine::general_purpose::STANDARD.encode([0xff, high, middle, low]);
        writeln!(model, "{token} {rank}").unwrap();
    }
    let digest = "6f76adafdca5552b77f369c647700970cd49cd4248037c765705b461a7b59cca";
    assert_eq!(
        hex(&Sha256::digest(&model)),
        digest,
        "the fixture vocabulary is not built as it should be"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tiktoken.model"), model).unwrap();
    let config = std::fs::read(oracle.join("tokenizer_config.json")).unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

/// The released tokenizer, if a folder of it is named.
fn released_tokenizer() -> Option<Tokenizer> {
    let Some(folder) = std::env::var_os("K3_TOKENIZER") else {
        eprintln!("NOT RUN: K3_TOKENIZER is not set");
        return None;
    };
    let model = std::fs::read(Path::new(&folder).join("tiktoken.model")).unwrap();
    let digest = "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103";
    if hex(&Sha256::digest(model)) != digest {
        eprintln!("NOT RUN: the tiktoken.model of K3_TOKENIZER is not the released one");
        return None;
    }
    Some(Tokenizer::load(Path::new(&folder)).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest_of_bytes(ids: &[u32]) -> String {
    hex(&Sha256::digest(
        ids.iter()
            .flat_map(|id| id.to_le_bytes())
            .collect::<Vec<u8>>(),
    ))
}

/// A text given as a recipe: `"ab"*3 + U+001C + "c"`, or `"ab" repeated 3 then "c"`.
fn long_text(recipe: &str) -> Option<String> {
    let recipe = recipe.replace(" repeated ", "*").replace(" then ", " + ");
    let mut text = String::new();
    let mut rest = recipe.as_str();
    while !rest.is_empty() {
        let unit: String;
        if let Some(code_point) = rest.strip_prefix("U+") {
            let (digits, after) = leading(code_point, |digit| digit.is_ascii_hexdigit());
            unit = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?.into();
            rest = after;
        } else {
            let (inside, after) = rest.strip_prefix('"')?.split_once('"')?;
            unit = serde_json::from_str(&format!("\"{inside}\"")).ok()?;
            rest = after;
        }
        let mut count = 1;
        if let Some(times) = rest.strip_prefix('*') {
            let (digits, after) = leading(times, |digit| digit.is_ascii_digit());
            count = digits.parse().ok()?;
            rest = after;
        }
        text.push_str(&unit.repeat(count));
        if !rest.is_empty() {
            rest = rest.strip_prefix(" + ")?;
        }
    }
    Some(text)
}

/// The longest start of `text` that is all `wanted`, and the rest.
fn leading(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(
        text.find(|character| !wanted(character))
            .unwrap_or(text.len()),
    )
}

#[test]
fn the_recipes_of_long_texts_are_read() {
    assert_eq!(
        long_text("\"ab\"*2 + U+001C*2 + \"\\n\"").as_deref(),
        Some("abab\u{1c}\u{1c}\n")
    );
    assert_eq!(
        long_text("\" \" repeated 3 then \"end\"").as_deref(),
        Some("   end")
    );
    assert_eq!(long_text("a text that is itself"), None);
}

#[derive(Deserialize)]
struct PieceVector {
    text: String,
    pieces: Vec<String>,
    fixture_ids: Vec<u32>,
    fixture_ids_allow_special: Option<Vec<u32>>,
}

#[test]
fn pieces_and_fixture_ids_are_the_official_ones() {
    let Some(oracle) = oracle("pieces and ids") else {
        return;
    };
    let tokenizer = fixture_tokenizer(&oracle);
    let splitter = Splitter::new();
    let vectors: Vec<PieceVector> = vectors(&oracle, "pretok-and-fixture-vectors.json");
    assert_eq!(vectors.len(), 153);
    for vector in vectors {
        let text = vector.text;
        assert_eq!(
            splitter.pieces(&text).collect::<Vec<_>>(),
            vector.pieces,
            "{text:?}"
        );
        assert_eq!(
            tokenizer.encode(&text, Names::AsText),
            vector.fixture_ids,
            "{text:?}"
        );
        assert_eq!(tokenizer.decode(&vector.fixture_ids).unwrap(), text);
        if let Some(ids) = vector.fixture_ids_allow_special {
            assert_eq!(tokenizer.encode(&text, Names::Allowed), ids, "{text:?}");
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}

#[derive(Deserialize)]
struct LongRuns {
    long_runs_with_fixture_vocab: Vec<LongRun>,
}

#[derive(Deserialize)]
struct LongRun {
    text: String,
    code_points: usize,
    direct_allow_all_wrapped: Ids,
    none_wrapped: Ids,
}

#[derive(Deserialize)]
struct Ids {
    count: usize,
    sha256_u32le: String,
}

#[test]
fn long_runs_are_cut_as_the_official_tokenizer_cuts_them() {
    let Some(oracle) = oracle("long runs") else {
        return;
    };
    let tokenizer = fixture_tokenizer(&oracle);
    let vectors: LongRuns = vectors(&oracle, "fixture-long-run-vectors.json");
    assert_eq!(vectors.long_runs_with_fixture_vocab.len(), 14);
    for vector in vectors.long_runs_with_fixture_vocab {
        let text = long_text(&vector.text).unwrap();
        assert_eq!(text.chars().count(), vector.code_points, "{}", vector.text);
        for (names, expected) in [
            (Names::AsText, vector.none_wrapped),
            (Names::Allowed, vector.direct_allow_all_wrapped),
        ] {
            let ids = tokenizer.encode(&text, names);
            assert_eq!(ids.len(), expected.count, "{} {names:?}", vector.text);
            assert_eq!(
                digest_of_bytes(&ids),
                expected.sha256_u32le,
                "{} {names:?}",
                vector.text
            );
        }
    }
}

#[derive(Deserialize)]
struct ChatVector {
    name: String,
    messages: Vec<ChatMessage>,
    options: ChatOptions,
    rendered: String,
    segments: Vec<(bool, String)>,
    fixture_ids: Vec<u32>,
    real_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct ChatMessage {
    role: Role,
    content: String,
    reasoning_content: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct ChatOptions {
    thinking: bool,
    thinking_effort: Option<String>,
    add_generation_prompt: bool,
}

impl ChatVector {
    fn thinking(&self) -> Thinking {
        let effort = self.options.thinking_effort.as_deref();
        let effort: Option<Effort> = effort.map(|effort| effort.parse().unwrap());
        if self.options.thinking {
            Thinking::On(effort)
        } else {
            Thinking::Off
        }
    }

    fn messages(&self) -> Vec<Message> {
        let copy = |message: &ChatMessage| Message {
            role: message.role,
            content: message.content.clone(),
            reasoning_content: message.reasoning_content.clone(),
            name: message.name.clone(),
        };
        self.messages.iter().map(copy).collect()
    }
}

#[test]
fn chats_are_rendered_as_the_official_encoder_does() {
    let Some(oracle) = oracle("chats") else {
        return;
    };
    let fixture = fixture_tokenizer(&oracle);
    let released = released_tokenizer();
    let vectors: Vec<ChatVector> = vectors(&oracle, "chat-vectors.json");
    assert_eq!(vectors.len(), 18);
    for vector in vectors {
        let name = &vector.name;
        let messages = vector.messages();
        let mut segments = render::conversation(&messages, vector.thinking());
        if vector.options.add_generation_prompt {
            segments.extend(render::opening(vector.thinking()));
        }
        assert_eq!(render::text(&segments), vector.rendered, "{name}");
        let ours: Vec<(bool, String)> = segments
            .iter()
            .map(|segment| {
                (
                    matches!(segment, render::Segment::Special(_)),
                    segment.as_str().to_owned(),
                )
            })
            .collect();
        assert_eq!(ours, vector.segments, "{name}");
        let ids = |tokenizer: &Tokenizer| {
            render::encode(tokenizer, &Markers::find(tokenizer).unwrap(), &segments)
        };
        assert_eq!(ids(&fixture), vector.fixture_ids, "{name}");
        if let (Some(released), Some(expected)) = (&released, &vector.real_ids) {
            assert_eq!(&ids(released), expected, "{name}");
        }
    }
}

#[derive(Deserialize)]
struct RealVectors {
    vectors: Vec<RealVector>,
    hash_vectors: Vec<RealHash>,
}

#[derive(Deserialize)]
struct RealVector {
    text: String,
    mode: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct RealHash {
    text: String,
    count: usize,
    sha256: String,
    mode: String,
    hash_of: String,
}

#[test]
fn the_released_vocabulary_gives_the_released_ids() {
    let Some(oracle) = oracle("released ids") else {
        return;
    };
    let Some(tokenizer) = released_tokenizer() else {
        return;
    };
    let vectors: RealVectors = vectors(&oracle, "real-vocab-vectors.json");
    for vector in vectors.vectors {
        let names = if vector.mode == "allow_special" {
            Names::Allowed
        } else {
            Names::AsText
        };
        assert_eq!(
            tokenizer.encode(&vector.text, names),
            vector.ids,
            "{:?}",
            vector.text
        );
    }
    for vector in vectors.hash_vectors {
        // "serving" alone cuts at names before it cuts runs, which is a path of Hugging Face that a chat never takes.
        let modes: &[Names] = match vector.mode.as_str() {
            "none" => &[Names::AsText],
            "direct" | "serving and direct" => &[Names::Allowed],
            "any" | "direct and none" => &[Names::AsText, Names::Allowed],
            "serving" => continue,
            other => panic!("unknown mode {other}"),
        };
        let text = long_text(&vector.text).unwrap_or(vector.text);
        for &names in modes {
            let ids = tokenizer.encode(&text, names);
            let digest = if vector.hash_of.starts_with("compact JSON") {
                hex(&Sha256::digest(serde_json::to_string(&ids).unwrap()))
            } else {
                digest_of_bytes(&ids)
            };
            assert_eq!(
                (ids.len(), &digest),
                (vector.count, &vector.sha256),
                "{:.60?}",
                text
            );
        }
    }
}

/// A tokenizer that has every run of `units` up to `longest` bytes, and every start of a unit: whatever a piece of
/// them is, all of its bytes are merged, over and over.
fn merging_tokenizer(units: &[&str], longest: usize) -> Tokenizer {
    let mut merges: Vec<Vec<u8>> = Vec::new();
    for unit in units {
        merges.extend((2..=unit.len()).map(|length| unit.as_bytes()[..length].to_vec()));
        merges.extend((2..=longest / unit.len()).map(|count| unit.repeat(count).into_bytes()));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tiktoken.model"),
        small_vocabulary::tiktoken_model(&merges),
    )
    .unwrap();
    let config = small_vocabulary::tokenizer_config(256 + merges.len() as u32);
    std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

/// A quadratic step anywhere would take minutes here. What it really takes is printed, and is a matter of benchmarks.
#[test]
fn a_million_characters_of_one_kind_are_no_trouble() {
    let units = [
        "a", "A", " ", "\n", "中", "😀", "1", "'", "<", "[", "\u{301}", "ʰ", "é",
    ];
    let tokenizer = merging_tokenizer(&units, 128);
    let others = [" \u{a0}", "ʰA", "中文", "<|open|>"];
    for unit in units.into_iter().chain(others) {
        let text = unit.repeat(1_000_000 / unit.chars().count());
        let start = std::time::Instant::now();
        let ids = tokenizer.encode(&text, Names::Allowed);
        println!(
            "{unit:?}: {} ids in {:.2} s",
            ids.len(),
            start.elapsed().as_secs_f64()
        );
        assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{unit:?}");
    }
}

/// Text that meets merges, names of special tokens, and characters of every length.
fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => prop::sample::select(small_vocabulary::MERGES.to_vec()).prop_map(str::to_owned),
        2 => prop::sample::select(small_vocabulary::NAMES.to_vec()).prop_map(|(_, name)| name.to_owned()),
        2 => any::<char>().prop_map(String::from),
        1 => prop::collection::vec(prop::sample::select("  \taz'é\r\n".chars().collect::<Vec<_>>()), 0..6)
            .prop_map(String::from_iter),
    ];
    prop::collection::vec(word, 0..20).prop_map(|words| words.concat())
}

/// What completions are made of, in every order, most of them wrong.
fn any_completion() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "<|close|>think<|sep|><|open|>response<|sep|>",
        "<|close|>response<|sep|><|close|>message<|sep|>",
        "<|close|>response<|sep|><|open|>tools<|sep|>",
        "<|close|>tools<|sep|><|close|>message<|sep|>",
        "<|open|>",
        "<|close|>",
        "<|sep|>",
        "think",
        "response",
        "the 中😀",
        "[PAD]",
        "[EOS]",
        "<|end_of_msg|>",
    ]);
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

/// The ids that a model makes for a whole turn.
fn completion(tokenizer: &Tokenizer, thinking: Thinking, message: &Message) -> Vec<u32> {
    let markers = Markers::find(tokenizer).unwrap();
    let rendered = render::encode(tokenizer, &markers, &render::message(message, thinking));
    let opening = render::encode(tokenizer, &markers, &render::opening(thinking));
    rendered.strip_prefix(opening.as_slice()).unwrap().to_vec()
}

/// What a parser says of `ids`: the texts of the three channels, and the one ending.
fn streamed(tokenizer: &Tokenizer, thinking: Thinking, ids: &[u32]) -> ([String; 3], Ending) {
    let markers = Markers::find(tokenizer).unwrap();
    let mut parser = CompletionParser::new(thinking);
    let mut events: Vec<Event> = Vec::new();
    for &id in ids {
        events.extend(parser.push(tokenizer, &markers, id).unwrap());
    }
    events.extend(parser.finish());
    let Some(Event::Ended(ending)) = events.pop() else {
        panic!("the last event is no ending")
    };
    let mut texts = [String::new(), String::new(), String::new()];
    for event in events {
        match event {
            Event::Text(Channel::Think, text) => texts[0].push_str(&text),
            Event::Text(Channel::Response, text) => texts[1].push_str(&text),
            Event::Text(Channel::Tools, text) => texts[2].push_str(&text),
            Event::Ended(ending) => panic!("{ending:?} is not the last event"),
            Event::Opened(_) | Event::Closed(_) => {}
        }
    }
    (texts, ending)
}

thread_local! {
    static SMALL: Tokenizer = small_tokenizer();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_comes_back(text in any_text()) {
        SMALL.with(|tokenizer| {
            for names in [Names::AsText, Names::Allowed] {
                let ids = tokenizer.encode(&text, names);
                prop_assert_eq!(&tokenizer.decode(&ids).unwrap(), &text);
                prop_assert_eq!(&tokenizer.pieces(&text, names).concat(), &text);
                if names == Names::AsText {
                    prop_assert!(ids.iter().all(|&id| !tokenizer.is_special(id)));
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn streamed_text_is_the_text_of_the_whole(ids in prop::collection::vec(0_u32..556, 0..60)) {
        SMALL.with(|tokenizer| {
            prop_assert_eq!(tokenizer.size(), 556);
            let mut stream = Utf8Stream::default();
            let mut text: String = ids.iter().map(|&id| stream.push(tokenizer.bytes(id).unwrap())).collect();
            text.push_str(&stream.finish());
            prop_assert_eq!(&text, &tokenizer.decode(&ids).unwrap());
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| tokenizer.bytes(id).unwrap().to_vec()).collect();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes).into_owned());
            Ok(())
        })?;
    }

    #[test]
    fn a_turn_reads_the_same_streamed_and_whole(reasoning in any_text(), content in any_text(), thinks: bool) {
        SMALL.with(|tokenizer| {
            let thinking = if thinks { Thinking::On(None) } else { Thinking::Off };
            let message = Message::assistant(thinks.then(|| reasoning.clone()), content.clone());
            let ids = completion(tokenizer, thinking, &message);
            let markers = Markers::find(tokenizer).unwrap();
            let whole = turn::parse(tokenizer, &markers, thinking, &ids).unwrap();
            prop_assert_eq!(&whole.message, &message);
            prop_assert!(whole.canonical);
            let (texts, ending) = streamed(tokenizer, thinking, &ids);
            prop_assert_eq!(ending, Ending::Complete(whole.end));
            prop_assert_eq!(texts[0].as_str(), if thinks { reasoning.as_str() } else { "" });
            prop_assert_eq!(&texts[1], &content);
            // The other way of thinking refuses it, whole and streamed.
            let other = if thinks { Thinking::Off } else { Thinking::On(None) };
            prop_assert!(turn::parse(tokenizer, &markers, other, &ids).is_err());
            let (_, ending) = streamed(tokenizer, other, &ids);
            prop_assert!(matches!(ending, Ending::Malformed { .. }), "{:?}", ending);
            Ok(())
        })?;
    }

    #[test]
    fn a_turn_cut_anywhere_keeps_what_was_said(
        reasoning in any_text(), content in any_text(), cut: prop::sample::Index,
    ) {
        SMALL.with(|tokenizer| {
            let thinking = Thinking::On(None);
            let message = Message::assistant(Some(reasoning.clone()), content.clone());
            let ids = completion(tokenizer, thinking, &message);
            let cut = &ids[..cut.index(ids.len())];
            prop_assert!(turn::parse(tokenizer, &Markers::find(tokenizer).unwrap(), thinking, cut).is_err());
            let (texts, ending) = streamed(tokenizer, thinking, cut);
            prop_assert!(matches!(ending, Ending::Stopped(_)), "{:?}", ending);
            // Only a character that the cut runs through is another.
            prop_assert!(reasoning.starts_with(texts[0].trim_end_matches(char::REPLACEMENT_CHARACTER)));
            prop_assert!(content.starts_with(texts[1].trim_end_matches(char::REPLACEMENT_CHARACTER)));
            Ok(())
        })?;
    }

    #[test]
    fn whatever_a_model_writes_has_one_ending(completion in any_completion(), thinks: bool) {
        SMALL.with(|tokenizer| {
            let thinking = if thinks { Thinking::On(None) } else { Thinking::Off };
            let markers = Markers::find(tokenizer).unwrap();
            let ids = tokenizer.encode(&completion, Names::Allowed);
            let (texts, ending) = streamed(tokenizer, thinking, &ids);
            if let Ok(whole) = turn::parse(tokenizer, &markers, thinking, &ids) {
                prop_assert_eq!(ending, Ending::Complete(whole.end));
                prop_assert_eq!(&texts[1], &whole.message.content);
                prop_assert_eq!(&texts[0], &whole.message.reasoning_content.unwrap_or_default());
            }
            Ok(())
        })?;
    }
}
