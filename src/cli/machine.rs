//! What the machine says about itself.

/// Threads to compute with when none are asked for.
pub(super) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The largest resident size this process has had, in bytes, where the system tells.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    crate::engine::telemetry::status_bytes("VmHWM:")
}
