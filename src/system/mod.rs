//! What differs between systems, and nothing else: whatever asks which system this is stands here. The one exception is the
//! mapping of memory in [`crate::stream`], which is unsafe and belongs to its buffers. What was compiled and run where:
//! `docs/building.md`.

mod files;
mod lock_file;
mod signals;
mod stderr;

pub use files::{
    allocated, device, free, in_memory, is_program, open_direct, others_may_read, owner_only,
    owner_only_folder, read_at, readable_by_all, sync_folder,
};
pub use lock_file::LockFile;
pub use signals::{Signal, Signals, die_of, flag_at_interrupt, stop_group};
pub use stderr::RealStderr;

/// Cores that this process may use; one where the system does not say.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Has the calling thread give way to others, where the system has priorities for threads.
pub fn give_way() {
    /// How much lower the priority becomes.
    #[cfg(target_os = "linux")]
    const COURTESY: i32 = 5;
    /// Lower it does not go.
    #[cfg(target_os = "linux")]
    const LOWEST: i32 = 19;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        // Of the calling thread, on this system. Where it is refused, things stay as they are: only keys are answered later.
        let lower = |now: i32| setpriority_process(None, (now + COURTESY).min(LOWEST));
        let _ = getpriority_process(None).and_then(lower);
    }
}
