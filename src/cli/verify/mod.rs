//! `k3 verify`: whether the files of a model are what they should be, and what to do where they are not. The looking is the
//! library's; here are the order, the words and the exit code.

mod answers;
mod bytes;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::bench::print;
use super::model::{self, Folder};
use super::provenance::Provenance;
use super::synth::size;
use super::{Exit, budget, open};
use crate::checkpoint::verify::{Examined, Fault, examine};
use crate::cli::say;
use crate::stream::sums::known::Known;

/// Arguments of `k3 verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// Checkpoint folder in the released layout (default: the demo model inside the program)
    model: Option<PathBuf>,
    /// Read every byte and print the SHA-256 of every file; what is known of them is compared. Can be stopped and gone on with
    #[arg(long)]
    full: bool,
    /// Compare with this list of lines `sha256  name`, as `k3 verify --full` and `sha256sum` write it
    #[arg(long, value_name = "FILE", requires = "full")]
    digests: Option<PathBuf>,
    /// Files that are read at the same time (default: one a core)
    #[arg(long, value_name = "N", requires = "full", value_parser = budget::count, allow_negative_numbers = true)]
    readers: Option<usize>,
    /// Run the published prompts and compare ids and the highest logit (the released model only; minutes)
    #[arg(long)]
    answers: bool,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. Faults go to standard error, a line each; with `--full` the digests go to standard output.
///
/// # Errors
/// Something is wrong with the files; or it is refused what is asked, or cannot be read at all; a signal came.
pub fn run(arguments: &VerifyArgs) -> anyhow::Result<()> {
    let Folder { path, .. } = model::folder(arguments.model.as_deref())?;
    refuse_no_folder(&path)?;
    let list = arguments.digests.as_deref().map(Known::list).transpose();
    let list = list.map_err(|error| Exit::Refused(error.to_string()))?;
    if arguments.answers {
        answers::refuse_other_model(&path)?;
    }
    let report = verify(&path, arguments, list)?;
    if arguments.json {
        print(&format!("{:#}\n", report.json(&path)))?;
    } else if let Some(bytes) = &report.bytes {
        print(&bytes.list())?;
    }
    report.tell(&path);
    match report.faults.len() {
        0 => Ok(()),
        count => Err(anyhow::anyhow!(
            "{}: {count} {} found",
            path.display(),
            if count == 1 { "fault" } else { "faults" }
        )),
    }
}

/// Only a folder can be looked at.
pub(super) fn refuse_no_folder(path: &Path) -> Result<(), Exit> {
    if path.is_dir() {
        return Ok(());
    }
    let problem = match path.exists() {
        true => "is not a folder",
        false => "does not exist",
    };
    Err(Exit::Refused(format!(
        "{} {problem}: name the folder that holds the checkpoint",
        path.display()
    )))
}

/// Looks at the files as they came, after a download. Every byte with `full`.
///
/// # Errors
/// As [`run`].
pub(super) fn after_download(path: &Path, full: bool) -> anyhow::Result<()> {
    run(&VerifyArgs {
        model: Some(path.to_owned()),
        full,
        digests: None,
        readers: None,
        answers: false,
        json: false,
    })
}

/// Everything that was found.
struct Report {
    examined: Examined,
    /// Those of the files, of their bytes and of the answers.
    faults: Vec<Fault>,
    bytes: Option<bytes::Compared>,
    answers: Option<Vec<answers::Answer>>,
}

fn verify(path: &Path, arguments: &VerifyArgs, list: Option<Known>) -> anyhow::Result<Report> {
    let mut examined = examine(path)?;
    let mut faults = std::mem::take(&mut examined.faults);
    for fault in &faults {
        say!("k3: {fault}");
    }
    let mut bytes = None;
    if arguments.full {
        let compared = bytes::compare(path, list, arguments.readers)?;
        for fault in compared.faults() {
            say!("k3: {fault}");
            faults.push(fault);
        }
        bytes = Some(compared);
    }
    let mut answers = None;
    // With damaged files it is not worth the time.
    if arguments.answers && faults.is_empty() {
        let config = open::config(path, None)?;
        let given = answers::ask_released(path, config)?;
        for fault in given.iter().filter_map(answers::Answer::fault) {
            say!("k3: {fault}");
            faults.push(fault);
        }
        answers = Some(given);
    }
    Ok(Report {
        examined,
        faults,
        bytes,
        answers,
    })
}

impl Report {
    /// What is no fault, on standard error.
    fn tell(&self, path: &Path) {
        let Examined {
            shards,
            bytes,
            tensors,
            notes,
            ..
        } = &self.examined;
        for note in notes {
            say!("k3: {note}");
        }
        if let Some(compared) = &self.bytes {
            say!("k3: {}", compared.summary());
        }
        let looked = match self.bytes {
            Some(_) => "",
            None => "; headers and samples were read, --full reads every byte",
        };
        say!(
            "k3: {}: {shards} shards, {tensors} tensors, {}{looked}",
            path.display(),
            size(*bytes)
        );
        if self.faults.is_empty() {
            say!("k3: nothing wrong was found");
        }
    }

    fn json(&self, path: &Path) -> Value {
        let Examined {
            shards,
            missing,
            bytes,
            tensors,
            notes,
            ..
        } = &self.examined;
        json!({
            "made": Provenance::now(),
            "model": path.display().to_string(),
            "right": self.faults.is_empty(),
            "shards": shards,
            "missing_shards": missing,
            "shard_bytes": bytes,
            "tensors": tensors,
            "faults": self.faults,
            "notes": notes,
            "bytes": self.bytes.as_ref().map(bytes::Compared::json),
            "answers": self.answers,
        })
    }
}
