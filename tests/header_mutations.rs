//! Headers mutated at random: whatever the bytes are, opening a checkpoint ends in an answer, what it accepts lies
//! inside the file, and the memory it takes is bounded by the size of the file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/allocations.rs"]
mod allocations;
mod common;

use std::cell::Cell;
use std::fs;
use std::path::Path;

use allocations::{Counting, peak};
use k3::checkpoint::{Checkpoint, Config, header, names};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that opening may take at once. The largest part is the table of names, which grows by doubling; the constant
/// is the folder's listing, paths, a message, and the experts' table of the small model.
fn bound(file_len: usize) -> usize {
    16 * file_len + 32 * 1024
}

/// Opens a folder with this one shard and checks what must hold for any bytes. Says whether it was accepted.
fn answer(dir: &Path, config: &Config, file: &[u8]) -> bool {
    let path = dir.join("a.safetensors");
    fs::write(&path, file).unwrap();
    let config = config.clone();
    let (outcome, peak) = peak(|| Checkpoint::open(dir, config));
    assert!(
        peak <= bound(file.len()),
        "{peak} bytes allocated for a file of {}",
        file.len()
    );
    let checkpoint = match outcome {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.contains("a.safetensors") && message.len() < 4000,
                "{message}"
            );
            return false;
        }
    };
    let _ = checkpoint.check(checkpoint.config().layers());
    // What was accepted tiles the data of the file.
    let len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let data_len = (file.len() - 8 - len) as u64;
    let mut sum = 0;
    header::parse(&path, &file[8..8 + len], data_len, |entry| {
        assert!(entry.start + entry.bytes <= data_len);
        let elements: usize = entry.shape.dims().iter().product();
        assert_eq!(elements as u64 * entry.dtype.size(), entry.bytes);
        sum += entry.bytes;
        Ok(())
    })
    .unwrap();
    assert_eq!(sum, data_len);
    true
}

