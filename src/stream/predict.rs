//! How long a token takes, and what it waits for: a plan's bytes over the rates of a machine. Arithmetic only; the rates
//! are measured elsewhere.

use serde::Serialize;

use super::{Plan, Shape};

/// Rates of a machine, in bytes a second, each above zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speeds {
    /// Segments of the trunk, from the drive that they are on.
    pub trunk: f64,
    /// Experts, from the drive that they are on.
    pub experts: f64,
    /// Whether the two are on different drives, so that they are read at the same time.
    pub two_drives: bool,
    /// What all threads together read of memory.
    pub memory: f64,
    /// bf16 weights that all threads together multiply by one token.
    pub bf16: f64,
    /// MXFP4 weights likewise.
    pub mxfp4: f64,
}

/// What a token waits for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The one drive that everything is on.
    Drive,
    /// The drive of the trunk.
    TrunkDrive,
    /// The drive of the experts.
    ExpertDrive,
    /// Memory: weights pass through the processor as fast as it gives them.
    Memory,
    /// The processor: memory would give more.
    Processor,
}

/// A token's time, and what it is made of, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// From one token to the next.
    pub seconds_per_token: f64,
    /// Reading the streamed part of the trunk.
    pub trunk_seconds: f64,
    /// Reading experts when none is retained.
    pub expert_seconds: f64,
    /// Both, as they can go on at the same time or not.
    pub drive_seconds: f64,
    /// Computing, as fast as memory gives the weights.
    pub memory_seconds: f64,
    /// Computing, as fast as the kernels go.
    pub compute_seconds: f64,
    /// What it waits for most.
    pub limit: Binding,
}

/// Kernels that reach this share of what memory gives are held back by memory.
const BY_MEMORY: f64 = 0.8;

/// The time of a token under a plan. Reading and computing overlap, so the longer of the two counts; experts that are
/// retained are not foreseen, so with a large cache it is less.
pub fn predict(plan: &Plan, shape: &Shape, speeds: &Speeds) -> Prediction {
    let moved = &plan.per_token;
    let trunk = moved.trunk_read as f64 / speeds.trunk;
    let experts = moved.experts_read as f64 / speeds.experts;
    let drive = match speeds.two_drives {
        true => trunk.max(experts),
        false => trunk + experts,
    };
    let attention = moved.attention as f64 / speeds.memory;
    let memory = moved.weights as f64 / speeds.memory + attention;
    let expert_weights = (shape.experts_per_token() * shape.expert) as f64;
    let trunk_weights = moved.weights as f64 - expert_weights;
    let compute = trunk_weights / speeds.bf16 + expert_weights / speeds.mxfp4 + attention;
    let limit = match drive >= compute {
        true if !speeds.two_drives => Binding::Drive,
        true if trunk >= experts => Binding::TrunkDrive,
        true => Binding::ExpertDrive,
        false if memory >= BY_MEMORY * compute => Binding::Memory,
        false => Binding::Processor,
    };
    Prediction {
        seconds_per_token: drive.max(compute),
        trunk_seconds: trunk,
        expert_seconds: experts,
        drive_seconds: drive,
        memory_seconds: memory,
        compute_seconds: compute,
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Activations, Machine, Preset, Request, plan};

    /// A plan of what the release moves: 111.2 GB of trunk and head, 1,472 experts a token.
    fn released(preset: Preset) -> (Plan, Shape) {
        let shape = Shape {
            segments: vec![31_000_000; 3586],
            runs: 1,
            vectors: 53_000_000,
            index: 2_000_000,
            expert: 17_547_264,
            experts: 82_432,
            expert_layers: 92,
            top_k: 16,
            state: 464_600_000,
            kv_per_position: 55_296,
            attention_per_position: 5_000_000,
            activations: Activations::default(),
            chunk: 64,
        };
        let request = Request {
            preset,
            trunk: None,
            cache: None,
            ring: None,
            context: 1,
            threads: 2,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        };
        // Of a machine that says nothing, everything is allowed.
        (plan(&shape, &request, &Machine::default()).unwrap(), shape)
    }

    const SPEEDS: Speeds = Speeds {
        trunk: 3e9,
        experts: 3e9,
        two_drives: false,
        memory: 20e9,
        bf16: 18e9,
        mxfp4: 15e9,
    };

    /// 111.2 GB and 25.83 GB of experts at 3 GB/s.
    #[test]
    fn one_drive_reads_trunk_and_experts_after_each_other() {
        let (plan, shape) = released(Preset::Ultra);
        let p = predict(&plan, &shape, &SPEEDS);
        assert_eq!(p.limit, Binding::Drive);
        assert!((45.0..46.0).contains(&p.seconds_per_token), "{p:?}");
        assert!((p.drive_seconds - p.trunk_seconds - p.expert_seconds).abs() < 1e-9);
        let twice = Speeds {
            trunk: 6e9,
            experts: 6e9,
            ..SPEEDS
        };
        let q = predict(&plan, &shape, &twice);
        assert!((q.drive_seconds * 2.0 - p.drive_seconds).abs() < 1e-9);
    }

    #[test]
    fn two_drives_read_at_the_same_time_and_the_slower_binds() {
        let (plan, shape) = released(Preset::Ultra);
        let two = Speeds {
            two_drives: true,
            ..SPEEDS
        };
        let p = predict(&plan, &shape, &two);
        assert_eq!(
            (p.limit, p.drive_seconds),
            (Binding::TrunkDrive, p.trunk_seconds)
        );
        let slow = Speeds {
            experts: 0.2e9,
            ..two
        };
        let p = predict(&plan, &shape, &slow);
        assert_eq!(
            (p.limit, p.seconds_per_token),
            (Binding::ExpertDrive, p.expert_seconds)
        );
    }

    #[test]
    fn with_fast_drives_memory_binds_or_else_the_processor() {
        let (plan, shape) = released(Preset::Server);
        let fast = Speeds {
            trunk: 100e9,
            experts: 100e9,
            ..SPEEDS
        };
        let p = predict(&plan, &shape, &fast);
        assert_eq!(plan.per_token.trunk_read, 0);
        assert_eq!(
            (p.limit, p.seconds_per_token),
            (Binding::Memory, p.compute_seconds)
        );
        let slow = Speeds { mxfp4: 1e9, ..fast };
        assert_eq!(predict(&plan, &shape, &slow).limit, Binding::Processor);
    }
}
