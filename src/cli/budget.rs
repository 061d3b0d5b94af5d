//! The flags of a memory plan, shared by every command that opens a model. Reading them; the plan is made elsewhere.

use std::path::PathBuf;

use clap::Args;

use super::Exit;
use crate::checkpoint::Config;
use crate::stream::{Preset, Request};

/// Positions that are planned when none are asked for.
pub(super) const CONTEXT: usize = 8192;

/// How much memory a model may take.
#[derive(Args, Clone, Debug, Default)]
pub struct BudgetArgs {
    /// ultra, laptop, desktop, workstation, server, max or auto
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub preset: Preset,
    /// Folder of a packed trunk, made by `k3 pack` or the C engine's packer (default: straight from the shards)
    #[arg(long, value_name = "DIR")]
    pub trunk: Option<PathBuf>,
    /// Memory for the trunk, pinned parts and ring together, in GB
    #[arg(long, value_name = "X", value_parser = gigabytes, allow_negative_numbers = true)]
    pub trunk_gb: Option<u64>,
    /// Memory for experts, in GB
    #[arg(long, value_name = "X", value_parser = gigabytes, allow_negative_numbers = true)]
    pub cache_gb: Option<u64>,
    /// Slots of the ring that the rest of the trunk streams through (default: 4; 2 or more to overlap)
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub trunk_ring: Option<usize>,
    /// Positions to plan for
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub context: Option<usize>,
    /// Threads to compute with (default: all cores)
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

impl BudgetArgs {
    /// What to ask of a plan, for one position's logits at a time and no kept states. `context` is planned when none
    /// was asked for, or less where the model's longest is less.
    ///
    /// # Errors
    /// More positions were asked for than the model has.
    pub fn request(&self, config: &Config, context: usize) -> Result<Request, Exit> {
        let longest = config.max_positions.unwrap_or(usize::MAX);
        let context = self.context.unwrap_or(context.min(longest));
        if context > longest {
            return Err(Exit::Refused(format!(
                "--context {context}: the model has at most {longest} positions"
            )));
        }
        let usual = Request::of(self.preset, context);
        Ok(Request {
            trunk: self.trunk_gb,
            cache: self.cache_gb,
            ring: self.trunk_ring,
            threads: self.threads.unwrap_or(usual.threads),
            kept_states: 0,
            ..usual
        })
    }
}

/// Bytes from decimal gigabytes: digits, perhaps with a point, and nothing else.
pub(super) fn gigabytes(text: &str) -> Result<u64, String> {
    decimal(text).map(|gigabytes| (gigabytes * 1e9).round() as u64)
}

/// A rate above zero in GB/s.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match decimal(text)? {
        0.0 => Err("a rate must be above 0".into()),
        rate => Ok(rate),
    }
}

fn decimal(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e6;
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && text.bytes().any(|b| b.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(number) if plain && number <= MOST => Ok(number),
        Ok(_) if plain => Err(format!("the most is {MOST}")),
        _ => Err("a number of gigabytes is needed, such as 3 or 0.5".into()),
    }
}

/// A number of things, at least one.
pub(super) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        // The standard parser takes a leading plus.
        Ok(count) if !text.starts_with('+') => Ok(count),
        _ => Err("a whole number is needed".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        budget: BudgetArgs,
    }

    fn parse(line: &str) -> Result<BudgetArgs, clap::Error> {
        Command::try_parse_from(format!("k3 {line}").split_whitespace()).map(|c| c.budget)
    }

    #[test]
    fn flags_are_read() {
        let line =
            "--trunk-gb 2.5 --preset ultra --cache-gb .31 --trunk-ring 8 --threads 3 --context 7";
        let request = parse(line)
            .unwrap()
            .request(&Config::released(), CONTEXT)
            .unwrap();
        let want = Request {
            preset: Preset::Ultra,
            trunk: Some(2_500_000_000),
            cache: Some(310_000_000),
            ring: Some(8),
            context: 7,
            threads: 3,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        };
        assert_eq!(request, want);
        let request = parse("").unwrap().request(&Config::released(), CONTEXT);
        let request = request.unwrap();
        assert_eq!((request.preset, request.context), (Preset::Auto, CONTEXT));
        assert!(request.trunk.is_none() && request.cache.is_none() && request.ring.is_none());
        assert!(request.threads >= 1);
    }

    /// A lenient reader once took "abc" for 0.
    #[test]
    fn what_is_no_number_is_refused() {
        for wrong in [
            "abc", "", "-1", "+1", "1e3", "nan", "inf", "1.2.3", ".", "0x10", "1,5", "1GB",
            "1000001",
        ] {
            for flag in ["--trunk-gb", "--cache-gb"] {
                assert!(parse(&format!("{flag} {wrong}")).is_err(), "{flag} {wrong}");
            }
        }
        assert_eq!(parse("--trunk-gb 0").unwrap().trunk_gb, Some(0));
        for wrong in ["0", "-1", "+1", "1.5", "x", "99999999999999999999"] {
            for flag in ["--trunk-ring", "--context", "--threads"] {
                assert!(parse(&format!("{flag} {wrong}")).is_err(), "{flag} {wrong}");
            }
        }
        let error = parse("--preset huge").unwrap_err().to_string();
        assert!(error.contains("workstation"), "{error}");
        assert!(rate("0").is_err() && rate("2.5") == Ok(2.5));
    }

    #[test]
    fn no_more_positions_than_the_model_has() {
        let request = |line| parse(line).unwrap().request(&Config::released(), CONTEXT);
        let error = request("--context 1048577").unwrap_err().to_string();
        assert!(error.contains("1048576"), "{error}");
        let short = Config {
            max_positions: Some(100),
            ..Config::released()
        };
        let default = parse("").unwrap().request(&short, CONTEXT).unwrap();
        assert_eq!(default.context, 100);
    }
}
