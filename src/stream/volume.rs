//! The file system that a folder or file is on: its type, which drive, and the room on it. Reads the system's own accounts;
//! measures nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::system;

/// What the system says of the place where a path is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Type of the file system, as `ext4`; none where the system does not tell.
    pub file_system: Option<String>,
    /// What is mounted there: a drive, a part of one, a server.
    pub source: Option<String>,
    /// A number of the drive, or the part of one.
    pub device: Option<u64>,
    /// Bytes that this user may still write.
    pub free_bytes: Option<u64>,
}

impl Volume {
    /// Of an existing path. What the system does not tell is none.
    pub fn of(path: &Path) -> Self {
        let (file_system, source) = mount(path).unzip();
        Self {
            file_system,
            source,
            device: system::device(path),
            free_bytes: system::free(path),
        }
    }
}

/// Type and source of the file system at `path`, from Linux's table of mounts; elsewhere there is no such file.
fn mount(path: &Path) -> Option<(String, String)> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    find(&table, &fs::canonicalize(path).ok()?)
}

/// The line of proc(5) `mountinfo` whose mount point is nearest above `path`. Of several mounted over each other the last
/// is the one that is seen.
fn find(table: &str, path: &Path) -> Option<(String, String)> {
    let mut best: Option<(usize, (String, String))> = None;
    for line in table.lines() {
        // ID parent major:minor root POINT options [optional fields] - TYPE SOURCE super-options
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let Some(point) = before.split(' ').nth(4) else {
            continue;
        };
        let mut after = after.split(' ');
        let (Some(kind), Some(source)) = (after.next(), after.next()) else {
            continue;
        };
        let point = unescaped(point);
        if !path.starts_with(&point) {
            continue;
        }
        let depth = point.components().count();
        if best.as_ref().is_none_or(|(most, _)| depth >= *most) {
            let source = unescaped(source).display().to_string();
            best = Some((depth, (kind.to_owned(), source)));
        }
    }
    best.map(|(_, found)| found)
}

/// Blanks, tabs, line ends and backslashes stand in the table as octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut out = text.to_owned();
    for (code, plain) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        out = out.replace(code, plain);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:26 / /proc rw - proc proc rw
41 22 8:1 / /mnt/my\\040drive rw shared:5 master:2 - xfs /dev/sda1 rw
42 41 0:50 / /mnt/my\\040drive/net rw - nfs4 server:/export\\040a rw
43 22 0:51 / /over rw - ext4 /dev/old rw
44 22 0:52 / /over rw - tmpfs none rw
garbled
";

    #[test]
    fn the_nearest_mount_above_a_path_is_found() {
        let of = |path: &str| find(TABLE, Path::new(path));
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(of("/home/x"), pair("ext4", "/dev/nvme0n1p2"));
        assert_eq!(of("/mnt/my drive/model"), pair("xfs", "/dev/sda1"));
        assert_eq!(
            of("/mnt/my drive/net/model"),
            pair("nfs4", "server:/export a")
        );
        assert_eq!(of("/mnt/my drive 2"), pair("ext4", "/dev/nvme0n1p2"));
        assert_eq!(of("/over/x"), pair("tmpfs", "none"));
        assert_eq!(find("", Path::new("/")), None);
    }

    #[test]
    fn a_folder_here_is_on_some_drive() {
        let dir = tempfile::tempdir().unwrap();
        let volume = Volume::of(dir.path());
        assert_eq!(
            volume.file_system.is_some(),
            Path::new("/proc/self/mountinfo").exists()
        );
        assert_eq!(volume.device.is_some(), cfg!(unix));
        assert_eq!(Volume::of(&dir.path().join("none")), Volume::default());
    }
}
