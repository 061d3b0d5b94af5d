//! Every byte of a model's files against the digests that can be had: a list that was given, what the `hf` client noted
//! when it fetched them, and, of the release, the few that are known.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::checkpoint::release;
use crate::checkpoint::verify::{AGAIN, Fault};
use crate::cli::Exit;
use crate::cli::byte_progress::ByteProgress;
use crate::cli::run::interrupt;
use crate::cli::say;
use crate::stream::sums::{Journal, Sum, known::Known, sums};

/// A digest that a file should have, and who says so.
struct Expected {
    sha256: String,
    source: &'static str,
}

/// Digests, had and expected.
pub(super) struct Compared {
    sums: Vec<Sum>,
    expected: BTreeMap<String, Expected>,
    /// Commits that the client fetched files of.
    revisions: Vec<String>,
}

/// Reads every file that stands directly in the folder. Where `list` names more files, they count as missing.
///
/// # Errors
/// The folder cannot be listed, there is no memory; [`Exit::Interrupted`].
pub(super) fn compare(
    dir: &Path,
    list: Option<Known>,
    readers: Option<usize>,
) -> anyhow::Result<Compared> {
    let mut names = files(dir)?;
    let client = Known::client(dir, &names);
    if let Some(list) = &list {
        names.extend(list.sha256.keys().cloned());
        names.sort_unstable();
        names.dedup();
    }
    let mut journal = match directories::ProjectDirs::from("", "", "k3-tui") {
        Some(folders) => Journal::open(&folders.cache_dir().join("verify"), dir),
        None => Journal::none(),
    };
    if !journal.is_empty() {
        say!(
            "k3: going on after a stop: files that were read before and have not changed are not read again"
        );
    }
    let interrupted = interrupt()?;
    let mut progress = ByteProgress::new();
    let readers = readers.unwrap_or_else(crate::system::cores);
    let mut told = |what: &str, done, total| progress.told(what, done, total, &interrupted);
    let read = sums(dir, &names, readers, &mut journal, &mut told)?;
    progress.end();
    let Some(sums) = read else {
        say!("k3: the same command goes on from here");
        return Err(Exit::Interrupted.into());
    };
    journal.finish();
    let expected = expected(&sums, list, &client);
    Ok(Compared {
        sums,
        expected,
        revisions: client.revisions.into_iter().collect(),
    })
}

