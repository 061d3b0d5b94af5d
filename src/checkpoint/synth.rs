//! Writes synthetic checkpoints in the layout of the release, values seeded, from a configuration alone. For tests
//! and for trying out a machine; such a model says nothing sensible.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use super::Error;
use super::config::Config;
use super::header::{Dtype, PREFIX};
use super::index_file::INDEX_FILE;
use super::layout::{self, ExpertLayout};
use super::names::{self, ExpertPart};
use super::shards::EXTENSION;
use super::synth_config;
use super::synth_values::{Fill, Values};
use crate::system;

/// Bytes made and written at a time; a multiple of 8.
const CHUNK: usize = 1 << 20;
/// What file systems hand out at least.
const BLOCK: u64 = 4096;
/// Tensors beside the text model in the release. Their stand-ins are small; only their number and names are kept.
const PROJECTOR_TENSORS: usize = 6;
const VISION_TENSORS: usize = 162;

/// What to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct SynthOptions {
    /// Keep the first so many layers only.
    pub layers: Option<usize>,
    /// Keep so many routed experts a layer only.
    pub experts: Option<usize>,
    /// Values follow from it and from each tensor's name, from nothing else.
    pub seed: u64,
    /// Leave holes in place of the data: the files have their full length but hardly take space. All weights read
    /// as zero.
    pub sparse: bool,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynthReport {
    /// Safetensors files.
    pub shards: usize,
    /// Tensors in them.
    pub tensors: u64,
    /// Sum of the lengths of all files.
    pub bytes: u64,
    /// Space that the files were reckoned to take.
    pub allocated: u64,
}

/// Writes a checkpoint to the folder `out`, which is made when it is not there. `config_json` is the text of a
/// `config.json`; it is written along, unchanged unless layers or experts are cut. The shards come first and
/// `config.json` last, each under a temporary name until it is whole.
///
/// # Errors
/// [`Error::Config`] when the text is refused, [`Error::Synth`] when the options do not fit it, the folder holds
/// another model or the disk is too full, [`Error::Io`] when writing fails.
pub fn write(out: &Path, config_json: &[u8], options: SynthOptions) -> Result<SynthReport, Error> {
    let config_path = out.join("config.json");
    let full = Config::parse(config_json, &config_path)?;
    let config_json = synth_config::cut(config_json, &full, options.layers, options.experts)
        .map_err(|problem| Error::synth(out, problem))?;
    let config = Config::parse(&config_json, &config_path)?;
    if config.dense_layers < config.layers()
        && let Some(problem) = layout::mxfp4_problem(&config.moe)
    {
        return Err(Error::synth(out, format!("cannot be written: {problem}")));
    }

    fs::create_dir_all(out).map_err(|source| Error::io(out, "make the folder", source))?;
    refuse_other_model(out, &config_path, &config_json)?;
    let plan = Plan::new(&config);
    let report = plan.reckon(config_json.len() as u64, options.sparse);
    refuse_full_disk(out, report.allocated)?;

    for shard in 0..plan.shards {
        let tensors = plan.tensors(shard);
        write_file(out, &plan.file_name(shard), |file| {
            write_shard(file, &tensors, options)
        })?;
    }
    write_file(out, INDEX_FILE, |file| plan.write_index(file))?;
    write_file(out, "config.json", |file| file.write_all(&config_json))?;
    Ok(report)
}

/// A tensor that is to be written.
struct Planned {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    fill: Fill,
}

impl Planned {
    fn bytes(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product::<u64>() * self.dtype.size()
    }
}

/// Which tensors stand in which shard: one shard a layer, one for what is outside the layers, and two beside the text
/// model when there is a `vision_config`.
struct Plan<'c> {
    config: &'c Config,
    experts: ExpertLayout,
    shards: usize,
}

