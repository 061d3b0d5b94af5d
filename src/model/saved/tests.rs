//! State files of a small model: that every byte of them counts, and what is said of each fault.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::head::{FIXED, HASH};
use super::*;
use crate::checkpoint::config::{Attention, Config};

/// Three KDA layers and an MLA layer, so small that every byte of a file can be tried.
fn config() -> Config {
    let mut config = Config::released();
    config.kda.heads = 2;
    config.kda.head_dim = 3;
    config.kda.conv_kernel = 3;
    config.mla.kv_rank = 5;
    config.mla.rope_dim = 2;
    config.attention = vec![
        Attention::Kda,
        Attention::Kda,
        Attention::Mla,
        Attention::Kda,
    ];
    config
}

fn key() -> ModelKey {
    ModelKey::new([7; 32], &config(), 4)
}

/// Ids of [`state`]: two were made and not fed.
const IDS: [u32; 5] = [1, 163_839, 3, 5, 8];

fn empty(capacity: usize) -> State {
    State::new(&config(), 4, capacity).unwrap()
}

/// After three positions; every value another one.
fn state() -> State {
    let mut state = empty(3);
    state.restart(3);
    let all = values_mut(&mut state).flatten();
    for (value, number) in all.zip(1_i16..) {
        *value = f32::from(number) / 7.0 - 9.0;
    }
    state
}

/// A saved state in a folder of its own.
fn saved() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a state");
    let writer = StateWriter::create(&path).unwrap();
    let len = writer.save(&key(), &state(), &IDS).unwrap();
    assert_eq!(len, fs::metadata(&path).unwrap().len());
    (folder, path)
}

fn load(path: &Path, key: &ModelKey, capacity: usize) -> Result<(State, Vec<u32>), StateFileError> {
    SavedState::open(path)?.load(key, empty(capacity))
}

/// Why a file is refused.
fn why(path: &Path, key: &ModelKey, capacity: usize) -> Unfit {
    match load(path, key, capacity) {
        Err(StateFileError::Refused { path: named, why }) => {
            assert_eq!(named, path);
            why
        }
        other => panic!("{other:?}"),
    }
}

/// Writes the file again with this change, and the hashes right again.
fn forge(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    use sha2::{Digest, Sha256};
    let mut bytes = fs::read(path).unwrap();
    let ids = 4 * u64::from_le_bytes(bytes[88..96].try_into().unwrap()) as usize;
    change(&mut bytes);
    let hash = Sha256::digest(&bytes[..FIXED + ids]);
    bytes[FIXED + ids..FIXED + ids + HASH].copy_from_slice(&hash);
    let end = bytes.len() - HASH;
    let hash = Sha256::digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&hash);
    fs::write(path, bytes).unwrap();
}

fn bits(state: &State) -> Vec<u32> {
    values(state).flatten().map(|v| v.to_bits()).collect()
}

#[test]
fn what_was_saved_is_loaded_into_any_capacity_that_is_enough() {
    let (folder, path) = saved();
    for capacity in [3, 4, 500] {
        let (loaded, ids) = load(&path, &key(), capacity).unwrap();
        assert_eq!(ids, IDS);
        assert_eq!(bits(&loaded), bits(&state()));
        assert!(loaded.is_whole());
        assert_eq!((loaded.positions(), loaded.capacity()), (3, capacity));
    }
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "no temporary file stays");
    // Three positions of 7 values, and per KDA layer 2 heads of 3 x 3 and three histories of 2 x 6.
    let values = 3 * 7 + 3 * (2 * 9 + 3 * 12);
    let len = FIXED + 4 * IDS.len() + HASH + 4 * values + HASH;
    assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
}

#[test]
fn a_state_before_the_first_token_is_saved_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty");
    let writer = StateWriter::create(&path).unwrap();
    writer.save(&key(), &empty(9), &[]).unwrap();
    let (loaded, ids) = load(&path, &key(), 0).unwrap();
    assert!(ids.is_empty() && loaded.positions() == 0);
}

#[test]
fn every_bit_that_is_flipped_is_found() {
    let (_folder, path) = saved();
    let good = fs::read(&path).unwrap();
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    for (at, byte) in good.iter().enumerate() {
        for bit in 0..8 {
            let mut put = |byte: u8| {
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&[byte]).unwrap();
            };
            put(byte ^ (1 << bit));
            let why = why(&path, &key(), 100);
            let found = match at {
                0..8 => matches!(why, Unfit::NoState),
                8..12 => matches!(why, Unfit::Version(_)),
                // The numbers that the file's length is made of.
                88..104 => matches!(
                    why,
                    Unfit::Cut { .. } | Unfit::Trailing(_) | Unfit::Inconsistent(_)
                ),
                _ if at < FIXED + 4 * IDS.len() + HASH => why == Unfit::Damaged("header and ids"),
                _ => why == Unfit::Damaged("values"),
            };
            assert!(found, "byte {at}, bit {bit}: {why}");
            put(*byte);
        }
    }
}

