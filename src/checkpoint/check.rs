//! Whether a checkpoint holds all that its configuration needs, in the shapes and types it needs.

use std::fmt::Write as _;

use super::Error;
use super::index::{Checkpoint, Tensor};
use super::layout::{self, Entry, Kind};
use super::missing;
use super::names;

/// Problems that a message lists; the others are counted.
const LISTED: usize = 32;

impl Checkpoint {
    /// Checks everything that the first `layers` layers need, and what stands outside the layers: every tensor is
    /// there with the very shape and an allowed type, every routed expert has the layout of the configuration, and
    /// the padding of `A_log` is zero. Of the weights only `A_log` is read.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with all problems (the first 32, and the number of the others) and with the reasons for
    /// missing tensors; [`Error::Io`] when `A_log` cannot be read.
    pub fn check(&self, layers: usize) -> Result<(), Error> {
        let mut problems = Problems::default();
        if layers > self.config.layers() {
            problems.push(|| {
                format!(
                    "{layers} layers were asked for, config.json has {}",
                    self.config.layers()
                )
            });
        }
        let layers = layers.min(self.config.layers());
        for entry in layout::trunk(&self.config, layers) {
            match self.find(&entry.name) {
                None => problems.missing(|| entry.name),
                Some(tensor) => self.check_tensor(&entry, tensor, &mut problems)?,
            }
        }
        self.check_experts(layers, &mut problems);
        problems.into_result(self)
    }

    fn check_tensor(
        &self,
        entry: &Entry,
        tensor: &Tensor,
        problems: &mut Problems,
    ) -> Result<(), Error> {
        let Entry {
            name, shape, kind, ..
        } = entry;
        let mut sound = true;
        if tensor.dims() != shape {
            problems.push(|| {
                format!(
                    "{name} has shape {:?}, config.json gives {shape:?}",
                    tensor.dims()
                )
            });
            sound = false;
        }
        if !kind.allows(tensor.dtype) {
            let wanted = if *kind == Kind::Matrix {
                "BF16"
            } else {
                "BF16 or F32"
            };
            problems.push(|| format!("{name} is {}, must be {wanted}", tensor.dtype));
            sound = false;
        }
        // One value a head, padded with zeros to the width of a head. Values in the padding mean that the vector is
        // something else: a rate for every channel, which would run and be wrong.
        let heads = self.config.kda.heads;
        if sound
            && name.ends_with(names::A_LOG)
            && self.vector(name)?[heads..]
                .iter()
                .any(|&value| value != 0.0)
        {
            problems
                .push(|| format!("{name} is not zero after its first {heads} values, one a head"));
        }
        Ok(())
    }

    fn check_experts(&self, layers: usize, problems: &mut Problems) {
        let (first, moe) = (self.config.dense_layers, &self.config.moe);
        if first >= layers {
            return;
        }
        if let Some(problem) = layout::mxfp4_problem(moe) {
            return problems.push(|| problem);
        }
        for layer in first..layers {
            for expert in 0..moe.experts {
                if let Some(part) = self.experts.missing_part(layer, expert) {
                    problems.missing(|| names::expert(layer, expert, part));
                }
            }
        }
        for misfit in self
            .experts
            .misfits()
            .iter()
            .filter(|misfit| misfit.layer < layers)
        {
            let wanted = self.expert_layout().part(misfit.part);
            problems.push(|| {
                format!(
                    "{} is {} {:?}, config.json gives U8 [{}, {}]",
                    names::expert(misfit.layer, misfit.expert, misfit.part),
                    misfit.dtype,
                    misfit.shape.dims(),
                    wanted.rows,
                    wanted.cols
                )
            });
        }
    }
}

/// What was found: the first lines, and how many there are.
#[derive(Default)]
struct Problems {
    lines: Vec<String>,
    count: usize,
    missing: Vec<String>,
}

impl Problems {
    fn push(&mut self, line: impl FnOnce() -> String) {
        if self.count < LISTED {
            self.lines.push(line());
        }
        self.count += 1;
    }

    fn missing(&mut self, name: impl FnOnce() -> String) {
        if self.count < LISTED {
            let name = name();
            self.lines.push(format!("{name} is missing"));
            self.missing.push(name);
        }
        self.count += 1;
    }

    fn into_result(self, checkpoint: &Checkpoint) -> Result<(), Error> {
        if self.count == 0 {
            return Ok(());
        }
        let mut message = "does not hold the model that config.json describes:".to_owned();
        for line in &self.lines {
            // Writing to a String does not fail.
            let _ = write!(message, "\n  {line}");
        }
        if self.count > self.lines.len() {
            let _ = write!(message, "\n  and {} more", self.count - self.lines.len());
        }
        if !self.missing.is_empty() {
            for reason in missing::explain(&checkpoint.shards, &self.missing) {
                let _ = write!(message, "\n{reason}");
            }
        }
        Err(Error::checkpoint(checkpoint.dir(), message))
    }
}