impl<'c> Plan<'c> {
    fn new(config: &'c Config) -> Plan<'c> {
        let shards = config.layers() + if config.vision { 3 } else { 1 };
        Plan {
            config,
            experts: ExpertLayout::new(&config.moe),
            shards,
        }
    }

    /// Five digits and six, as in the release.
    fn file_name(&self, shard: usize) -> String {
        format!("model-{:05}-of-{:06}{EXTENSION}", shard + 1, self.shards)
    }

    /// The tensors of a shard, in the order of the file.
    fn tensors(&self, shard: usize) -> Vec<Planned> {
        let layers = self.config.layers();
        let planned = |entry: layout::Entry| Planned {
            fill: Fill::of(&entry, self.config),
            name: entry.name,
            shape: entry.shape,
            dtype: entry.dtype,
        };
        if shard > layers {
            let (name, count) = match shard - layers {
                1 => ("mm_projector", PROJECTOR_TENSORS),
                _ => ("vision_tower", VISION_TENSORS),
            };
            return (0..count).map(|number| stand_in(name, number)).collect();
        }
        if shard == layers {
            return layout::outside_layers(self.config)
                .into_iter()
                .map(planned)
                .collect();
        }
        let mut tensors: Vec<Planned> = layout::layer(self.config, shard)
            .into_iter()
            .map(planned)
            .collect();
        if !self.config.is_dense(shard) {
            for expert in 0..self.config.moe.experts {
                tensors.extend(ExpertPart::ALL.map(|part| self.expert(shard, expert, part)));
            }
        }
        tensors
    }

    fn expert(&self, layer: usize, expert: usize, part: ExpertPart) -> Planned {
        let place = self.experts.part(part);
        Planned {
            name: names::expert(layer, expert, part),
            shape: vec![place.rows, place.cols],
            dtype: Dtype::U8,
            fill: Fill::of_expert(part, &self.config.moe),
        }
    }

    /// What will be written, and the space it will take.
    fn reckon(&self, config_len: u64, sparse: bool) -> SynthReport {
        let (mut count, mut bytes, mut allocated) =
            (0, config_len, config_len.next_multiple_of(BLOCK));
        for shard in 0..self.shards {
            let tensors = self.tensors(shard);
            let header = PREFIX + header(&tensors).len() as u64;
            let data: u64 = tensors.iter().map(Planned::bytes).sum();
            count += tensors.len() as u64;
            bytes += header + data;
            allocated += if sparse { header } else { header + data }.next_multiple_of(BLOCK);
        }
        let mut index = Counter(0);
        // Counting cannot fail.
        let _ = self.write_index(&mut index);
        bytes += index.0;
        allocated += index.0.next_multiple_of(BLOCK);
        SynthReport {
            shards: self.shards,
            tensors: count,
            bytes,
            allocated,
        }
    }

    fn write_index(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut total = 0;
        out.write_all(b"{\"weight_map\":{")?;
        let mut separator = "";
        for shard in 0..self.shards {
            let file = self.file_name(shard);
            for tensor in self.tensors(shard) {
                write!(out, "{separator}\n\"{}\":\"{file}\"", tensor.name)?;
                separator = ",";
                total += tensor.bytes();
            }
        }
        write!(out, "\n}},\"metadata\":{{\"total_size\":{total}}}}}\n")
    }
}

/// A small tensor in place of one that the text model does not use.
fn stand_in(name: &str, number: usize) -> Planned {
    Planned {
        name: format!("{name}.stand_in.{number}.weight"),
        shape: vec![8, 8],
        dtype: Dtype::Bf16,
        fill: Fill::Uniform {
            centre: 0.0,
            half: 0.1,
        },
    }
}

/// The header of a shard, padded with spaces so that the data begins at a multiple of 8. Names need no escapes.
fn header(tensors: &[Planned]) -> Vec<u8> {
    let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
    let mut start = 0;
    for tensor in tensors {
        let end = start + tensor.bytes();
        let shape = tensor
            .shape
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(",");
        header.push_str(&format!(
            ",\"{}\":{{\"dtype\":\"{}\",\"shape\":[{shape}],\"data_offsets\":[{start},{end}]}}",
            tensor.name, tensor.dtype
        ));
        start = end;
    }
    header.push('}');
    let padded = header.len().next_multiple_of(8);
    let mut header = header.into_bytes();
    header.resize(padded, b' ');
    header
}

fn write_shard(
    file: &mut BufWriter<File>,
    tensors: &[Planned],
    options: SynthOptions,
) -> std::io::Result<()> {
    let header = header(tensors);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    if options.sparse {
        file.flush()?;
        let data: u64 = tensors.iter().map(Planned::bytes).sum();
        return file.get_ref().set_len(PREFIX + header.len() as u64 + data);
    }
    let mut chunk = vec![0; CHUNK];
    for tensor in tensors {
        let values = Values::new(&tensor.name, options.seed, tensor.dtype, tensor.fill);
        let bytes = tensor.bytes();
        let mut done = 0;
        while done < bytes {
            let part = &mut chunk[..(bytes - done).min(CHUNK as u64) as usize];
            values.write(done, part);
            file.write_all(part)?;
            done += part.len() as u64;
        }
    }
    Ok(())
}

/// Writes a file under a temporary name and renames it when it is whole; what fails leaves nothing behind.
fn write_file(
    out: &Path,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let (partial, path) = (out.join(format!("{name}.partial")), out.join(name));
    let written = File::create(&partial)
        .and_then(|file| {
            let mut file = BufWriter::with_capacity(1 << 16, file);
            fill(&mut file)?;
            file.flush()
        })
        .and_then(|()| fs::rename(&partial, &path));
    written.map_err(|source| {
        // The first error is the one that matters.
        let _ = fs::remove_file(&partial);
        Error::io(&path, "write", source)
    })
}

fn refuse_other_model(out: &Path, config_path: &Path, config_json: &[u8]) -> Result<(), Error> {
    let list = |source| Error::io(out, "list the folder", source);
    for item in fs::read_dir(out).map_err(list)? {
        let name = item.map_err(list)?.file_name();
        if name.as_encoded_bytes().ends_with(EXTENSION.as_bytes()) {
            let problem = format!("holds {} already; give an empty folder", name.display());
            return Err(Error::synth(out, problem));
        }
    }
    match fs::read(config_path) {
        Ok(there) if there != config_json => Err(Error::synth(
            out,
            "holds another config.json already; give an empty folder",
        )),
        _ => Ok(()),
    }
}

fn refuse_full_disk(out: &Path, need: u64) -> Result<(), Error> {
    let Some(have) = system::free(out).filter(|have| need > *have) else {
        return Ok(());
    };
    let problem = format!(
        "the disk is too full: {:.2} GB needed, {:.2} GB free; give another folder, or fewer layers or experts",
        need as f64 / 1e9,
        have as f64 / 1e9
    );
    Err(Error::synth(out, problem))
}

/// Counts what is written to it.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
