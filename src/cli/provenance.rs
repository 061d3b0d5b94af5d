//! Where and when a figure was measured, so that a report can be passed on: program, date, system and processor. It names
//! no person and no host.

use serde::Serialize;

use super::machine;
use super::synth::size;
use crate::kernels::Isa;
use crate::stream::Machine;

/// What stands above every report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Provenance {
    /// Name and version.
    program: String,
    /// UTC, to the second.
    date: String,
    /// Operating system, its version, and the architecture.
    system: String,
    processor: Option<String>,
    /// Those that this process may use.
    cores: usize,
    /// What kernels run with.
    instruction_set: &'static str,
    /// All of the machine's, or of the control group's limit.
    memory_bytes: Option<u64>,
}

impl Provenance {
    /// Of this moment.
    pub(super) fn now() -> Self {
        Self {
            program: concat!("k3 ", env!("CARGO_PKG_VERSION")).into(),
            date: crate::chat::now(),
            system: machine::system(),
            processor: machine::processor(),
            cores: crate::system::cores(),
            instruction_set: Isa::detect().name(),
            // What cannot be understood is not known here; commands that need it say so.
            memory_bytes: Machine::detect().ok().and_then(|machine| machine.total()),
        }
    }

    /// Two lines.
    pub(super) fn text(&self) -> String {
        format!(
            "{}, {}, {}\n{}, {} cores, {}, {} of memory\n",
            self.program,
            self.date,
            self.system,
            self.processor.as_deref().unwrap_or("processor not known"),
            self.cores,
            self.instruction_set,
            self.memory_bytes.map_or("? GB".into(), size),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_say_program_date_and_machine() {
        let made = Provenance::now();
        let (text, json) = (made.text(), serde_json::to_value(&made).unwrap());
        for field in ["program", "date", "system", "instruction_set"] {
            let value = json[field].as_str().unwrap();
            assert!(!value.is_empty() && text.contains(value), "{field}: {text}");
        }
        assert!(text.starts_with(concat!("k3 ", env!("CARGO_PKG_VERSION"))));
        assert!(json["cores"].as_u64().unwrap() > 0);
    }
}
