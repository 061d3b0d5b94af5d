//! The flags of sampling, shared by every command that chooses tokens. Reading them; choosing is `chat`'s.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::chat::{Draw, Sampling, TEMPERATURE, TOP_P};
use crate::cli::say;

/// How tokens are chosen: greedily unless one of the first four is given.
#[derive(Args, Clone, Debug, Default)]
pub struct SamplingArgs {
    /// Draw tokens, logits divided by this (1 where only others of these flags are given)
    #[arg(long, value_name = "X", value_parser = temperature, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Draw from the most probable tokens that together reach this share (0.95 where only others are given)
    #[arg(long, value_name = "P", value_parser = share, allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Draw from at most so many tokens
    #[arg(long, value_name = "K", value_parser = most, allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Draw the same tokens again (left out: from the clock, and shown)
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Always the most probable token, whatever else is given
    #[arg(long)]
    pub greedy: bool,
}

impl SamplingArgs {
    /// What was asked for. A seed that was not given is taken from the clock and shown on standard error, so that the
    /// run can be repeated.
    pub fn sampling(&self) -> Sampling {
        let sampling = self.with_seed(clock);
        if let (Sampling::Draw(Draw { seed, .. }), None) = (&sampling, self.seed) {
            say!("k3: drawing with --seed {seed}");
        }
        sampling
    }

    fn with_seed(&self, other: impl FnOnce() -> u64) -> Sampling {
        let Self {
            temperature,
            top_p,
            top_k,
            seed,
            greedy,
        } = *self;
        let drawn = temperature.is_some() || top_p.is_some() || top_k.is_some() || seed.is_some();
        if greedy || !drawn {
            return Sampling::Greedy;
        }
        Sampling::Draw(Draw {
            temperature: temperature.unwrap_or(TEMPERATURE),
            top_p: top_p.unwrap_or(TOP_P),
            top_k,
            seed: seed.unwrap_or_else(other),
        })
    }
}

/// How tokens are chosen, for a person.
pub(super) fn words(sampling: &Sampling) -> String {
    match sampling {
        Sampling::Greedy => "always the most probable token".into(),
        Sampling::Draw(draw) => format!(
            "drawing with temperature {}, top-p {}{}, seed {}",
            draw.temperature,
            draw.top_p,
            draw.top_k.map_or(String::new(), |k| format!(", top-k {k}")),
            draw.seed
        ),
    }
}

/// A seed that no other run has. The process's number keeps two apart that start together.
pub(super) fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos() as u64);
    nanoseconds ^ u64::from(std::process::id()).rotate_left(40)
}

/// A finite number: digits, perhaps a point and an exponent. No sign in front, no names of numbers.
fn number(text: &str) -> Option<f64> {
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|n: &f64| begins && n.is_finite())
}

pub(super) fn temperature(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|n| *n > 0.0)
        .ok_or_else(|| "a number above 0 is needed, such as 0.7".into())
}

fn share(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|n| *n > 0.0 && *n <= 1.0)
        .ok_or_else(|| "a number above 0 and at most 1 is needed, such as 0.9".into())
}

fn most(text: &str) -> Result<usize, String> {
    digits(text)
        .and_then(|digits| digits.parse().ok())
        .filter(|most| *most > 0)
        .ok_or_else(|| "a whole number is needed, 1 or more".into())
}

pub(super) fn seed(text: &str) -> Result<u64, String> {
    digits(text)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| "a whole number from 0 to 18446744073709551615 is needed".into())
}

/// The text if it is digits alone; the standard parser takes a leading plus.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn parse(line: &str) -> Result<Sampling, clap::Error> {
        let line = format!("k3 {line}");
        let command = Command::try_parse_from(line.split(' ').filter(|word| !word.is_empty()))?;
        Ok(command.sampling.with_seed(|| 99))
    }

    fn drawn(line: &str) -> (f64, f64, Option<usize>, u64) {
        match parse(line).unwrap() {
            Sampling::Draw(draw) => (draw.temperature, draw.top_p, draw.top_k, draw.seed),
            Sampling::Greedy => panic!("{line}: greedy"),
        }
    }

    #[test]
    fn any_of_four_flags_draws_and_greedy_overrides() {
        assert_eq!(parse("").unwrap(), Sampling::Greedy);
        assert_eq!(drawn("--temperature 0.5"), (0.5, 0.95, None, 99));
        assert_eq!(drawn("--top-p 1"), (1.0, 1.0, None, 99));
        assert_eq!(drawn("--top-k 7"), (1.0, 0.95, Some(7), 99));
        let most = "--seed 18446744073709551615 --temperature 1e-3 --top-p .25";
        assert_eq!(drawn(most), (0.001, 0.25, None, u64::MAX));
        assert_eq!(parse("--greedy").unwrap(), Sampling::Greedy);
        assert_eq!(
            parse("--seed 1 --top-k 2 --greedy").unwrap(),
            Sampling::Greedy
        );
    }

    #[test]
    fn what_is_out_of_bounds_or_no_number_is_refused() {
        for (flag, wrong) in [
            (
                "--temperature",
                "0 -1 +1 nan inf NaN infinity 1x x 1e999 0x1 1,5",
            ),
            ("--top-p", "0 -0.5 +0.5 1.01 nan inf 0.5x"),
            ("--top-k", "0 -1 +1 1.5 1x nan 99999999999999999999"),
            ("--seed", "-1 +1 1x 1.0 nan 0x1 18446744073709551616"),
        ] {
            for wrong in wrong.split(' ') {
                assert!(parse(&format!("{flag} {wrong}")).is_err(), "{flag} {wrong}");
                // Not for greedy runs either.
                assert!(parse(&format!("--greedy {flag}={wrong}")).is_err());
            }
            assert!(parse(&format!("{flag}=")).is_err(), "{flag}");
        }
    }
}
