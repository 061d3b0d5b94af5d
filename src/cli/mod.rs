//! cli

pub mod synth;
