//! What the machine says about itself.

/// The largest resident size this process has had, in bytes, where the system tells.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    crate::engine::telemetry::status_bytes("VmHWM:")
}
