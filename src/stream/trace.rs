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
    /// Experts in the order of requests, with rank and place in the chunk. An expert stands here as often as it was
    /// asked for.
    pub wanted: Vec<Wanted>,
}

impl Call {
    /// The same experts, each once as it was wanted last, in the order of their first request: what the engine asks
    /// for when it computes a chunk of tokens at once.
    pub fn union(&self) -> Self {
        let mut union: Vec<Wanted> = Vec::new();
        for &wanted in &self.wanted {
            match union.iter_mut().find(|w| w.expert == wanted.expert) {
                Some(known) => *known = wanted,
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
                call.wanted.push(Wanted {
                    expert,
                    rank: 0,
                    ago: 0,
                });
            }
        }
        let calls = || steps.iter().flatten();
        let width = calls().map(|call| call.wanted.len()).fold(0, divisor);
        for call in steps.iter_mut().flatten() {
            let tokens = call.wanted.len() / width;
            for (at, wanted) in call.wanted.iter_mut().enumerate() {
                wanted.rank = at % width;
                wanted.ago = tokens - 1 - at / width;
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
                let mut pairs = old.wanted.iter().zip(&new.wanted);
                if pairs.any(|(old, new)| old.expert != new.expert) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(i32, i32)]) -> Result<Trace, TraceError> {
        let bytes: Vec<u8> = pairs
            .iter()
            .flat_map(|(layer, expert)| [layer.to_le_bytes(), expert.to_le_bytes()])
            .flatten()
            .collect();
        Trace::parse(Path::new("a.bin"), &bytes)
    }

    fn call(layer: usize, wanted: &[(usize, usize, usize)]) -> Call {
        let wanted = wanted
            .iter()
            .map(|&(expert, rank, ago)| Wanted { expert, rank, ago })
            .collect();
        Call { layer, wanted }
    }

    /// Passes over two layers that choose two experts a position.
    fn passes(positions: &[&[(i32, i32)]]) -> Vec<(i32, i32)> {
        let mut pairs = Vec::new();
        for pass in positions {
            for layer in [1, 2] {
                for &(a, b) in *pass {
                    pairs.extend([(layer, a), (layer, b + layer)]);
                }
            }
        }
        pairs
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.bin");
        let mut writer = TraceWriter::create(&path).unwrap();
        for (layer, experts) in [(1, [4, 895]), (1, [895, 0]), (92, [7, 8]), (1, [1, 2])] {
            writer.record(layer, &experts).unwrap();
        }
        writer.finish().unwrap();
        let trace = Trace::load(&path).unwrap();
        let first = vec![
            call(1, &[(4, 0, 1), (895, 1, 1), (895, 0, 0), (0, 1, 0)]),
            call(92, &[(7, 0, 0), (8, 1, 0)]),
        ];
        let second = vec![call(1, &[(1, 0, 0), (2, 1, 0)])];
        assert_eq!(trace.steps(), [first.clone(), second]);
        assert_eq!(
            first[0].union(),
            call(1, &[(4, 0, 1), (895, 0, 0), (0, 1, 0)]),
            "each once, as the last token chose it"
        );
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none").join("t.bin");
        for message in [
            Trace::load(&path).unwrap_err().to_string(),
            TraceWriter::create(&path).unwrap_err().to_string(),
        ] {
            assert!(message.contains("t.bin: cannot "), "{message}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for length in [0, 4, 12] {
            let message = Trace::parse(Path::new("a.bin"), &vec![0; length]).unwrap_err();
            let want = format!("a.bin: {length} bytes are no trace");
            assert!(message.to_string().starts_with(&want), "{message}");
        }
        for wrong in [(93, 0), (-1, 0), (0, 896), (5, -7)] {
            let message = parse(&[(0, 0), wrong]).unwrap_err().to_string();
            assert!(message.contains("request 1 is for expert"), "{message}");
        }
        assert!(parse(&[(92, 895)]).is_ok());
    }

    #[test]
    fn decode_steps_are_cut_out_of_a_recomputing_trace() {
        let trace = parse(&passes(&[
            &[(1, 2), (3, 1)],
            &[(1, 2), (3, 1), (5, 6)],
            &[(1, 2), (3, 1), (5, 6), (7, 8)],
        ]));
        let steps = trace.unwrap().decode_steps().unwrap();
        let prefill = [
            call(1, &[(1, 0, 1), (3, 0, 0), (2, 1, 0)]),
            call(2, &[(1, 0, 1), (4, 1, 1), (3, 0, 0), (3, 1, 0)]),
        ];
        assert_eq!(steps[0][0], prefill[0]);
        assert_eq!(steps[0][1], prefill[1].union());
        assert_eq!(
            steps[1],
            [
                call(1, &[(5, 0, 0), (7, 1, 0)]),
                call(2, &[(5, 0, 0), (8, 1, 0)])
            ]
        );
        assert_eq!(
            steps[2],
            [
                call(1, &[(7, 0, 0), (9, 1, 0)]),
                call(2, &[(7, 0, 0), (10, 1, 0)])
            ]
        );
    }

    #[test]
    fn a_trace_that_does_not_recompute_has_nothing_to_cut() {
        let three: &[(i32, i32)] = &[(1, 2), (3, 1), (5, 6)];
        let cases = [
            (passes(&[three]), "a single pass"),
            (passes(&[three, &[(7, 8)]]), "pass 1 makes 2 requests"),
            (passes(&[&three[..1], three]), "pass 1 makes 6 requests"),
            (
                passes(&[&three[..2], &[(1, 2), (4, 1), (5, 6)]]),
                "pass 1 routes earlier positions otherwise in layer 1",
            ),
            (
                [passes(&[&three[..2]]), vec![(1, 1), (1, 2)]].concat(),
                "pass 1 goes through 1 layers",
            ),
            (
                vec![(1, 1), (1, 2), (2, 3), (1, 1), (1, 2)],
                "pass 0 makes 1 requests to layer 2 and 2 to layer 1",
            ),
        ];
        for (pairs, why) in cases {
            let message = parse(&pairs).unwrap().decode_steps().unwrap_err();
            let message = message.to_string();
            assert!(message.contains(why), "{message}");
            assert!(message.ends_with("without --decode"), "{message}");
        }
    }
}
