//! The machine without its drives: processor, memory with every limit on it, and how fast weights go through it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::machine::{load, processor};
use crate::cli::plan_report::limit_name;
use crate::cli::say;
use crate::kernels::Isa;
use crate::model::Compute;
use crate::model::measure::{TokenRates, token_rates};
use crate::stream::{ControlGroup, Limit, Machine};
use crate::system;

/// What was found out about the machine.
#[derive(Debug, Serialize)]
pub(super) struct Host {
    pub processor: Option<String>,
    /// Those that this process may use.
    pub cores: usize,
    pub features: BTreeMap<&'static str, bool>,
    /// Tasks that wanted a processor in the last minute.
    pub load: Option<f64>,
    /// What kernels run with.
    pub instruction_set: &'static str,
    pub memory_bytes: Option<u64>,
    pub available_bytes: Option<u64>,
    pub swap_free_bytes: Option<u64>,
    pub control_groups: Vec<Group>,
    /// What a plan may take, by the tightest of all limits.
    pub usable_bytes: Option<u64>,
    pub limited_by: &'static str,
    /// None where it could not be measured.
    pub memory_bytes_per_s: Option<f64>,
    pub bf16_bytes_per_s: Option<f64>,
    pub mxfp4_bytes_per_s: Option<f64>,
    /// None where an account of the system is garbled.
    #[serde(skip)]
    pub machine: Option<Machine>,
}

/// A control group with a limit.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    pub folder: String,
    pub limit_bytes: u64,
    pub used_bytes: u64,
}

impl From<ControlGroup> for Group {
    fn from(group: ControlGroup) -> Self {
        Self {
            folder: group.path.display().to_string(),
            limit_bytes: group.limit,
            used_bytes: group.usage,
        }
    }
}

/// Memory is measured with a part of what may be used, as large as this where there is room.
const LARGEST: u64 = 512 << 20;
/// With less, caches would be measured.
const SMALLEST: u64 = 64 << 20;
/// More tasks than this for each core disturb what is measured.
const BUSY: f64 = 0.5;
/// The part of what may be used.
const PART: u64 = 8;

impl Host {
    /// Reads the system's accounts; to measure takes a second or two.
    pub(super) fn look(measure: bool, warnings: &mut Vec<String>) -> Self {
        let machine = match Machine::detect() {
            Ok(machine) => Some(machine),
            Err(error) => {
                warnings.push(error.to_string());
                None
            }
        };
        // What is garbled was said.
        let groups = Machine::groups().unwrap_or_default();
        let usable = machine.as_ref().and_then(Machine::available);
        let (usable, limit) = usable.unzip();
        let memory = machine.as_ref().and_then(|machine| machine.memory);
        if machine.is_some() && memory.is_none() {
            warnings.push("the memory of this machine cannot be found out here".into());
        }
        let isa = Isa::detect();
        if isa == Isa::portable() && cfg!(target_arch = "x86_64") {
            warnings.push(
                "this processor has no AVX2 with FMA: kernels run without, many times slower"
                    .into(),
            );
        }
        let load = load();
        if let Some(load) = load.filter(|load| measure && *load > BUSY * system::cores() as f64) {
            warnings.push(format!(
                "other work was running (load {load:.1}): machine and drives give more than was measured"
            ));
        }
        let rates = match measure {
            true => rates(isa, usable, warnings),
            false => None,
        };
        Self {
            processor: processor(),
            cores: system::cores(),
            features: Isa::features().into_iter().collect(),
            load,
            instruction_set: isa.name(),
            memory_bytes: memory.map(|memory| memory.total),
            available_bytes: memory.map(|memory| memory.available),
            swap_free_bytes: memory.map(|memory| memory.swap),
            control_groups: groups.into_iter().map(Group::from).collect(),
            usable_bytes: usable,
            limited_by: limit_name(&limit.unwrap_or(Limit::Unknown)),
            memory_bytes_per_s: rates.map(|rates| rates.memory),
            bf16_bytes_per_s: rates.map(|rates| rates.bf16),
            mxfp4_bytes_per_s: rates.map(|rates| rates.mxfp4),
            machine,
        }
    }

    /// The rates that weights are computed at, if they were measured.
    pub(super) fn rates(&self) -> Option<TokenRates> {
        Some(TokenRates {
            memory: self.memory_bytes_per_s?,
            bf16: self.bf16_bytes_per_s?,
            mxfp4: self.mxfp4_bytes_per_s?,
        })
    }
}

fn rates(isa: Isa, usable: Option<u64>, warnings: &mut Vec<String>) -> Option<TokenRates> {
    let bytes = usable.map_or(SMALLEST, |usable| LARGEST.min(usable / PART));
    if bytes < SMALLEST {
        warnings.push("there is too little memory to measure how fast it is".into());
        return None;
    }
    say!("k3: measuring memory and kernels");
    let rates = Compute::new(system::cores(), isa)
        .and_then(|compute| token_rates(&compute, bytes as usize));
    match rates {
        Ok(rates) => Some(rates),
        Err(error) => {
            warnings.push(format!("memory and kernels were not measured: {error}"));
            None
        }
    }
}
