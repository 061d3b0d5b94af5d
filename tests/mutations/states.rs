//! State files.

use std::fs;

use k3::model::{SavedState, StateWriter, Want};

use crate::harness::{Format, campaign};
use crate::support::models::state_bits;
use crate::support::{fixtures, network};

/// Both parts of a state file are hashed, so one that is taken is the one that was saved, to the bit.
#[test]
fn changed_states_end_in_an_answer() {
    let mut network = network(&fixtures().join("tiny-a"));
    let key = network.key().unwrap();
    let ids = [5, 7, 11, 3];
    let mut state = network.new_state(8).unwrap();
    network.feed(&mut state, &ids[..3], Want::Last).unwrap();
    let right = state_bits(&state);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("talk.k3state");
    StateWriter::create(&path)
        .unwrap()
        .save(&key, &state, &ids)
        .unwrap();
    let good = fs::read(&path).unwrap();
    // A second one that is mostly head, so that changes meet it.
    let length = good.len();
    println!("a state of {length} bytes");
    campaign(Format {
        name: "state file",
        file: Some("talk.k3state".to_owned()),
        good: vec![good],
        words: &["K3-STATE", "K3ST", "\u{1}\0\0\0"],
        memory: (8, 8 << 20),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            let found = SavedState::open(&path).map_err(|e| e.to_string())?;
            found.check(&key, 8).map_err(|e| e.to_string())?;
            let fresh = network.new_state(8).unwrap();
            let (state, got) = found.load(&key, fresh).map_err(|e| e.to_string())?;
            assert_eq!(
                (got.as_slice(), state_bits(&state)),
                (&ids[..], right.clone())
            );
            Ok(())
        }),
    });
}

/// The same with changes to the head alone, which is a small part of the file.
#[test]
fn changed_heads_of_states_end_in_an_answer() {
    const HEAD: usize = 104 + 4 * 4 + 32;
    let mut network = network(&fixtures().join("tiny-a"));
    let key = network.key().unwrap();
    let ids = [5, 7, 11, 3];
    let mut state = network.new_state(8).unwrap();
    network.feed(&mut state, &ids[..3], Want::Last).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("talk.k3state");
    StateWriter::create(&path)
        .unwrap()
        .save(&key, &state, &ids)
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let (head, values) = whole.split_at(HEAD);
    campaign(Format {
        name: "head of a state file",
        file: Some("talk.k3state".to_owned()),
        good: vec![head.to_vec()],
        words: &["K3-STATE", "K3ST", "\u{1}\0\0\0"],
        memory: (8, 8 << 20),
        read: Box::new(|bytes| {
            fs::write(&path, [bytes, values].concat()).unwrap();
            let found = SavedState::open(&path).map_err(|e| e.to_string())?;
            assert_eq!(bytes, head, "another head with the same hash");
            found.check(&key, 8).map_err(|e| e.to_string())
        }),
    });
}
