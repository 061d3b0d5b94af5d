//! A memory plan as people read it and as scripts do. Only the words; the figures are the plan's.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};

use super::budget::rate;
use super::synth::size;
use crate::stream::{Limit, Plan, Shape};

/// Rates that a token's time is predicted with.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct RateArgs {
    /// What the disk reads, in GB/s: an assumption unless measured
    #[arg(long, value_name = "X", default_value_t = DISK, value_parser = rate)]
    disk_gb_per_s: f64,
    /// What the processor reads of memory while it computes, in GB/s: an assumption unless measured
    #[arg(long, value_name = "X", default_value_t = MEMORY, value_parser = rate)]
    memory_gb_per_s: f64,
}

/// What is assumed when nothing was measured, in GB/s.
const DISK: f64 = 3.0;
const MEMORY: f64 = 20.0;

impl Default for RateArgs {
    fn default() -> Self {
        Self {
            disk_gb_per_s: DISK,
            memory_gb_per_s: MEMORY,
        }
    }
}

impl RateArgs {
    pub(super) fn seconds(self, plan: &Plan) -> f64 {
        let (disk, memory) = self.bytes_per_s();
        plan.per_token.seconds(disk, memory)
    }

    /// Of the disk and of memory, in bytes a second.
    pub(super) fn bytes_per_s(self) -> (f64, f64) {
        (self.disk_gb_per_s * 1e9, self.memory_gb_per_s * 1e9)
    }

    /// The rates in words.
    pub(super) fn words(self) -> String {
        format!(
            "{} GB/s from disk and {} GB/s of memory",
            self.disk_gb_per_s, self.memory_gb_per_s
        )
    }
}

/// Every figure of a plan, a line each.
pub(super) fn text(plan: &Plan, shape: &Shape, rates: RateArgs) -> String {
    let mut out = format!(
        "preset {}, {} positions, {} threads\n",
        plan.preset.name(),
        plan.context,
        plan.threads
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<16}{value}");
    };
    for (name, bytes) in plan.parts.named() {
        line(&name.replace('_', " "), size(bytes));
    }
    line("total", size(plan.total()));
    line(
        "may be used",
        format!(
            "{} ({})",
            plan.available.map_or("?".into(), size),
            limit(plan)
        ),
    );
    let pinned = plan.pinned.iter().filter(|pinned| **pinned).count();
    let ring = match plan.ring_slots {
        0 => "no ring".to_owned(),
        slots => format!("ring of {slots} slots of {}", size(shape.ring_slot())),
    };
    line(
        "trunk",
        format!("{pinned} of {} segments pinned, {ring}", plan.pinned.len()),
    );
    line(
        "experts",
        format!("{} of {} fit", plan.expert_slots, shape.experts),
    );
    let read = &plan.per_token;
    line(
        "read a token",
        format!(
            "{}: trunk {}, experts {} when none is retained",
            size(read.read()),
            size(read.trunk_read),
            size(read.experts_read)
        ),
    );
    line(
        "seconds a token",
        format!("{:.3} at {}", rates.seconds(plan), rates.words()),
    );
    out
}

/// Every figure of a plan as one JSON object.
pub(super) fn json(plan: &Plan, shape: &Shape, rates: RateArgs) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        object.insert(name.to_owned(), value);
    };
    put("preset", plan.preset.name().into());
    put("context", plan.context.into());
    put("threads", plan.threads.into());
    for (name, bytes) in plan.parts.named() {
        put(&format!("{name}_bytes"), bytes.into());
    }
    put("kv_bytes_per_position", plan.kv_per_position.into());
    put("total_bytes", plan.total().into());
    put("available_bytes", plan.available.into());
    put("limited_by", limit_name(&plan.limited_by).into());
    let group = match &plan.limited_by {
        Limit::ControlGroup(path) => json!(path.display().to_string()),
        _ => Value::Null,
    };
    put("control_group", group);
    put("ring_slots", plan.ring_slots.into());
    put("ring_slot_bytes", shape.ring_slot().into());
    put("segments", plan.pinned.len().into());
    let pinned = plan.pinned.iter().filter(|pinned| **pinned).count();
    put("segments_pinned", pinned.into());
    put("expert_slots", plan.expert_slots.into());
    put("expert_slot_bytes", shape.expert_stride().into());
    put(
        "trunk_read_bytes_per_token",
        plan.per_token.trunk_read.into(),
    );
    put(
        "experts_read_bytes_per_token",
        plan.per_token.experts_read.into(),
    );
    put("read_bytes_per_token", plan.per_token.read().into());
    put("disk_gb_per_s", rates.disk_gb_per_s.into());
    put("memory_gb_per_s", rates.memory_gb_per_s.into());
    put("seconds_per_token", rates.seconds(plan).into());
    put("notices", plan.notices.clone().into());
    object
}

/// What holds a plan back, in a word.
pub(super) fn limit_name(limit: &Limit) -> &'static str {
    match limit {
        Limit::Memory => "memory",
        Limit::ControlGroup(_) => "control group",
        Limit::Unknown => "unknown",
    }
}

/// What holds a plan back, in words.
pub(super) fn limit(plan: &Plan) -> String {
    match &plan.limited_by {
        Limit::Memory => "what the system says is available".into(),
        Limit::ControlGroup(path) => format!("the limit of control group {}", path.display()),
        Limit::Unknown => "it could not be found out".into(),
    }
}
