//! What the machine says about itself.

/// The largest resident size this process has had, in bytes, where the system tells.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    crate::engine::telemetry::status_bytes("VmHWM:")
}

/// What the processor calls itself, where the system tells.
pub(super) fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// How many tasks have wanted a processor in the last minute, on the average, where the system tells.
pub(super) fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Operating system, its version where it tells, and the architecture.
pub(super) fn system() -> String {
    let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    match std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(release) => format!("{system} {} {architecture}", release.trim()),
        Err(_) => format!("{system} {architecture}"),
    }
}
