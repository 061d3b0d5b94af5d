//! Telemetry as C has it: plain numbers.

use crate::engine::Telemetry;

/// What is going on. A rate or share that is not known is NaN; a count that is not known is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct K3Telemetry {
    /// Trunk bytes read a second over the last second, in GB/s.
    pub trunk_gb_per_s: f64,
    /// Expert bytes read a second over the last second, in GB/s.
    pub expert_gb_per_s: f64,
    /// Share of the requested expert bytes that did not have to be read, 0 to 1.
    pub expert_retained: f64,
    /// Tokens a minute over the running or the last answer.
    pub tokens_per_minute: f64,
    /// Trunk bytes read since the model was opened.
    pub trunk_bytes_read: u64,
    /// Expert bytes read since the model was opened.
    pub expert_bytes_read: u64,
    /// Experts that could not be read.
    pub drops: u64,
    /// Resident bytes of the process.
    pub resident_bytes: u64,
    /// The peak that the memory plan predicts.
    pub planned_bytes: u64,
    /// Positions in use.
    pub positions: usize,
    /// Positions planned.
    pub context: usize,
    /// Layers of the running pass that are through.
    pub layer: usize,
    /// Layers of a pass.
    pub layers: usize,
    /// Slots of the ring with a read in flight.
    pub ring_in_flight: usize,
    /// Slots of the ring; 0 where the trunk is wholly in memory.
    pub ring_slots: usize,
}

impl K3Telemetry {
    pub(super) fn of(telemetry: &Telemetry) -> Self {
        let rate = |rate: Option<f64>| rate.unwrap_or(f64::NAN);
        let (layer, layers) = telemetry.layer.unwrap_or((0, telemetry.layers.len()));
        let (ring_in_flight, ring_slots) = telemetry.in_flight().unwrap_or_default();
        Self {
            trunk_gb_per_s: rate(telemetry.trunk.second),
            expert_gb_per_s: rate(telemetry.experts.second),
            expert_retained: rate(telemetry.retained()),
            tokens_per_minute: rate(telemetry.tokens_per_minute),
            trunk_bytes_read: telemetry.trunk_bytes.map_or(0, |bytes| bytes.read),
            expert_bytes_read: telemetry.expert_figures.map_or(0, |figures| figures.read.1),
            drops: telemetry.drops,
            resident_bytes: telemetry.rss_bytes.unwrap_or(0),
            planned_bytes: telemetry.planned_bytes.unwrap_or(0),
            positions: telemetry.positions.0,
            context: telemetry.positions.1,
            layer,
            layers,
            ring_in_flight,
            ring_slots,
        }
    }
}
