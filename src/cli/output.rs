//! A result file: opened before the work begins, complete or not there at all when it ends.

use std::fs::File;
use std::io::{Stdout, Write, stdout};
use std::path::{Path, PathBuf};

use super::Exit;
use crate::checkpoint::atomic::{Access, AtomicFile};

/// Where a result goes.
pub(super) struct Output {
    path: PathBuf,
    target: Target,
}

enum Target {
    StandardOutput(Stdout),
    /// Written beside the file it becomes, so that no reader sees a part.
    Beside(AtomicFile),
    /// A device or a pipe, which cannot be replaced.
    Special(File),
}

impl Output {
    /// Opens a result file; `-` is standard output.
    ///
    /// # Errors
    /// [`Exit::NotWritten`] when the file could not be written later.
    pub(super) fn open(path: &PathBuf) -> Result<Self, Exit> {
        let target = if path.as_os_str() == "-" {
            Target::StandardOutput(stdout())
        } else if path.exists() && !path.is_file() {
            let file = File::options().write(true).open(path);
            Target::Special(file.map_err(|e| not_written(path, &e))?)
        } else {
            let file = AtomicFile::begin(path, Access::Ordinary);
            Target::Beside(file.map_err(|e| not_written(path, &e))?)
        };
        Ok(Self {
            path: path.clone(),
            target,
        })
    }

    pub(super) fn is_standard_output(&self) -> bool {
        matches!(self.target, Target::StandardOutput(_))
    }

    /// Appends to the result.
    ///
    /// # Errors
    /// [`Exit::NotWritten`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Exit> {
        let written = match &mut self.target {
            Target::StandardOutput(out) => out.write_all(bytes),
            Target::Beside(file) => file.write_all(bytes),
            Target::Special(file) => file.write_all(bytes),
        };
        written.map_err(|e| not_written(&self.path, &e))
    }

    /// Puts the result in its place.
    ///
    /// # Errors
    /// [`Exit::NotWritten`].
    pub(super) fn finish(self) -> Result<(), Exit> {
        let failed = |e: &dyn std::fmt::Display| not_written(&self.path, e);
        match self.target {
            Target::StandardOutput(mut out) => out.flush().map_err(|e| failed(&e)),
            Target::Special(_) => Ok(()),
            Target::Beside(file) => file.commit().map_err(|e| failed(&e)),
        }
    }
}

fn not_written(path: &Path, cause: &dyn std::fmt::Display) -> Exit {
    Exit::NotWritten(format!("{} cannot be written: {cause}", path.display()))
}
