//! Packed trunks of both kinds, written for tests: ours by the library, the C engine's as its packer does.

use std::fs;
use std::io::Write;
use std::path::Path;

use k3::checkpoint::{Checkpoint, layout};
use k3::model::Blueprint;
use k3::stream::Error;
use k3::stream::pack::{self, Packed};
use serde_json::json;

/// Goes on to the end.
pub fn quiet(_: &'static str, _: u64, _: u64) -> bool {
    true
}

/// Writes a pack of ours.
pub fn write(checkpoint: &Checkpoint, out: &Path) -> Result<Packed, Error> {
    let walk = Blueprint::new(checkpoint.config().clone(), usize::MAX).walk;
    pack::write(checkpoint, &walk, out, &mut quiet)
}

/// Writes a pack as the C engine's packer does: every layer one run of whole blocks, unless `rounded` is false as with
/// early packers.
pub fn write_c_engine(checkpoint: &Checkpoint, out: &Path, rounded: bool) {
    let config = checkpoint.config();
    let mut bin = fs::File::create(out.join("trunk.bin")).unwrap();
    let (mut file_off, mut layers) = (0, Vec::new());
    for layer in 0..config.layers() {
        let mut entries: Vec<_> = layout::layer(config, layer)
            .into_iter()
            .map(|entry| {
                let tensor = *checkpoint.tensor(&entry.name).unwrap();
                (tensor.shard, tensor.offset, entry.name, tensor)
            })
            .collect();
        entries.sort_by_key(|(shard, offset, ..)| (*shard, *offset));
        let mut run = Vec::new();
        let mut tensors = serde_json::Map::new();
        for (shard, offset, name, tensor) in entries {
            let off = run.len();
            run.resize(off + tensor.bytes as usize, 0);
            checkpoint.read(shard, offset, &mut run[off..]).unwrap();
            tensors.insert(
                name,
                json!({"off": off, "nbytes": tensor.bytes, "dtype": tensor.dtype.name(),
                       "shape": tensor.dims()}),
            );
        }
        if rounded {
            run.resize(run.len().next_multiple_of(4096), 0);
        }
        bin.write_all(&run).unwrap();
        layers.push(
            json!({"layer": layer, "shard": "model-00001.safetensors", "run_start": 4711,
                           "nbytes": run.len(), "file_off": file_off, "tensors": tensors}),
        );
        file_off += run.len();
    }
    let manifest = json!({"n_layers": layers.len(), "align": 4096, "layers": layers});
    fs::write(out.join("trunk.json"), manifest.to_string()).unwrap();
}
