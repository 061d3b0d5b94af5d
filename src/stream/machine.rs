//! What the machine can give: memory, swap, and the control group's limit. Reads the system's own accounts; decides nothing.

use std::path::{Path, PathBuf};

use super::cgroup::{self, ControlGroup};

/// Memory as the system states it, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Where the system does not tell, `None`: then nothing can be checked.
    pub memory: Option<Memory>,
    /// The control group that leaves the least, where one limits this process.
    pub group: Option<ControlGroup>,
}

/// The memory of the whole system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What can be had without swapping.
    pub available: u64,
    /// What this process has already. A plan is for the whole process, so it is no competitor.
    pub resident: u64,
    /// Free swap. Shown, never planned with: weights in swap are read twice.
    pub swap: u64,
}

/// What holds a plan back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The memory of the machine.
    Memory,
    /// A control group: its folder.
    ControlGroup(PathBuf),
    /// It could not be found out.
    Unknown,
}

/// An account of the system that says something, but nothing that can be used. Going on would risk being killed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {problem}, so how much memory may be used is not known; mount or repair it, or run outside this control group", path.display()
)]
pub struct Garbled {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// Kept below a control group's limit: the kernel charges page tables and other small things to it as well.
pub const GROUP_MARGIN: u64 = 64 << 20;

impl Machine {
    /// What this machine states now.
    ///
    /// # Errors
    /// A file of the system is there and cannot be understood.
    pub fn detect() -> Result<Self, Garbled> {
        Self::under(Path::new("/"))
    }

    /// What the accounts below `root` state: `proc/meminfo`, `proc/self/status`, `proc/self/cgroup`, `sys/fs/cgroup`.
    ///
    /// # Errors
    /// As [`Self::detect`].
    pub fn under(root: &Path) -> Result<Self, Garbled> {
        Ok(Self {
            memory: memory(root)?,
            group: cgroup::tightest(root)?,
        })
    }

    /// Every control group above this process that limits its memory; [`Self::group`] is the one that leaves the least.
    ///
    /// # Errors
    /// As [`Self::detect`].
    pub fn groups() -> Result<Vec<ControlGroup>, Garbled> {
        cgroup::limits(Path::new("/"))
    }

    /// Memory that the whole process may take, and what says so. Under a control group it is the limit itself less
    /// [`GROUP_MARGIN`], not what is free below it: pages of files count as used there and yield, and what this process
    /// has already would be counted twice.
    pub fn available(&self) -> Option<(u64, Limit)> {
        let group = self.group.as_ref().map(|group| {
            let bytes = group.limit.saturating_sub(GROUP_MARGIN);
            (bytes, Limit::ControlGroup(group.path.clone()))
        });
        let memory = self
            .memory
            .map(|memory| (memory.available + memory.resident, Limit::Memory));
        match (memory, group) {
            (Some(memory), Some(group)) if group.0 >= memory.0 => Some(memory),
            (memory, group) => group.or(memory),
        }
    }

    /// Memory that there is for this process, used or not.
    pub fn total(&self) -> Option<u64> {
        let memory = self.memory.map(|memory| memory.total);
        let group = self.group.as_ref().map(|group| group.limit);
        memory.into_iter().chain(group).min()
    }
}

/// `MemTotal`, `MemAvailable` and `SwapFree`, and this process's own share. Nothing where there is no such account.
fn memory(root: &Path) -> Result<Option<Memory>, Garbled> {
    let path = root.join("proc/meminfo");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(None);
    };
    let needed = |field: &str| {
        kilobytes(&text, field).ok_or_else(|| Garbled {
            path: path.clone(),
            problem: format!("it states no {field}"),
        })
    };
    let status = std::fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    Ok(Some(Memory {
        total: needed("MemTotal")?,
        available: needed("MemAvailable")?,
        resident: kilobytes(&status, "VmRSS").unwrap_or(0),
        swap: kilobytes(&text, "SwapFree").unwrap_or(0),
    }))
}

/// The bytes of a line `field:   123 kB`.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn root(meminfo: &str, status: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/meminfo"), meminfo).unwrap();
        fs::write(root.path().join("proc/self/status"), status).unwrap();
        root
    }

    #[test]
    fn the_systems_account_is_read() {
        let root = root(
            "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\nSwapFree: 7 kB\n",
            "Name:\tk3\nVmHWM:\t 90 kB\nVmRSS:\t      50 kB\n",
        );
        let machine = Machine::under(root.path()).unwrap();
        let memory = machine.memory.unwrap();
        assert_eq!(
            [memory.total, memory.available, memory.resident, memory.swap],
            [1000, 600, 50, 7].map(|k| k * 1024)
        );
        assert_eq!(machine.available(), Some((650 * 1024, Limit::Memory)));
        assert_eq!(machine.total(), Some(1000 * 1024));
    }

    #[test]
    fn an_account_without_its_figures_is_refused_and_none_at_all_is_unknown() {
        for garbled in [
            "",
            "MemTotal: 1000 kB\n",
            "MemTotal: x kB\nMemAvailable: 1 kB\n",
        ] {
            let root = root(garbled, "");
            let error = Machine::under(root.path()).unwrap_err().to_string();
            assert!(error.contains("proc/meminfo"), "{error}");
        }
        let empty = tempfile::tempdir().unwrap();
        let machine = Machine::under(empty.path()).unwrap();
        assert_eq!((machine.available(), machine.total()), (None, None));
    }

    fn machine(available: u64, limit: u64, usage: u64) -> Machine {
        Machine {
            memory: Some(Memory {
                total: 64 << 30,
                available,
                ..Memory::default()
            }),
            group: Some(ControlGroup {
                path: "group".into(),
                limit,
                usage,
            }),
        }
    }

    /// Trouble report 22: with most of the limit used by pages of files, a run that fits was refused.
    #[test]
    fn trouble_22_a_cap_counts_whole_whatever_its_usage() {
        let (bytes, limit) = machine(60 << 30, 8 << 30, 7 << 30).available().unwrap();
        assert_eq!(bytes, (8 << 30) - 64 * MIB);
        assert_eq!(limit, Limit::ControlGroup("group".into()));
    }

    #[test]
    fn the_smaller_of_memory_and_group_binds() {
        let (bytes, limit) = machine(4 << 30, 8 << 30, 0).available().unwrap();
        assert_eq!((bytes, limit), (4 << 30, Limit::Memory));
        assert_eq!(machine(4 << 30, 8 << 30, 0).total(), Some(8 << 30));
        assert_eq!(machine(4 << 30, MIB, 0).available().unwrap().0, 0);
    }

    /// The accounts of the system that this test runs on can be read, where it keeps them.
    #[test]
    fn this_machine_is_understood() {
        let machine = Machine::detect().unwrap();
        assert_eq!(
            machine.memory.is_some(),
            Path::new("/proc/meminfo").exists()
        );
        if let Some(memory) = machine.memory {
            assert!(memory.total >= memory.available && memory.resident > 0);
        }
    }
}
