//! The memory limits of Linux control groups, version 1 and 2. Only reading; what a limit means is decided elsewhere.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::machine::Garbled;

/// A control group with a memory limit that this process stands in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its folder.
    pub path: PathBuf,
    /// Bytes that all its processes may have together.
    pub limit: u64,
    /// Bytes that they have, pages of files included.
    pub usage: u64,
}

/// How one version of control groups keeps its accounts.
struct Version {
    /// Where hierarchies are mounted, below the root.
    mounts: &'static [&'static str],
    limit: &'static str,
    usage: &'static str,
}

const V1: Version = Version {
    mounts: &["sys/fs/cgroup/memory"],
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
};

/// Mounted alone, or beside version 1.
const V2: Version = Version {
    mounts: &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
    limit: "memory.max",
    usage: "memory.current",
};

/// Groups from the process's own upwards that are looked at.
const ANCESTORS: usize = 32;
/// Limits from here on are no limits: version 1 writes a very large number, rounded to whole pages, for none.
const UNLIMITED: u64 = 1 << 53;

/// Of all groups above this process, in either version, the one that leaves the least. None without limits.
///
/// # Errors
/// A file is there and cannot be read or understood.
pub(super) fn tightest(root: &Path) -> Result<Option<ControlGroup>, Garbled> {
    Ok(limits(root)?
        .into_iter()
        .min_by_key(|group| group.limit.saturating_sub(group.usage)))
}

/// All groups above this process that have a limit, in either version, from its own upwards.
///
/// # Errors
/// As [`tightest`].
pub(super) fn limits(root: &Path) -> Result<Vec<ControlGroup>, Garbled> {
    let path = root.join("proc/self/cgroup");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(garbled(&path, format!("cannot be read: {e}"))),
    };
    let mut groups = Vec::new();
    for line in text.lines() {
        // hierarchy:controllers:path. Version 2 is hierarchy 0 without controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(garbled(&path, format!("has the line {line:?}")));
        };
        if controllers.split(',').any(|name| name == "memory") {
            chain(root, &V1, group, &mut groups)?;
        } else if id == "0" && controllers.is_empty() {
            chain(root, &V2, group, &mut groups)?;
        }
    }
    Ok(groups)
}

/// Appends the limited groups from `group` up to the mount. A folder that is not there is passed over: in a container
/// the mount shows the container's own group as its root, under a path that only the host knows.
fn chain(
    root: &Path,
    version: &Version,
    group: &str,
    groups: &mut Vec<ControlGroup>,
) -> Result<(), Garbled> {
    let names: PathBuf = Path::new(group)
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .collect();
    // A group outside the mount is written with "..": only the mount itself can be seen then.
    let outside = names.components().any(|part| part == Component::ParentDir);
    let names = if outside { PathBuf::new() } else { names };
    for mount in version.mounts {
        let mount = root.join(mount);
        let depth = names.components().count();
        // The root is looked at however deep the process stands.
        let ancestors = names.ancestors().take(ANCESTORS);
        let root = (depth >= ANCESTORS).then_some(Path::new(""));
        for names in ancestors.chain(root) {
            groups.extend(limited(&mount.join(names), version)?);
        }
    }
    Ok(())
}

/// The group in a folder, if it has a limit.
fn limited(folder: &Path, version: &Version) -> Result<Option<ControlGroup>, Garbled> {
    let Some(limit) = number(&folder.join(version.limit))? else {
        return Ok(None);
    };
    if limit >= UNLIMITED {
        return Ok(None);
    }
    let usage = folder.join(version.usage);
    let Some(used) = number(&usage)? else {
        return Err(garbled(&usage, "is not there although there is a limit"));
    };
    Ok(Some(ControlGroup {
        path: folder.to_owned(),
        limit,
        usage: used,
    }))
}

/// The number in a control file; `max` is the largest there is. None without the file.
fn number(path: &Path) -> Result<Option<u64>, Garbled> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(garbled(path, format!("cannot be read: {e}"))),
    };
    match text.trim() {
        "max" => Ok(Some(u64::MAX)),
        number => number
            .parse()
            .map(Some)
            .map_err(|_| garbled(path, format!("holds {number:?}, not a number"))),
    }
}

