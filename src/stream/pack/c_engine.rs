//! The C engine's pack: its `trunk.json`, checked before anything of it is believed. It is read only, never written.
//!
//! It holds the layers, one run of bytes each; embedding, head and what else stands outside the layers stay in the shards.
//! Containers that others derived from it (`I8R`, lossless blocks) have other types or further keys, and are refused.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{BIN, agree, bin_len, json};
use crate::checkpoint::{Checkpoint, names};
use crate::stream::{Error, ReadAt, files};

/// Its name in the folder.
pub(super) const FILE: &str = "trunk.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    n_layers: u64,
    /// Reads are widened to whole blocks, so any alignment will do.
    align: u64,
    layers: Vec<LayerRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerRun {
    layer: u64,
    /// Where it came from; shards may have been renamed since.
    #[serde(rename = "shard", default)]
    _shard: String,
    #[serde(rename = "run_start", default)]
    _run_start: u64,
    /// Early packers did not round it up to whole blocks.
    nbytes: u64,
    file_off: u64,
    tensors: Tensors,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    off: u64,
    nbytes: u64,
    dtype: String,
    shape: Vec<u64>,
}

/// The tensors of a layer in the order of the file. A name that is given twice is refused.
struct Tensors(Vec<(String, Part)>);

impl<'de> Deserialize<'de> for Tensors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Tensors;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tensors, A::Error> {
                let mut all: Vec<(String, Part)> = Vec::new();
                while let Some((name, part)) = map.next_entry::<String, Part>()? {
                    if all.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format_args!("{name} is given twice")));
                    }
                    all.push((name, part));
                }
                Ok(Tensors(all))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Where every tensor of the pack is in `trunk.bin`.
///
/// # Errors
/// [`Error::Pack`] that names the file: a manifest that contradicts itself, the file of weights or the checkpoint.
pub(super) fn offsets(dir: &Path, checkpoint: &Checkpoint) -> Result<HashMap<String, u64>, Error> {
    let path = dir.join(FILE);
    let wrong = |problem: String| Err(Error::pack(&path, problem));
    let manifest: Manifest = json(&path)?;
    let len = bin_len(dir)?;
    let bin = files::open(&dir.join(BIN))?;
    if manifest.layers.is_empty() {
        return wrong("it has no layers".into());
    }
    if manifest.n_layers != manifest.layers.len() as u64 {
        return wrong(format!(
            "n_layers is {}, {} layers are listed",
            manifest.n_layers,
            manifest.layers.len()
        ));
    }
    if manifest.align == 0 {
        return wrong("align is 0".into());
    }
    let mut offsets = HashMap::new();
    for (number, run) in manifest.layers.iter().enumerate() {
        if run.layer != number as u64 {
            return wrong(format!(
                "layer {} stands where layer {number} should",
                run.layer
            ));
        }
        // Subtracted, because a sum could wrap around.
        if run.file_off > len || run.nbytes > len - run.file_off {
            return wrong(format!(
                "layer {number} has {} bytes from byte {}, {BIN} has {len}: it was cut, or it is another pack's",
                run.nbytes, run.file_off
            ));
        }
        let prefix = names::in_layer(number, "");
        for (name, part) in &run.tensors.0 {
            if part.off > run.nbytes || part.nbytes > run.nbytes - part.off {
                return wrong(format!(
                    "{name} has {} bytes from byte {} of a layer of {}",
                    part.nbytes, part.off, run.nbytes
                ));
            }
            if !name.starts_with(&prefix) {
                return wrong(format!("{name} stands in layer {number}"));
            }
            agree(
                &path,
                checkpoint,
                (name, &part.dtype, &part.shape, part.nbytes),
            )?;
            offsets.insert(name.clone(), run.file_off + part.off);
        }
        recognise(bin.as_ref(), &path, checkpoint, number, &offsets)?;
    }
    Ok(offsets)
}

/// Such a manifest does not say which checkpoint it is of, and a tuned model has the same shapes: so one small vector a
/// layer is compared with the shards.
fn recognise(
    bin: &dyn ReadAt,
    manifest: &Path,
    checkpoint: &Checkpoint,
    layer: usize,
    offsets: &HashMap<String, u64>,
) -> Result<(), Error> {
    let name = names::in_layer(layer, names::INPUT_NORM);
    let Some(&offset) = offsets.get(&name) else {
        let problem = format!("{name} is missing");
        return Err(Error::pack(manifest, problem));
    };
    let tensor = checkpoint.tensor(&name)?;
    let packed = files::read(bin, offset, tensor.bytes as usize)?;
    let mut original = vec![0; packed.len()];
    checkpoint.read(tensor.shard, tensor.offset, &mut original)?;
    if packed == original {
        return Ok(());
    }
    let problem = format!(
        "{name} is not what {} has: it is the pack of another model, or damaged",
        checkpoint.dir().display()
    );
    Err(Error::pack(bin.path(), problem))
}
