//! The released model's state, saved and loaded: how long it takes, and that it is never in memory twice. Needs half a
//! gigabyte of memory and of disk, so it is run on demand: `cargo test --release --test state_size -- --ignored --nocapture`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Instant;

use k3::checkpoint::Config;
use k3::model::{LayerState, ModelKey, SavedState, State, StateWriter};

/// The most that was resident so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}

#[test]
#[ignore = "half a gigabyte"]
fn a_state_of_full_size_is_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let config = Config::released();
    let key = ModelKey::new([1; 32], &config, 93);
    let mut state = State::new(&config, 93, 8192).unwrap();
    for layer in &mut state.layers {
        if let LayerState::Kda(kda) = layer {
            kda.recurrent.fill(0.5);
            kda.history
                .iter_mut()
                .for_each(|history| history.fill(-2.0));
        }
    }
    let before = peak();
    let started = Instant::now();
    let writer = StateWriter::create(&path).unwrap();
    let bytes = writer.save(&key, &state, &[1; 1000]).unwrap();
    let saving = started.elapsed();
    assert!((464_600_000..464_700_000).contains(&bytes), "{bytes}");
    assert!(
        peak() - before < 16 << 20,
        "saving took {}",
        peak() - before
    );

    drop(state);
    let before = peak();
    let started = Instant::now();
    let saved = SavedState::open(&path).unwrap();
    saved.check(&key, 8192).unwrap();
    let head = started.elapsed();
    let fresh = State::new(&config, 93, 8192).unwrap();
    let (state, ids) = saved.load(&key, fresh).unwrap();
    assert_eq!((state.positions(), ids.len()), (0, 1000));
    println!(
        "{bytes} bytes: saved in {saving:?}, head read in {head:?}, loaded in {:?}",
        started.elapsed()
    );
    assert!(
        peak() - before < 16 << 20,
        "loading took {}",
        peak() - before
    );
}
