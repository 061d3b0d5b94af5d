//! `k3 doctor`: whether this machine can run the model, how fast, and what holds it back. It measures, and reports; a warning
//! is no failure.

mod advice;
mod drive;
mod files;
mod host;
mod text;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use self::advice::Advice;
use self::drive::Drive;
use self::files::Files;
use self::host::Host;
use super::bench::{print, sample_time};
use super::provenance::Provenance;
use super::quote::quoted;
use super::{budget, verify};

/// Arguments of `k3 doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Checkpoint folder, or the folder where the model is to be (default: the machine alone, with the sizes of the release)
    model: Option<PathBuf>,
    /// Folder of a packed trunk, on this drive or another
    #[arg(long, value_name = "DIR", requires = "model")]
    trunk: Option<PathBuf>,
    /// Folder of tiktoken.model and tokenizer_config.json (default: MODEL)
    #[arg(long, value_name = "DIR")]
    tok: Option<PathBuf>,
    /// Positions to plan for (default: 8192)
    #[arg(long, value_name = "N", value_parser = budget::count, allow_negative_numbers = true)]
    context: Option<usize>,
    /// Seconds of reading for each drive; 0 measures nothing, and predicts with rates that are assumed
    #[arg(long, value_name = "S", default_value_t = 4.0)]
    seconds: f64,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. What is wrong with machine or model is reported, and no error.
///
/// # Errors
/// A flag or folder that cannot be used, [`Exit::Refused`](super::Exit::Refused); [`Exit::NotWritten`](super::Exit::NotWritten).
pub fn run(arguments: &DoctorArgs) -> anyhow::Result<()> {
    let folders = [&arguments.model, &arguments.trunk, &arguments.tok];
    for folder in folders.into_iter().flatten() {
        verify::refuse_no_folder(folder)?;
    }
    let sample = match arguments.seconds {
        0.0 => None,
        seconds => Some(sample_time(seconds, drive::samples())?),
    };
    let mut warnings = Vec::new();
    let files = Files::look(
        arguments.model.as_deref(),
        arguments.tok.as_deref(),
        &mut warnings,
    )?;
    let request = advice::request(&files, arguments.context)?;
    let packed = arguments.trunk.as_deref();
    let packed = packed.filter(|trunk| files.has_pack(trunk, &mut warnings));
    let host = Host::look(sample.is_some(), &mut warnings);
    let drives = Drive::measure(
        arguments.model.as_deref(),
        arguments.trunk.as_deref(),
        sample,
        &mut warnings,
    );
    let advice = Advice::give(
        &files,
        &host,
        &drives,
        &request,
        packed.is_some(),
        &mut warnings,
    );
    let report = Report {
        made: Provenance::now(),
        commands: commands(arguments, &files, advice.as_ref(), packed),
        host,
        drives,
        files,
        advice,
        warnings,
    };
    let told = match arguments.json {
        true => format!("{:#}\n", report.json()),
        false => text::of(&report),
    };
    print(&told)
}

/// Everything that was found out.
struct Report {
    made: Provenance,
    host: Host,
    drives: Vec<Drive>,
    files: Files,
    /// None where the memory of the machine cannot be understood.
    advice: Option<Advice>,
    warnings: Vec<String>,
    /// To be pasted.
    commands: Vec<String>,
}

impl Report {
    fn json(&self) -> Value {
        json!({
            "made": self.made,
            "machine": self.host,
            "drives": self.drives.iter().map(Drive::json).collect::<Vec<_>>(),
            "model": self.files.json(),
            "advice": self.advice.as_ref().map(Advice::json),
            "warnings": self.warnings,
            "commands": self.commands,
        })
    }
}

/// What to type next.
fn commands(
    arguments: &DoctorArgs,
    files: &Files,
    advice: Option<&Advice>,
    packed: Option<&Path>,
) -> Vec<String> {
    let Some(model) = &arguments.model else {
        return vec!["k3-tui --demo".into(), "k3 download DIR".into()];
    };
    let model = quoted(model);
    if files.is_empty() {
        return vec![format!("k3 download {model}")];
    }
    if !files.is_whole() {
        return vec![format!("k3 verify {model}")];
    }
    let Some(advice) = advice.filter(|advice| advice.fits()) else {
        return Vec::new();
    };
    let mut command = format!("k3-tui {model}");
    if let Some(tok) = &arguments.tok {
        command += &format!(" --tok {}", quoted(tok));
    }
    if let Some(trunk) = packed {
        command += &format!(" --trunk {}", quoted(trunk));
    }
    vec![command + &advice.flags(arguments.context.is_some())]
}
