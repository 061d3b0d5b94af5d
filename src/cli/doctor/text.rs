//! The report as people read it. Only the words; the figures are found out elsewhere.

use std::fmt::Write as _;

use super::Report;
use super::advice::Advice;
use super::drive::Drive;
use super::files::{Files, TokenizerFile};
use super::host::Host;
use crate::cli::bench::to_text;
use crate::cli::plan_report::limit;
use crate::cli::synth::size;

/// A heading, and lines below it.
struct Section(String);

impl Section {
    fn new(name: &str) -> Self {
        Self(format!("\n{name}\n"))
    }

    fn line(&mut self, name: &str, value: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "  {name:<16}{value}");
    }
}

/// The whole report.
pub(super) fn of(report: &Report) -> String {
    let mut out = report.made.text();
    out += &host(&report.host);
    for drive in &report.drives {
        out += &self::drive(drive);
    }
    out += &files(&report.files);
    if let Some(advice) = &report.advice {
        out += &self::advice(advice);
    }
    if !report.warnings.is_empty() {
        out += "\nwarnings\n";
        for warning in &report.warnings {
            let _ = writeln!(out, "  {warning}");
        }
    }
    if !report.commands.is_empty() {
        out += "\nnext\n";
        for command in &report.commands {
            let _ = writeln!(out, "  {command}");
        }
    }
    out
}

fn known(bytes: Option<u64>) -> String {
    bytes.map_or("not known".into(), size)
}

fn rate(bytes_per_s: Option<f64>) -> String {
    match bytes_per_s {
        Some(rate) => format!("{:.2} GB/s", rate / 1e9),
        None => "not measured".into(),
    }
}

fn host(host: &Host) -> String {
    let mut section = Section::new("machine");
    section.line(
        "processor",
        host.processor.as_deref().unwrap_or("not known"),
    );
    let features: Vec<String> = host
        .features
        .iter()
        .map(|(name, has)| format!("{name} {}", if *has { "yes" } else { "no" }))
        .collect();
    section.line("features", &features.join(", "));
    section.line(
        "kernels",
        &format!("{}, {} threads", host.instruction_set, host.cores),
    );
    section.line(
        "memory",
        &format!(
            "{}, {} available, {} of swap free",
            known(host.memory_bytes),
            known(host.available_bytes),
            known(host.swap_free_bytes)
        ),
    );
    for group in &host.control_groups {
        section.line(
            "control group",
            &format!(
                "{} of {} used ({})",
                size(group.used_bytes),
                size(group.limit_bytes),
                group.folder
            ),
        );
    }
    section.line(
        "may be used",
        &format!("{} (by {})", known(host.usable_bytes), host.limited_by),
    );
    section.line("memory reads", &rate(host.memory_bytes_per_s));
    section.line(
        "bf16 weights",
        &format!("{} by one token", rate(host.bf16_bytes_per_s)),
    );
    section.line(
        "MXFP4 weights",
        &format!("{} by one token", rate(host.mxfp4_bytes_per_s)),
    );
    section.0
}

fn drive(drive: &Drive) -> String {
    let holds = drive.holds.join(" and ");
    let mut section = Section::new(&format!("drive of {holds}"));
    section.line("folder", &drive.folder.display().to_string());
    let volume = &drive.volume;
    section.line(
        "file system",
        &format!(
            "{} on {}, {} free",
            volume.file_system.as_deref().unwrap_or("not known"),
            volume
                .source
                .as_deref()
                .unwrap_or("a drive that is not known"),
            known(volume.free_bytes)
        ),
    );
    match &drive.measured {
        Ok(measured) => {
            section.line(
                "read",
                &format!("{}, {}", measured.file, size(measured.file_bytes)),
            );
            for line in to_text(&measured.rates).lines() {
                let _ = writeln!(section.0, "  {line}");
            }
        }
        Err(why) => section.line("not measured", why),
    }
    section.0
}

fn files(files: &Files) -> String {
    let mut section = Section::new("model");
    match &files.folder {
        None => section.line("folder", "none was named: sizes of the released model"),
        Some(folder) if files.is_empty() => {
            section.line(
                "folder",
                &format!("{folder}: no model; sizes of the released one"),
            );
        }
        Some(folder) => {
            section.line("folder", folder);
            let found = &files.examined;
            section.line(
                "files",
                &format!(
                    "{} shards, {}, {} missing, {} faults",
                    found.shards,
                    size(found.bytes),
                    found.missing.len(),
                    found.faults.len()
                ),
            );
        }
    }
    for TokenizerFile {
        name,
        sha256,
        released,
    } in &files.tokenizer
    {
        let said = match sha256 {
            None => "not here".to_owned(),
            Some(sha256) if *released => format!("that of the released model ({sha256})"),
            Some(sha256) => format!("another model's ({sha256})"),
        };
        section.line("tokenizer", &format!("{name}: {said}"));
    }
    section.0
}

fn advice(advice: &Advice) -> String {
    let Advice {
        plan,
        prediction,
        assumed,
        ..
    } = advice;
    let mut section = Section::new("plan");
    let fits = if advice.fits() {
        ""
    } else {
        ", which does NOT fit"
    };
    section.line(
        "preset",
        &format!("{}, {} positions{fits}", plan.preset, plan.context),
    );
    section.line(
        "memory",
        &format!(
            "{} of {} ({}): pinned {}, experts {}",
            size(plan.total()),
            known(plan.available),
            limit(plan),
            size(plan.parts.pinned),
            size(plan.parts.experts)
        ),
    );
    section.line(
        "read a token",
        &format!(
            "trunk {}, experts {} when none is retained",
            size(plan.per_token.trunk_read),
            size(plan.per_token.experts_read)
        ),
    );
    let rates = match assumed.len() {
        0 => String::new(),
        _ => format!("; ASSUMED, not measured: {}", assumed.join(", ")),
    };
    section.line(
        "seconds a token",
        &format!(
            "{:.3}: reading {:.3} (trunk {:.3}, experts {:.3}), computing {:.3}{rates}",
            prediction.seconds_per_token,
            prediction.drive_seconds,
            prediction.trunk_seconds,
            prediction.expert_seconds,
            prediction.compute_seconds
        ),
    );
    section.line("the limit is", advice.limit());
    for change in &advice.changes {
        let saved = prediction.seconds_per_token - change.seconds_per_token;
        section.line(
            "with",
            &format!(
                "{}: {:.3} s a token, {}",
                change.what,
                change.seconds_per_token,
                match saved > 0.0005 {
                    true => format!("{saved:.3} s less"),
                    false => "no less".into(),
                }
            ),
        );
    }
    section.0
}
