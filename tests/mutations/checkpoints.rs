//! Headers of shards, and `config.json`.

use std::fs;

use k3::checkpoint::{Checkpoint, Config};

use crate::common;
use crate::harness::{Format, campaign};
use crate::support::fixtures;

#[test]
fn changed_headers_end_in_an_answer() {
    let model = common::model();
    let config = Config::load(&model.path().join("config.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.safetensors");
    campaign(Format {
        name: "header of a shard",
        file: Some("a.safetensors".to_owned()),
        good: [2, 3, 4]
            .map(|n| fs::read(common::shard(model.path(), n)).unwrap())
            .to_vec(),
        words: &[
            "\"dtype\":\"U8\"",
            "\"data_offsets\":[0,0]",
            "__metadata__",
            "\"shape\":[]",
            "F64",
            "\\u0000",
        ],
        memory: (16, 48 << 10),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            let checkpoint =
                Checkpoint::open(dir.path(), config.clone()).map_err(|e| e.to_string())?;
            // A part of a model is not a model; what is wrong with it is another matter than this file.
            let _ = checkpoint.check(checkpoint.config().layers());
            Ok(())
        }),
    });
}

#[test]
fn changed_configurations_end_in_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    let tiny = |name: &str| fs::read(fixtures().join(name).join("config.json")).unwrap();
    campaign(Format {
        name: "config.json",
        file: Some("config.json".to_owned()),
        good: vec![
            tiny("tiny-a"),
            tiny("tiny-c"),
            common::config().to_string().into_bytes(),
            common::nested().to_string().into_bytes(),
        ],
        words: &[
            "\"hidden_size\"",
            "\"text_config\":{",
            "true",
            "[1,2,3]",
            "1e-5",
            "\"vision_config\"",
        ],
        memory: (64, 128 << 10),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            let config = Config::load(&path).map_err(|e| e.to_string())?;
            assert!(config.hidden > 0 && config.layers() > 0 && config.vocab > 0);
            Ok(())
        }),
    });
}
