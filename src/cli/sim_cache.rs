//! `k3 sim-cache`: how much of a trace of expert requests a cache would keep.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use std::io::Write as _;

use super::Exit;
use crate::stream::simulate::{Replacement, Replayed, replay};
use crate::stream::trace::{Trace, TraceError};

/// Bytes of a slot for one expert of the release: the expert, and room to widen its read to whole blocks.
const SLOT_BYTES: f64 = 17_555_456.0;

/// Replay expert requests against a cache
#[derive(Args, Clone, Debug)]
pub struct SimCacheArgs {
    /// Trace that `k3 run --trace` wrote
    pub trace: PathBuf,
    /// Which expert makes room for a new one
    #[arg(long, value_enum, default_value = "ours")]
    policy: PolicyName,
    /// Size of the cache in GB (1e9 bytes)
    #[arg(
        long,
        value_name = "X",
        default_value_t = 16.0,
        conflicts_with = "slots"
    )]
    gb: f64,
    /// Size of the cache in experts
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// The trace computed all positions anew for each token: replay the decode steps cut out of it
    #[arg(long)]
    decode: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    /// Least recently used
    Lru,
    /// Least frequently used
    Lfu,
    /// Small and main queue
    #[value(name = "s3fifo")]
    S3Fifo,
    /// Any
    Random,
    /// The engine's own
    Ours,
    /// The best possible, which knows the future
    Belady,
}

impl PolicyName {
    fn replacement(self) -> Replacement {
        match self {
            Self::Lru => Replacement::Lru,
            Self::Lfu => Replacement::Lfu,
            Self::S3Fifo => Replacement::S3Fifo,
            Self::Random => Replacement::Random,
            Self::Ours => Replacement::Ours,
            Self::Belady => Replacement::Belady,
        }
    }

    /// As it is typed.
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// Replays and prints what was retained.
///
/// # Errors
/// The size or the trace is refused.
pub fn run(args: &SimCacheArgs) -> anyhow::Result<()> {
    let report = report(args)?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

fn report(args: &SimCacheArgs) -> Result<String, Exit> {
    let slots = slots(args)?;
    let refuse = |error: TraceError| Exit::Refused(error.to_string());
    let trace = Trace::load(&args.trace).map_err(refuse)?;
    let replacement = args.policy.replacement();
    let mut replayed = if args.decode {
        replay(&trace.decode_steps().map_err(refuse)?, replacement, slots)
    } else {
        replay(trace.steps(), replacement, slots)
    };
    if args.decode {
        // The prompt fills the cache; it is not a step.
        replayed.remove(0);
    }
    let policy = args.policy.name();
    let steps = replayed.len();
    let requests: u64 = replayed.iter().map(|step| step.requests).sum();
    let retained = replayed.iter().map(Replayed::retained).sum::<f64>() / steps.max(1) as f64;
    let last = replayed.last().map_or(0.0, Replayed::retained);
    Ok(if args.json {
        json!({
            "policy": policy, "slots": slots, "requests": requests, "retained": retained, "last": last,
            "steps": steps,
        })
        .to_string()
    } else {
        format!(
            "{policy}, {slots} slots ({:.1} GB): {:.2} % retained over {steps} steps of {requests} requests in all, \
             {:.2} % in the last",
            slots as f64 * SLOT_BYTES / 1e9,
            100.0 * retained,
            100.0 * last
        )
    })
}

/// The size of the cache in experts.
fn slots(args: &SimCacheArgs) -> Result<usize, Exit> {
    match args.slots {
        Some(0) => Err(Exit::Refused(
            "--slots 0 keeps nothing; give 1 or more".into(),
        )),
        Some(slots) => Ok(slots),
        None if args.gb.is_finite() && args.gb * 1e9 >= SLOT_BYTES => {
            Ok((args.gb * 1e9 / SLOT_BYTES).floor() as usize)
        }
        None => Err(Exit::Refused(format!(
            "--gb {} has no room for an expert; give {:.3} or more",
            args.gb,
            (SLOT_BYTES / 1e6).ceil() / 1e3
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        sim: SimCacheArgs,
    }

    fn args(line: &str) -> SimCacheArgs {
        Command::try_parse_from(line.split(' ')).unwrap().sim
    }

    #[test]
    fn sizes_are_slots() {
        for (line, want) in [
            ("k3 t", 911),
            ("k3 t --gb 4", 227),
            ("k3 t --gb 109", 6208),
            ("k3 t --gb 0.017555456", 1),
            ("k3 t --slots 2073", 2073),
        ] {
            assert_eq!(slots(&args(line)).unwrap(), want, "{line}");
        }
        for line in [
            "k3 t --gb 0.0175",
            "k3 t --gb=-4",
            "k3 t --gb nan",
            "k3 t --gb inf",
            "k3 t --slots 0",
        ] {
            assert!(
                matches!(slots(&args(line)), Err(Exit::Refused(_))),
                "{line}"
            );
        }
        for line in [
            "k3",
            "k3 t --gb 4 --slots 5",
            "k3 t --policy fifo",
            "k3 t --slots=-1",
        ] {
            assert!(Command::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn every_policy_has_its_name() {
        for name in ["lru", "lfu", "s3fifo", "random", "ours", "belady"] {
            assert_eq!(args(&format!("k3 t --policy {name}")).policy.name(), name);
        }
        assert_eq!(args("k3 t").policy, PolicyName::Ours);
    }
}
