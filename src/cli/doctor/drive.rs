//! The drives that a model is read from: what they are, and what they give. The measuring is that of `k3 bench io`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::bench::{huge_granted, to_json};
use crate::cli::bench_file::BenchFile;
use crate::cli::say;
use crate::stream::measure::{Case, Pattern, Rates, measure_direct};
use crate::stream::{ReadAt, Volume};

/// Repeats of each case, of which the middle one is reported.
const REPEATS: usize = 3;

/// Samples that the time for a drive is divided into.
pub(super) fn samples() -> usize {
    REPEATS * Case::few().len()
}

/// A drive, and what of the model it holds.
pub(super) struct Drive {
    pub folder: PathBuf,
    /// `experts` (all shards), `trunk`, or both.
    pub holds: Vec<&'static str>,
    pub volume: Volume,
    /// Or why it was not measured.
    pub measured: Result<Measured, String>,
}

/// What a drive gives.
pub(super) struct Measured {
    pub file: String,
    pub file_bytes: u64,
    pub rates: Rates,
}

impl Drive {
    /// Measures the drive of the model's folder, and that of the packed trunk if it is another one. Without a model, the
    /// drive of the folder that one stands in. Without a time for each sample nothing is measured.
    pub(super) fn measure(
        model: Option<&Path>,
        trunk: Option<&Path>,
        sample: Option<Duration>,
        warnings: &mut Vec<String>,
    ) -> Vec<Self> {
        let model = model.unwrap_or(Path::new("."));
        let mut first = Self::new(model, "experts");
        let second = trunk.map(|trunk| Self::new(trunk, "trunk"));
        let mut drives = match second {
            Some(second) if second.volume.device != first.volume.device => vec![first, second],
            _ => {
                first.holds.push("trunk");
                vec![first]
            }
        };
        for drive in drives.iter_mut() {
            if let Some(sample) = sample {
                drive.fill(sample);
                drive.warn(warnings);
            }
        }
        drives
    }

    fn new(folder: &Path, holds: &'static str) -> Self {
        Self {
            folder: folder.to_owned(),
            holds: vec![holds],
            volume: Volume::of(folder),
            measured: Err("it was not asked for".into()),
        }
    }

    fn fill(&mut self, sample: Duration) {
        let name = self.folder.display();
        say!(
            "k3: {name}: measuring the drive, about {:.0} s",
            sample.as_secs_f64() * samples() as f64
        );
        self.measured = BenchFile::choose(&self.folder)
            .and_then(|chosen| {
                let rates = measure_direct(&chosen.file, &Case::few(), REPEATS, sample)?;
                Ok(Measured {
                    file_bytes: chosen.file.len(),
                    file: chosen.name,
                    rates,
                })
            })
            .map_err(|error| format!("{error:#}"));
    }

    fn warn(&self, warnings: &mut Vec<String>) {
        let name = self.folder.display();
        match &self.measured {
            Err(why) => warnings.push(format!("{name}: the drive was not measured: {why}")),
            Ok(measured) if !measured.rates.direct => warnings.push(format!(
                "{name}: this file system has no direct reads: what was measured is the page cache and not the drive, and is not \
                 predicted with"
            )),
            Ok(measured) if huge_granted(&measured.rates) == Some(false) => warnings.push(format!(
                "{name}: the system gave no 2 MiB pages, reads are slower for it; on Linux set \
                 /sys/kernel/mm/transparent_hugepage/enabled to madvise"
            )),
            Ok(_) => {}
        }
    }

    /// Bytes a second of one kind of read, where it is the drive's own.
    pub(super) fn rate(&self, pattern: Pattern) -> Option<f64> {
        let measured = self.measured.as_ref().ok()?;
        let direct = measured.rates.direct.then_some(&measured.rates)?;
        direct.best_of(pattern).map(|rate| rate.median())
    }

    pub(super) fn json(&self) -> Value {
        let measured = self.measured.as_ref();
        json!({
            "folder": self.folder.display().to_string(),
            "holds": self.holds,
            "volume": self.volume,
            "measured": measured.ok().map(|m| to_json(&m.file, m.file_bytes, &m.rates, REPEATS)),
            "not_measured": measured.err(),
        })
    }
}