fn garbled(path: &Path, problem: impl Into<String>) -> Garbled {
    Garbled {
        path: path.to_owned(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root folder with this process in `cgroup`, and files with their content.
    fn root(cgroup: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let all = files
            .iter()
            .map(|(path, text)| (format!("sys/fs/cgroup/{path}"), *text));
        for (path, text) in all.chain([("proc/self/cgroup".to_owned(), cgroup)]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Path below the mounts, limit and usage of the tightest group.
    fn found(root: &tempfile::TempDir) -> Option<(String, u64, u64)> {
        let group = tightest(root.path()).unwrap()?;
        let path = group.path.strip_prefix(root.path().join("sys/fs/cgroup"));
        Some((
            path.unwrap().display().to_string(),
            group.limit,
            group.usage,
        ))
    }

    /// Trouble report 19: killed at a limit of 8 GiB while 65 GB were "available".
    #[test]
    fn trouble_19_the_tightest_ancestor_binds() {
        let version_2 = root(
            "0::/a/b\n",
            &[
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.current", "5\n"),
                ("a/memory.max", "8589934592\n"),
                ("a/memory.current", "4096\n"),
                ("memory.current", "99\n"),
            ],
        );
        assert_eq!(found(&version_2), Some(("a".into(), 8 << 30, 4096)));
        // The outer group has the larger limit and the less room.
        let version_1 = root(
            "7:cpu:/x\n4:memory:/a/b\n",
            &[
                ("memory/a/b/memory.limit_in_bytes", "1000\n"),
                ("memory/a/b/memory.usage_in_bytes", "10\n"),
                ("memory/a/memory.limit_in_bytes", "2000\n"),
                ("memory/a/memory.usage_in_bytes", "1500\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.usage_in_bytes", "1\n"),
            ],
        );
        assert_eq!(found(&version_1), Some(("memory/a".into(), 2000, 1500)));
    }

    #[test]
    fn both_versions_beside_each_other() {
        let both = root(
            "4:memory,hugetlb:/a\n0::/b\n",
            &[
                ("memory/a/memory.limit_in_bytes", "3000"),
                ("memory/a/memory.usage_in_bytes", "0"),
                ("unified/b/memory.max", "2000"),
                ("unified/b/memory.current", "0"),
            ],
        );
        assert_eq!(found(&both), Some(("unified/b".into(), 2000, 0)));
    }

    #[test]
    fn no_limit_in_any_spelling() {
        for limit in ["max", "9007199254740992", "9223372036854771712"] {
            let none = root("0::/\n", &[("memory.max", limit)]);
            assert_eq!(found(&none), None, "{limit}");
        }
        assert_eq!(found(&root("", &[])), None);
        assert_eq!(found(&root("0::/a\n", &[])), None);
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(tightest(nowhere.path()), Ok(None));
        let just = root(
            "0::/\n",
            &[("memory.max", "9007199254740991"), ("memory.current", "1")],
        );
        assert!(found(&just).is_some());
    }

    #[test]
    fn a_containers_own_group_mounted_as_root() {
        let files = [
            ("memory/memory.limit_in_bytes", "700"),
            ("memory/memory.usage_in_bytes", "5"),
        ];
        for path in ["/docker/0123", "/../../other", "/"] {
            let inside = root(&format!("4:memory:{path}\n"), &files);
            assert_eq!(found(&inside), Some(("memory".into(), 700, 5)), "{path}");
        }
    }

    #[test]
    fn a_deep_tree_is_looked_at_as_far_as_it_should_be() {
        let folders = |n: usize| vec!["d"; n].join("/");
        let at = |depth: usize| {
            let (limit, current) = (
                format!("{}/memory.max", folders(depth)),
                format!("{}/memory.current", folders(depth)),
            );
            let deep = root(
                &format!("0::/{}\n", folders(40)),
                &[(&limit, "100"), (&current, "1")],
            );
            found(&deep).is_some()
        };
        assert!(at(40) && at(9), "32 groups from the process's own");
        assert!(!at(8));
        let top = root(
            &format!("0::/{}\n", folders(40)),
            &[("memory.max", "100"), ("memory.current", "1")],
        );
        assert!(found(&top).is_some(), "the root always");
    }

    #[test]
    fn a_garbled_file_is_refused_by_name() {
        for (file, text, named) in [
            ("a/memory.max", "lots\n", "a/memory.max"),
            ("a/memory.max", "", "a/memory.max"),
            ("a/memory.max", "-1", "a/memory.max"),
            ("a/memory.max", "1", "a/memory.current"),
        ] {
            let error = tightest(root("0::/a\n", &[(file, text)]).path()).unwrap_err();
            assert!(error.path.ends_with(named), "{error}");
            assert!(error.to_string().contains("not known"), "{error}");
        }
        let error = tightest(root("nonsense\n", &[]).path()).unwrap_err();
        assert!(error.path.ends_with("proc/self/cgroup"), "{error}");
    }
}