/// Names of the files directly in the folder, hidden ones left out, sorted.
fn files(dir: &Path) -> anyhow::Result<Vec<String>> {
    let list = || format!("{}: cannot be listed", dir.display());
    let mut names = Vec::new();
    for item in fs::read_dir(dir).with_context(list)? {
        let item = item.with_context(list)?;
        let name = item.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && item.path().is_file() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A list that was given counts more than the client's notes. What is known of the release counts last, and only where the
/// configuration is the release's to the byte.
fn expected(sums: &[Sum], list: Option<Known>, client: &Known) -> BTreeMap<String, Expected> {
    let mut expected = BTreeMap::new();
    let mut put = |name: &str, sha256: &str, source| {
        let sha256 = sha256.to_owned();
        expected.insert(name.to_owned(), Expected { sha256, source });
    };
    let config = sums.iter().find(|sum| sum.name == "config.json");
    let is_release = config.is_some_and(|sum| {
        let sha256 = sum.sha256.as_ref().ok().map(String::as_str);
        sha256 == release::sha256(&sum.name)
    });
    for sum in sums.iter().filter(|_| is_release) {
        if let Some(sha256) = release::sha256(&sum.name) {
            put(&sum.name, sha256, "release");
        }
    }
    for (name, sha256) in &client.sha256 {
        put(name, sha256, "client");
    }
    for (name, sha256) in list.into_iter().flat_map(|list| list.sha256) {
        put(&name, &sha256, "list");
    }
    expected
}

impl Compared {
    /// Files that cannot be read, or have another digest than they should.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let fault = |sum: &Sum| match (&sum.sha256, self.expected.get(&sum.name)) {
            (Err(problem), _) => Some(Fault::new(
                &sum.name,
                problem,
                "fetch it, or look at the drive",
            )),
            (Ok(has), Some(expected)) if *has != expected.sha256 => {
                let says = match expected.source {
                    "list" => "the list of digests",
                    "client" => "what was noted when it was fetched",
                    _ => "what is known of the release",
                };
                let problem = format!(
                    "has SHA-256 {has}, by {says} it should have {}",
                    expected.sha256
                );
                Some(Fault::new(&sum.name, problem, AGAIN))
            }
            _ => None,
        };
        self.sums.iter().filter_map(fault).collect()
    }

    /// Lines `sha256  name`, of the files that could be read.
    pub(super) fn list(&self) -> String {
        let mut list = String::new();
        for sum in &self.sums {
            if let Ok(sha256) = &sum.sha256 {
                let _ = writeln!(list, "{sha256}  {}", sum.name);
            }
        }
        list
    }

    fn compared(&self) -> usize {
        let known = |sum: &&Sum| self.expected.contains_key(&sum.name);
        self.sums.iter().filter(known).count()
    }

    /// How much was compared.
    pub(super) fn summary(&self) -> String {
        let (all, compared) = (self.sums.len(), self.compared());
        let revisions = match self.revisions.len() {
            0 => String::new(),
            1 => format!("; all of revision {}", self.revisions[0]),
            _ => format!("; of several revisions: {}", self.revisions.join(", ")),
        };
        match compared {
            0 => format!(
                "{all} files were read and NOTHING was compared, since no digest is known: keep the list, and compare another \
                 copy with it by --digests{revisions}"
            ),
            _ if compared == all => format!("{all} files were read and compared{revisions}"),
            _ => format!(
                "{all} files were read, {compared} of them compared; no digest is known of the others{revisions}"
            ),
        }
    }

    /// Every file, and what it was compared with.
    pub(super) fn json(&self) -> Value {
        let file = |sum: &Sum| {
            let expected = self.expected.get(&sum.name);
            json!({
                "name": sum.name,
                "sha256": sum.sha256.as_ref().ok(),
                "problem": sum.sha256.as_ref().err(),
                "expected": expected.map(|expected| &expected.sha256),
                "expected_by": expected.map(|expected| expected.source),
            })
        };
        json!({
            "compared": self.compared(),
            "revisions": self.revisions,
            "files": self.sums.iter().map(file).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(name: &str, sha256: &str) -> Sum {
        Sum {
            name: name.into(),
            sha256: Ok(sha256.into()),
        }
    }

    fn compared(sums: Vec<Sum>, list: Option<Known>, client: &Known) -> Compared {
        Compared {
            expected: expected(&sums, list, client),
            sums,
            revisions: Vec::new(),
        }
    }

    fn known(pairs: &[(&str, &str)]) -> Known {
        Known {
            sha256: pairs
                .iter()
                .map(|&(name, sha256)| (name.to_owned(), sha256.to_owned()))
                .collect(),
            ..Known::default()
        }
    }

    #[test]
    fn a_given_list_counts_more_than_the_clients_notes() {
        let client = known(&[("a", "1"), ("b", "2")]);
        let all = vec![sum("a", "1"), sum("b", "3"), sum("c", "4")];
        let one = compared(all.clone(), None, &client);
        let faults = one.faults();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].to_string().starts_with("b: has SHA-256 3"),
            "{}",
            faults[0]
        );
        assert!(
            one.summary().contains("2 of them compared"),
            "{}",
            one.summary()
        );
        let list = compared(all, Some(known(&[("b", "3")])), &client);
        assert_eq!(list.faults(), []);
        assert_eq!(list.list(), "1  a\n3  b\n4  c\n");
    }

    #[test]
    fn the_releases_digests_bind_only_beside_its_configuration() {
        let config = release::sha256("config.json").unwrap();
        let with = |config| vec![sum("config.json", config), sum("tiktoken.model", "0")];
        let none = Known::default();
        assert_eq!(compared(with("other"), None, &none).faults(), []);
        assert!(
            compared(with("other"), None, &none)
                .summary()
                .contains("NOTHING")
        );
        let faults = compared(with(config), None, &none).faults();
        assert!(
            faults.len() == 1 && faults[0].file == "tiktoken.model",
            "{faults:?}"
        );
    }
}
