//! Traces of expert requests: their file format, read and written, and the decode steps cut out of a recomputing run.
//! What a cache would make of them is in `simulate.rs`.
//!
//! A trace is pairs of little-endian i32, layer and expert, in the order of requests: pass by pass, layer by layer in
//! ascending order, in each layer token by token, in each token the router's order, best first.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Wanted;

/// Layers of the model that traces come from.
pub const LAYERS: usize = 93;
/// Routed experts of each of its layers.
pub const EXPERTS: usize = 896;

/// A trace that cannot be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{path}: cannot read the trace: {cause}")]
    Read {
        /// The trace.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{path}: cannot write the trace: {cause}")]
    Write {
        /// The trace.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is no trace of this model, or not one that can be used in this way.
    #[error("{path}: {problem}")]
    Unfit {
        /// The trace.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// All requests to one layer in one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The layer.
    pub layer: usize,
    /// Experts and their ranks in the order of requests. An expert stands here as often as it was asked for.
    pub wanted: Vec<Wanted>,
}

impl Call {
    /// The same experts, each once with its best rank, in the order of their first request: what the engine asks for
    /// when it computes a chunk of tokens at once.
    pub fn union(&self) -> Self {
        let mut union: Vec<Wanted> = Vec::new();
        for &wanted in &self.wanted {
            match union.iter_mut().find(|w| w.expert == wanted.expert) {
                Some(known) => known.rank = known.rank.min(wanted.rank),
                None => union.push(wanted),
            }
        }
        Self {
            layer: self.layer,
            wanted: union,
        }
    }
}

/// One pass through the layers.
pub type Step = Vec<Call>;

/// A trace in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    path: PathBuf,
    /// Experts of one token and layer: the greatest common divisor of all calls.
    width: usize,
    steps: Vec<Step>,
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// It cannot be read; it is empty or torn; a layer or an expert is none of the model's.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let bytes = std::fs::read(path).map_err(|cause| TraceError::Read {
            path: path.into(),
            cause,
        })?;
        Self::parse(path, &bytes)
    }

    /// A trace from the bytes of a file; `path` is for messages.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, TraceError> {
        let unfit = |problem| unfit(path, problem);
        let (pairs, rest) = bytes.as_chunks::<8>();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(unfit(format!(
                "{} bytes are no trace, which is one or more pairs of 8 bytes; record it again",
                bytes.len()
            )));
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut last = usize::MAX;
        for (at, &[a, b, c, d, e, f, g, h]) in pairs.iter().enumerate() {
            let layer = i32::from_le_bytes([a, b, c, d]);
            let expert = i32::from_le_bytes([e, f, g, h]);
            let (Some(layer), Some(expert)) = (below(layer, LAYERS), below(expert, EXPERTS)) else {
                return Err(unfit(format!(
                    "request {at} is for expert {expert} of layer {layer}, and there are {LAYERS} layers of {EXPERTS} \
                     experts; this is no trace of the model"
                )));
            };
            if layer != last {
                let call = Call {
                    layer,
                    wanted: Vec::new(),
                };
                match steps.last_mut() {
                    Some(step) if last < layer => step.push(call),
                    _ => steps.push(vec![call]),
                }
                last = layer;
            }
            if let Some(call) = steps.last_mut().and_then(|step| step.last_mut()) {
                call.wanted.push(Wanted { expert, rank: 0 });
            }
        }
        let calls = || steps.iter().flatten();
        let width = calls().map(|call| call.wanted.len()).fold(0, divisor);
        for call in steps.iter_mut().flatten() {
            for (at, wanted) in call.wanted.iter_mut().enumerate() {
                wanted.rank = at % width;
            }
        }
        Ok(Self {
            path: path.into(),
            width,
            steps,
        })
    }

    /// The passes as they were recorded.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What an engine that carries its state would have asked for, from a trace of one that computed every position
    /// anew for each token: the first pass as a prompt, each expert once a layer, then the last position of every
    /// further pass, each as a step.
    ///
    /// # Errors
    /// The passes are not each the one before with one position more, routed alike in all the others.
    pub fn decode_steps(&self) -> Result<Vec<Step>, TraceError> {
        let refuse = |why: String| {
            unfit(
                &self.path,
                format!(
                    "{why}; only the trace of a run that computes all positions anew for each token has decode steps \
                     to cut out. Replay this one without --decode"
                ),
            )
        };
        let (first, rest) = match self.steps.split_first() {
            Some((first, rest)) if !rest.is_empty() => (first, rest),
            _ => return Err(refuse("it holds a single pass".into())),
        };
        let mut positions = first[0].wanted.len();
        if let Some(call) = first.iter().find(|call| call.wanted.len() != positions) {
            return Err(refuse(format!(
                "pass 0 makes {} requests to layer {} and {positions} to layer {}",
                call.wanted.len(),
                call.layer,
                first[0].layer
            )));
        }
        let mut steps = vec![first.iter().map(Call::union).collect()];
        for (pass, (before, step)) in self.steps.iter().zip(rest).enumerate() {
            let pass = pass + 1;
            if step.len() != before.len() {
                return Err(refuse(format!(
                    "pass {pass} goes through {} layers, the one before through {}",
                    step.len(),
                    before.len()
                )));
            }
            let mut decoded = Step::new();
            for (old, new) in before.iter().zip(step) {
                let layer = new.layer;
                if layer != old.layer || new.wanted.len() != positions + self.width {
                    return Err(refuse(format!(
                        "pass {pass} makes {} requests to layer {layer} where {} to layer {} were due",
                        new.wanted.len(),
                        positions + self.width,
                        old.layer
                    )));
                }
                if !new.wanted.starts_with(&old.wanted) {
                    return Err(refuse(format!(
                        "pass {pass} routes earlier positions otherwise in layer {layer} than the pass before"
                    )));
                }
                decoded.push(Call {
                    layer,
                    wanted: new.wanted[positions..].to_vec(),
                });
            }
            positions += self.width;
            steps.push(decoded);
        }
        Ok(steps)
    }
}

/// A number below a limit.
fn below(number: i32, limit: usize) -> Option<usize> {
    usize::try_from(number).ok().filter(|&n| n < limit)
}

/// The greatest common divisor.
fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

fn unfit(path: &Path, problem: String) -> TraceError {
    TraceError::Unfit {
        path: path.into(),
        problem,
    }
}

/// Writes a trace while a model runs.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

impl TraceWriter {
    /// Begins a trace; a file of that name is replaced.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let out = File::create(path).map_err(|cause| TraceError::Write {
            path: path.into(),
            cause,
        })?;
        Ok(Self {
            path: path.into(),
            out: BufWriter::new(out),
        })
    }

    /// Appends the choice of one token in one layer, in the router's order, best first.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn record(&mut self, layer: usize, experts: &[usize]) -> Result<(), TraceError> {
        for &expert in experts {
            for number in [layer, expert] {
                let bytes = (number as i32).to_le_bytes();
                let written = self.out.write_all(&bytes);
                self.checked(written)?;
            }
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Its end cannot be written.
    pub fn finish(mut self) -> Result<(), TraceError> {
        let flushed = self.out.flush();
        self.checked(flushed)
    }

    fn checked(&self, result: std::io::Result<()>) -> Result<(), TraceError> {
        result.map_err(|cause| TraceError::Write {
            path: self.path.clone(),
            cause,
        })
    }
}
