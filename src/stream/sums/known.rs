//! Digests that are known from elsewhere: a list as `sha256sum` writes it, and what the `hf` client has noted beside the
//! files that it fetched. Nothing is read of the files themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Digests by the names of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// SHA-256 in lower-case hexadecimal digits.
    pub sha256: BTreeMap<String, String>,
    /// Commits that the client fetched the files of.
    pub revisions: BTreeSet<String>,
}

/// A list that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct Unusable {
    /// The list.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// A longer list is none of a checkpoint.
const LONGEST: u64 = 16 << 20;

impl Known {
    /// Reads a list of lines `sha256  name`; a name may have a star before it, as for files read in binary mode. Empty lines
    /// and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// The list cannot be read, a line has another form, or a name stands twice with different digests.
    pub fn list(path: &Path) -> Result<Self, Unusable> {
        let wrong = |problem: String| Unusable {
            path: path.to_owned(),
            problem,
        };
        let unreadable = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
        if fs::metadata(path).map_err(unreadable)?.len() > LONGEST {
            return Err(wrong("is too long for a list of digests".into()));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let mut known = Self::default();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line.split_once([' ', '\t']).and_then(|(digest, name)| {
                let name = name.trim_start_matches([' ', '\t', '*']);
                let name = name.trim_start_matches("./").trim_end();
                (is_sha256(digest) && !name.is_empty()).then_some((digest, name))
            });
            let Some((digest, name)) = entry else {
                let problem = format!(
                    "line {} is not of the form `sha256  name`, as sha256sum writes it: {line:?}",
                    number + 1
                );
                return Err(wrong(problem));
            };
            let digest = digest.to_ascii_lowercase();
            let before = known.sha256.insert(name.to_owned(), digest.clone());
            if before.is_some_and(|before| before != digest) {
                return Err(wrong(format!("{name} stands in it with two digests")));
            }
        }
        if known.sha256.is_empty() {
            return Err(wrong("holds no digest".into()));
        }
        Ok(known)
    }

    /// What the `hf` client knows of the files `names` in the folder `dir`. For large files its entity tag is the SHA-256
    /// of the content; for small ones it is a hash of another kind, which is left out. In the client's own cache a file
    /// is a link to one that is named by that tag.
    pub fn client(dir: &Path, names: &[String]) -> Self {
        let mut known = Self::default();
        let notes = dir.join(".cache/huggingface/download");
        for name in names {
            let note =
                fs::read_to_string(notes.join(format!("{name}.metadata"))).unwrap_or_default();
            let mut lines = note.lines();
            if let Some(commit) = lines.next().filter(|commit| is_commit(commit)) {
                known.revisions.insert(commit.to_owned());
            }
            let tag = lines.next().map(|tag| tag.trim_matches('"').to_owned());
            let blob = fs::read_link(dir.join(name))
                .ok()
                .filter(|target| target.parent().is_some_and(|dir| dir.ends_with("blobs")))
                .and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()));
            if let Some(tag) = [tag, blob].into_iter().flatten().find(|tag| is_sha256(tag)) {
                known.sha256.insert(name.clone(), tag.to_ascii_lowercase());
            }
        }
        known
    }
}

/// Whether a text is a SHA-256 in hexadecimal digits.
fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a text is the full name of a commit: 40 hexadecimal digits.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Known, Unusable> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        fs::write(&path, text).unwrap();
        Known::list(&path)
    }

    #[test]
    fn lists_are_read_as_sha256sum_writes_them() {
        let (a, b) = ("a".repeat(64), "B".repeat(64));
        let known = list(&format!("# comment\n{a}  one two.json\n\n{b} *./second\n")).unwrap();
        assert_eq!(known.sha256["one two.json"], a);
        assert_eq!(known.sha256["second"], "b".repeat(64));
    }

    #[test]
    fn a_list_that_is_none_is_refused_with_the_line() {
        let a = "a".repeat(64);
        for (text, word) in [
            (format!("{a}  x\nno digest  y\n"), "line 2"),
            (format!("{a}\n"), "line 1"),
            (format!("{}  x", "a".repeat(63)), "line 1"),
            (format!("{a}  x\n{}  x", "b".repeat(64)), "two digests"),
            (String::new(), "no digest"),
        ] {
            let error = list(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let error = Known::list(Path::new("no such list")).unwrap_err();
        assert!(error.to_string().contains("no such list"), "{error}");
    }

    #[test]
    fn the_clients_notes_give_digests_of_large_files_only() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join(".cache/huggingface/download");
        fs::create_dir_all(&notes).unwrap();
        let (commit, large, small) = ("c".repeat(40), "d".repeat(64), "e".repeat(40));
        fs::write(
            notes.join("large.metadata"),
            format!("{commit}\n{large}\n1.5\n"),
        )
        .unwrap();
        fs::write(
            notes.join("small.metadata"),
            format!("{commit}\n\"{small}\"\n1.5\n"),
        )
        .unwrap();
        let names = ["large", "small", "neither"].map(str::to_owned);
        let known = Known::client(dir.path(), &names);
        assert_eq!(known.sha256, BTreeMap::from([("large".to_owned(), large)]));
        assert_eq!(known.revisions, BTreeSet::from([commit]));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_into_the_clients_cache_gives_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let tag = "f".repeat(64);
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, dir.path().join(name)).unwrap();
        };
        link(&format!("../../blobs/{tag}"), "shard");
        link(&format!("elsewhere/{tag}"), "other");
        let known = Known::client(dir.path(), &["shard".to_owned(), "other".to_owned()]);
        assert_eq!(known.sha256, BTreeMap::from([("shard".to_owned(), tag)]));
    }
}