/// Runs a property over the same cases each time; says how many files were accepted and how many refused.
fn run<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> bool) -> (u32, u32) {
    let config = Cases {
        cases,
        failure_persistence: None,
        ..Cases::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    TestRunner::new_with_rng(config, rng)
        .run(strategy, |value| {
            let counter = if property(value) { &accepted } else { &refused };
            counter.set(counter.get() + 1);
            Ok(())
        })
        .unwrap();
    (accepted.get(), refused.get())
}

/// One change to the bytes of a file. Places are fractions of its length.
#[derive(Clone, Debug)]
enum Change {
    Flip(f64, u8),
    Set(f64, u8),
    Insert(f64, Vec<u8>),
    Remove(f64, usize),
    Repeat(f64, usize),
    Truncate(f64),
    Length(u64),
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        let at = |place: f64| (place * file.len() as f64) as usize;
        let span = |place: f64, len: usize| at(place)..(at(place) + len).min(file.len());
        match self {
            Change::Flip(place, mask) => {
                let at = at(*place);
                file.get_mut(at).into_iter().for_each(|byte| *byte ^= mask);
            }
            Change::Set(place, value) => {
                let at = at(*place);
                file.get_mut(at).into_iter().for_each(|byte| *byte = *value);
            }
            Change::Insert(place, bytes) => {
                let at = at(*place);
                file.splice(at..at, bytes.iter().copied());
            }
            Change::Remove(place, len) => drop(file.drain(span(*place, *len))),
            Change::Repeat(place, len) => {
                let span = span(*place, *len);
                let copy = file[span.clone()].to_vec();
                file.splice(span.end..span.end, copy);
            }
            Change::Truncate(place) => file.truncate(at(*place)),
            Change::Length(len) => {
                let len = len.to_le_bytes();
                let count = file.len().min(8);
                file[..count].copy_from_slice(&len[..count]);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    // Bytes that mean something in JSON, more often than others.
    let byte = prop_oneof![
        proptest::sample::select(&b"{}[]\",:\\0123456789-.eE ntf"[..]),
        any::<u8>()
    ];
    prop_oneof![
        3 => (0.0..1.0, 1..=255u8).prop_map(|(at, mask)| Change::Flip(at, mask)),
        6 => (0.0..1.0, byte.clone()).prop_map(|(at, value)| Change::Set(at, value)),
        3 => (0.0..1.0, proptest::collection::vec(byte, 1..40)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        3 => (0.0..1.0, 1..300usize).prop_map(|(at, len)| Change::Remove(at, len)),
        3 => (0.0..1.0, 1..300usize).prop_map(|(at, len)| Change::Repeat(at, len)),
        1 => (0.0..1.0).prop_map(Change::Truncate),
        1 => prop_oneof![any::<u64>(), 0..20_000u64, (u64::MAX - 64)..=u64::MAX].prop_map(Change::Length),
    ]
}

#[test]
fn bytes_changed_at_random_end_in_an_answer() {
    let model = common::model();
    let config = Config::load(&model.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // The header of a KDA layer with experts. Its data is left out of the changes: half of them would be lost on it.
    let whole = fs::read(common::shard(model.path(), 2)).unwrap();
    let header_end = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    assert!(
        answer(dir.path(), &config, &whole),
        "the file that is not changed is good"
    );

    let strategy = (proptest::collection::vec(change(), 1..4), any::<bool>());
    let (accepted, refused) = run(1500, &strategy, |(changes, mend_length)| {
        let mut header = whole[..header_end].to_vec();
        for change in &changes {
            change.apply(&mut header);
        }
        // Half of the files state the length that their header has now, so that more than the length is tried.
        if mend_length && header.len() >= 8 {
            Change::Length(header.len() as u64 - 8).apply(&mut header);
        }
        answer(
            dir.path(),
            &config,
            &[&header[..], &whole[header_end..]].concat(),
        )
    });
    assert!(
        accepted > 20 && refused > 500,
        "{accepted} accepted, {refused} refused"
    );
}

/// A file of nothing but random bytes, behind a length or not.
#[test]
fn random_bytes_end_in_an_answer() {
    let model = common::model();
    let config = Config::load(&model.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let strategy = (
        any::<bool>(),
        proptest::collection::vec(any::<u8>(), 0..200),
    );
    run(300, &strategy, |(with_length, bytes)| {
        let mut file = bytes;
        if with_length && file.len() > 9 {
            Change::Length(file.len() as u64 - 8).apply(&mut file);
            file[8] = b'{';
        }
        answer(dir.path(), &config, &file)
    });
}

/// One entry of a header that is put together from sound and unsound pieces.
#[derive(Clone, Debug)]
struct Piece {
    name: String,
    dtype: &'static str,
    shape: Vec<&'static str>,
    /// Replaces the offsets that would fit.
    offsets: Option<[&'static str; 2]>,
    extra: &'static str,
}

const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "8",
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "4294967296",
    "1.0",
    "1e400",
    "null",
    "\"1\"",
    "[1]",
];

fn piece() -> impl Strategy<Value = Piece> {
    let expert = (
        0..6usize,
        0..5usize,
        proptest::sample::select(&names::ExpertPart::ALL[..]),
    )
        .prop_map(|(layer, expert, part)| names::expert(layer, expert, part));
    let name = prop_oneof![
        4 => expert,
        2 => (0..40u32).prop_map(|n| format!("language_model.x{n}")),
        2 => (0..40u32).prop_map(|n| format!("vision_tower.x{n}")),
        1 => Just("__metadata__".to_owned()),
        1 => proptest::collection::vec(proptest::sample::select(&["a", "\\n", "\\\"", "\\u00e9", "\\ud800", "\u{e9}"][..]), 0..200)
            .prop_map(|parts| parts.concat()),
    ];
    let small = proptest::sample::select(&NUMBERS[..5]);
    let number = prop_oneof![30 => small, 1 => proptest::sample::select(&NUMBERS[..])];
    let dtype = prop_oneof![20 => Just("\"U8\""), 5 => Just("\"BF16\""), 5 => Just("\"F32\""), 1 => Just("\"F64\""), 1 => Just("8")];
    let shape = prop_oneof![20 => proptest::collection::vec(number.clone(), 0..5), 1 => proptest::collection::vec(number.clone(), 5..9)];
    let offsets = prop_oneof![20 => Just(None), 1 => [number.clone(), number].prop_map(Some)];
    let extra = prop_oneof![
        20 => Just(""),
        2 => Just(",\"other\":{\"deep\":[[[]]]}"),
        2 => Just(","),
        1 => Just(",\"dtype\":\"U8\""),
        1 => Just(",,")
    ];
    (name, dtype, shape, offsets, extra).prop_map(|(name, dtype, shape, offsets, extra)| Piece {
        name,
        dtype,
        shape,
        offsets,
        extra,
    })
}

#[test]
fn headers_of_unsound_pieces_end_in_an_answer() {
    let model = common::model();
    let config = Config::load(&model.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let strategy = (
        proptest::collection::vec(piece(), 0..12),
        proptest::sample::select(&["", ",", " ", "}", ",,"][..]),
    );
    let (accepted, refused) = run(1500, &strategy, |(pieces, end)| {
        let mut at = 0;
        let entries: Vec<String> = pieces
            .iter()
            .map(|piece| {
                // What would fit, as far as the numbers are sound at all.
                let size = match piece.dtype {
                    "\"BF16\"" => 2,
                    "\"F32\"" => 4,
                    _ => 1,
                };
                let bytes = piece.shape.iter().try_fold(size, |product: u64, dim| dim.parse::<u64>().ok()?.checked_mul(product));
                let bytes = bytes.filter(|&bytes| bytes < 5000).unwrap_or(0);
                let fitting = if piece.name == "__metadata__" { at } else { at + bytes };
                let [from, to] = piece.offsets.map_or_else(|| [at.to_string(), fitting.to_string()], |texts| texts.map(str::to_owned));
                at = fitting;
                let Piece { name, dtype, shape, extra, .. } = piece;
                format!("\"{name}\":{{\"dtype\":{dtype},\"shape\":[{}],\"data_offsets\":[{from},{to}]{extra}}}", shape.join(","))
            })
            .collect();
        let header = format!("{{{}{end}}}", entries.join(","));
        let file = [
            &(header.len() as u64).to_le_bytes()[..],
            header.as_bytes(),
            &vec![0; at as usize],
        ]
        .concat();
        answer(dir.path(), &config, &file)
    });
    assert!(
        accepted > 100 && refused > 100,
        "{accepted} accepted, {refused} refused"
    );
}

/// A long file of holes that states a long header is refused before memory is taken for it.
#[test]
fn a_stated_length_alone_takes_no_memory() {
    let model = common::model();
    let config = Config::load(&model.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.safetensors");
    fs::write(&path, (1u64 << 37).to_le_bytes()).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 38)
        .unwrap();
    let (outcome, peak) = peak(|| Checkpoint::open(dir.path(), config));
    assert!(
        outcome
            .err()
            .unwrap()
            .to_string()
            .contains("more than the format's limit")
    );
    assert!(peak < 32 * 1024, "{peak}");
}
