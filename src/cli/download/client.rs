//! The `hf` client: found, run, and ended when a signal comes. It does the fetching, and goes on from where it was by
//! itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::pin::Pin;
use crate::cli::Exit;
use crate::cli::run::interrupt;
use crate::cli::say;
use crate::stream::sums::known::Known;
use crate::system;

/// The client's program.
pub(super) struct Client(PathBuf);

/// How often it is looked whether the client has ended, or a signal came.
const EVERY: Duration = Duration::from_millis(100);

/// The small file that a revision is found out by.
const SMALL: &str = "config.json";

impl Client {
    /// The first `hf` on PATH.
    pub(super) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let name = format!("hf{}", std::env::consts::EXE_SUFFIX);
        let mut programs = std::env::split_paths(&path).map(|folder| folder.join(&name));
        programs
            .find(|program| system::is_program(program))
            .map(Self)
    }

    /// The commit that a branch or tag is now. The client notes it beside what it fetches, so a small file is fetched into a
    /// folder that goes again.
    ///
    /// # Errors
    /// There is no such revision, or the client does not note it.
    pub(super) fn resolve(
        &self,
        dir: &Path,
        repository: &str,
        name: &str,
    ) -> anyhow::Result<String> {
        let aside = tempfile::Builder::new()
            .prefix(".k3-revision")
            .tempdir_in(dir)
            .with_context(|| format!("{}: cannot be written", dir.display()))?;
        self.run([
            OsStr::new("download"),
            repository.as_ref(),
            SMALL.as_ref(),
            "--revision".as_ref(),
            name.as_ref(),
            "--local-dir".as_ref(),
            aside.path().as_os_str(),
        ])?;
        let noted = Known::client(aside.path(), &[SMALL.to_owned()]);
        match noted.revisions.into_iter().next() {
            Some(commit) => Ok(commit),
            None => bail!(
                "hf does not say which commit {name} is: give the commit itself, --revision and 40 hexadecimal digits"
            ),
        }
    }

    /// Fetches what is missing of a revision.
    ///
    /// # Errors
    /// The client fails, or a signal came.
    pub(super) fn fetch(&self, dir: &Path, pin: &Pin, further: &[&str]) -> anyhow::Result<()> {
        let mut arguments: Vec<&OsStr> = vec![
            "download".as_ref(),
            pin.repository.as_ref(),
            "--revision".as_ref(),
            pin.revision.as_ref(),
            "--local-dir".as_ref(),
            dir.as_os_str(),
        ];
        arguments.extend(further.iter().map(OsStr::new));
        self.run(arguments)
    }

    /// Runs it to the end. Its progress goes to standard error; what it prints besides is of no use here.
    fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a OsStr>) -> anyhow::Result<()> {
        let interrupted = interrupt()?;
        let mut child = Command::new(&self.0)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{}: cannot be started", self.0.display()))?;
        let status = loop {
            if let Some(status) = child.try_wait().context("hf cannot be waited for")? {
                break status;
            }
            if interrupted.load(Ordering::Relaxed) {
                // It may have had the signal too and be gone already. What it fetched so far stays.
                let _ = child.kill();
                let _ = child.wait();
                say!("k3: the same command goes on from here");
                return Err(Exit::Interrupted.into());
            }
            std::thread::sleep(EVERY);
        };
        if interrupted.load(Ordering::Relaxed) {
            return Err(Exit::Interrupted.into());
        }
        if !status.success() {
            bail!(
                "hf failed ({status}), its own message stands above; what came is kept, the same command goes on from there"
            );
        }
        Ok(())
    }
}
