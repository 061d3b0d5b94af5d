//! Traces of expert requests, read and replayed.

use std::fs;

use k3::stream::simulate::{Replacement, replay};
use k3::stream::trace::Trace;

use crate::harness::{Format, campaign};
use crate::support::draw::XorShift;

/// Passes of two layers, four experts each, every pass with a position more than the one before.
fn trace(passes: usize) -> Vec<u8> {
    let mut draw = XorShift::new(3);
    let chosen: Vec<[u32; 4]> = (0..2 * (passes + 1))
        .map(|_| [0; 4].map(|_| draw.below(896) as u32))
        .collect();
    let mut bytes = Vec::new();
    for pass in 1..=passes {
        for layer in 0..2_u32 {
            for position in 0..=pass {
                for expert in chosen[2 * position + layer as usize] {
                    bytes.extend((layer + 1).to_le_bytes());
                    bytes.extend(expert.to_le_bytes());
                }
            }
        }
    }
    bytes
}

#[test]
fn changed_traces_end_in_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.trace");
    campaign(Format {
        name: "trace",
        file: Some("a.trace".to_owned()),
        good: vec![trace(1), trace(5)],
        words: &["\0\0\0\0\u{1}\0\0\0", "\u{5c}\0\0\0"],
        // Every request may be a pass of its own.
        memory: (64, 32 << 10),
        read: Box::new(|bytes| {
            fs::write(&path, bytes).unwrap();
            let trace = Trace::load(&path).map_err(|e| e.to_string())?;
            let requests: usize = trace.steps().iter().flatten().map(|c| c.wanted.len()).sum();
            assert_eq!(requests * 8, bytes.len());
            // A refusal to cut out decode steps is one line as well.
            trace
                .decode_steps()
                .map(|_| ())
                .or_else(|e| match e.to_string() {
                    why if why.contains('\n') => Err(why),
                    _ => Ok(()),
                })
        }),
    });
    // What can be loaded can be replayed.
    fs::write(&path, trace(5)).unwrap();
    let steps = Trace::load(&path).unwrap().decode_steps().unwrap();
    assert_eq!(replay(&steps, Replacement::Ours, 16).len(), steps.len());
}