#[test]
fn a_file_that_is_cut_anywhere_or_goes_on_is_found() {
    let (_folder, path) = saved();
    let good = fs::read(&path).unwrap();
    for len in 0..good.len() {
        fs::write(&path, &good[..len]).unwrap();
        // Known from the head alone.
        match SavedState::open(&path) {
            Err(StateFileError::Refused {
                why: Unfit::Cut { got, .. },
                ..
            }) => assert_eq!(got, len as u64),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
    fs::write(&path, [&good[..], &[0; 3]].concat()).unwrap();
    assert_eq!(why(&path, &key(), 100), Unfit::Trailing(3));
}

#[test]
fn other_kinds_of_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    fs::write(&path, b"K3ST\x01\0\0\0 and more").unwrap();
    let message = SavedState::open(&path).unwrap_err().to_string();
    assert!(message.contains("C engine") && message.contains("--save-state"));
    fs::write(&path, b"{\"role\":\"user\"}").unwrap();
    assert_eq!(why(&path, &key(), 9), Unfit::NoState);
    for path in [folder.path(), &folder.path().join("none")] {
        let error = SavedState::open(path).unwrap_err();
        assert!(matches!(error, StateFileError::NotRead { .. }), "{error}");
    }
}

/// The hashes of these files are right: only what they say is not.
#[test]
fn another_model_version_or_count_is_refused_with_the_reason() {
    let (_folder, path) = saved();
    let other = ModelKey::new([8; 32], &config(), 4);
    assert_eq!(why(&path, &other, 9), Unfit::OtherModel);

    // Fields that change no size, too.
    let (mut eps, mut beta, mut block) = (config(), config(), config());
    eps.norm_eps *= 2.0;
    beta.situ.beta += 1.0;
    block.block += 1;
    for config in [eps, beta, block] {
        let other = ModelKey::new([7; 32], &config, 4);
        assert_eq!(why(&path, &other, 9), Unfit::OtherConfig);
    }

    let fewer = ModelKey::new([7; 32], &config(), 3);
    let layers = Unfit::Layers { got: 4, want: 3 };
    assert_eq!(why(&path, &fewer, 9), layers);

    let full = Unfit::Full {
        positions: 3,
        capacity: 2,
        needed: 6,
    };
    assert_eq!(why(&path, &key(), 2), full);
    assert!(full.to_string().contains("--context 6"));

    forge(&path, |bytes| bytes[8] = 2);
    assert_eq!(why(&path, &key(), 9), Unfit::Version(2));
}

#[test]
fn counts_that_contradict_each_other_are_refused() {
    let set = |at: usize, number: u64| {
        move |bytes: &mut Vec<u8>| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes())
    };
    // More positions than ids; fewer positions than values; positions that no memory holds.
    for positions in [6, 2, u64::MAX, u64::MAX / 7] {
        let (_folder, path) = saved();
        forge(&path, set(80, positions));
        let why = why(&path, &key(), 100);
        assert!(matches!(why, Unfit::Inconsistent(_)), "{positions}: {why}");
    }
    // Counts far beyond the file are known before anything of that size is reserved.
    for at in [88, 96] {
        for number in [u64::MAX, 1 << 62, 1 << 40] {
            let (_folder, path) = saved();
            let mut bytes = fs::read(&path).unwrap();
            set(at, number)(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let why = why(&path, &key(), 9);
            assert!(
                matches!(why, Unfit::Cut { .. } | Unfit::Inconsistent(_)),
                "{number}: {why}"
            );
        }
    }
    // An id that the model has no row for.
    let (_folder, path) = saved();
    forge(&path, |bytes| {
        bytes[FIXED..FIXED + 4].copy_from_slice(&163_840_u32.to_le_bytes())
    });
    let why = why(&path, &key(), 9);
    assert!(why.to_string().contains("id 163840"), "{why}");
}

#[test]
fn a_torn_state_or_one_that_belongs_elsewhere_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    fs::write(&path, "as it was").unwrap();
    let mut torn = empty(9);
    torn.tear(1).unwrap();
    let fewer = ModelKey::new([7; 32], &config(), 3);
    for (key, state, ids) in [
        (key(), torn, &IDS[..]),
        // Fewer ids than positions.
        (key(), state(), &IDS[..2]),
        (fewer, state(), &IDS),
    ] {
        let writer = StateWriter::create(&path).unwrap();
        let error = writer.save(&key, &state, ids).unwrap_err();
        assert!(matches!(error, StateFileError::Torn), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"as it was");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_place_that_cannot_be_written_is_known_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("no/such/state"), folder.path().into()] {
        let error = StateWriter::create(&path).unwrap_err();
        assert!(matches!(error, StateFileError::NotSaved { .. }), "{error}");
        let named = error.to_string();
        assert!(named.contains(&path.display().to_string()), "{named}");
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_it_and_a_link_is_followed() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = saved();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let writer = StateWriter::create(&link).unwrap();
    writer.save(&key(), &empty(1), &[9]).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(SavedState::open(&path).unwrap().ids(), [9]);
}
