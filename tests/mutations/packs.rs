//! The manifests of packed trunks: ours, and the C engine's.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use k3::checkpoint::layout;
use k3::checkpoint::{Checkpoint, ExpertAt};
use k3::stream::pack::Pack;

use crate::harness::{Format, campaign};
use crate::support::{checkpoint, fixtures, packs};

/// Where a pack has each tensor of the trunk.
fn places(pack: &Pack, checkpoint: &Checkpoint) -> Result<HashMap<String, u64>, String> {
    let config = checkpoint.config();
    let mut places = HashMap::new();
    let len = fs::metadata(pack.bin()).unwrap().len();
    for entry in layout::trunk(config, config.layers()) {
        if let Some(offset) = pack.find(&entry.name).map_err(|e| e.to_string())? {
            let bytes = checkpoint.tensor(&entry.name).unwrap().bytes;
            assert!(offset.checked_add(bytes).is_some_and(|end| end <= len));
            places.insert(entry.name, offset);
        }
    }
    Ok(places)
}

fn opened(dir: &Path, checkpoint: &Checkpoint) -> Result<HashMap<String, u64>, String> {
    let pack = Pack::open(dir, checkpoint).map_err(|e| e.to_string())?;
    places(&pack, checkpoint)
}

fn tiny() -> Arc<Checkpoint> {
    let checkpoint = checkpoint(&fixtures().join("tiny-b"));
    // The test is of packs, and needs no experts; that they are there says that it is the right fixture.
    assert!(matches!(
        checkpoint
            .expert(checkpoint.config().layers() - 1, 0)
            .unwrap()
            .at,
        ExpertAt::Run { .. } | ExpertAt::Parts { .. }
    ));
    checkpoint
}

/// Ours says where every tensor is in one way only, so what is taken has every tensor where it was written.
#[test]
fn changed_manifests_of_ours_end_in_an_answer() {
    let checkpoint = tiny();
    let dir = tempfile::tempdir().unwrap();
    packs::write(&checkpoint, dir.path()).unwrap();
    let path = dir.path().join("pack.json");
    let right = opened(dir.path(), &checkpoint).unwrap();
    let good = vec![fs::read(&path).unwrap()];
    campaign(Format {
        name: "pack.json",
        file: Some(dir.path().file_name().unwrap().to_str().unwrap().to_owned()),
        good,
        words: &[
            "\"offset\":0",
            "\"bytes\":4096",
            "\"F32\"",
            "\"version\":2",
            "\"segment_bytes\":0",
        ],
        memory: (64, 1 << 20),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            let got = opened(dir.path(), &checkpoint)?;
            assert_eq!(got, right, "a tensor is somewhere else");
            Ok(())
        }),
    });
}

/// The C engine's names no checkpoint and no hash: tensors of one shape may stand in each other's place and nobody can tell
/// without reading all, which `k3 pack --check` does. What is taken lies in the file.
#[test]
fn changed_manifests_of_the_c_engine_end_in_an_answer() {
    let checkpoint = tiny();
    let dir = tempfile::tempdir().unwrap();
    packs::write_c_engine(&checkpoint, dir.path(), true);
    let path = dir.path().join("trunk.json");
    let good = vec![fs::read(&path).unwrap()];
    campaign(Format {
        name: "trunk.json",
        file: Some(dir.path().file_name().unwrap().to_str().unwrap().to_owned()),
        good,
        words: &[
            "\"off\":0",
            "\"nbytes\":4096",
            "\"layer\":1",
            "\"layers\":[]",
            "\"file_off\":4096",
        ],
        memory: (64, 1 << 20),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            opened(dir.path(), &checkpoint).map(|_| ())
        }),
    });
}
