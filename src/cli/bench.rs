//! `k3 bench`: what this machine gives. The measuring itself is the library's; here are the tables.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::bench_decode::{self, DecodeArgs};
use super::bench_file::BenchFile;
use super::bench_kernels::{self, KernelsArgs};
use super::exit::Exit;
use super::provenance::Provenance;
use super::say;
use crate::stream::measure::{Case, Pattern, Rate, Rates, measure_direct};
use crate::stream::{Pages, ReadAt, Volume};

/// Repeats of each row, of which the middle one is reported.
const REPEATS: usize = 5;

/// Measure this machine.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand, Debug)]
enum Bench {
    /// How fast files can be read past the page cache, as the engine reads them
    Io(IoArgs),
    /// How fast weights are multiplied, as a share of what memory and processor give
    Kernels(KernelsArgs),
    /// What a token costs, resident and streamed, and a token of a prompt, as shares of what binds them
    Decode(DecodeArgs),
}

#[derive(Args, Debug)]
struct IoArgs {
    /// The file to read, or a folder: its largest file, else a temporary one of 1 GiB
    path: PathBuf,
    /// Seconds for each row
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
/// [`Exit::Refused`] for a file or a time that cannot be used, [`Exit::NotWritten`], else what went wrong while
/// reading; no memory.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.what {
        Bench::Io(args) => io(args),
        Bench::Kernels(args) => bench_kernels::run(args),
        Bench::Decode(args) => bench_decode::run(args),
    }
}

fn io(args: &IoArgs) -> anyhow::Result<()> {
    let sample = sample_time(args.seconds, REPEATS)?;
    let cases = Case::usual();
    let chosen = BenchFile::choose(&args.path)?;
    say!(
        "reading {}: about {:.0} seconds",
        chosen.name,
        cases.len() as f64 * args.seconds
    );
    let made = Provenance::now();
    let volume = Volume::of(&args.path);
    let rates = measure_direct(&chosen.file, &cases, REPEATS, sample)?;
    let text = if args.json {
        let mut json = to_json(&chosen.name, chosen.file.len(), &rates, REPEATS);
        json["made"] = serde_json::to_value(made)?;
        json["file_system"] = json!(volume.file_system);
        format!("{json:#}\n")
    } else {
        let file_system = volume.file_system.unwrap_or("file system not known".into());
        format!(
            "{}{file_system}, {:.2} GB, {REPEATS} repeats of {:.2} s a row\n\n{}",
            made.text(),
            chosen.file.len() as f64 / 1e9,
            sample.as_secs_f64(),
            to_text(&rates)
        )
    };
    print(&text)
}

/// Writes what was measured so far.
///
/// # Errors
/// [`Exit::NotWritten`].
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(written.map_err(|e| Exit::NotWritten(format!("standard output cannot be written: {e}")))?)
}

/// The time of one of so many samples.
///
/// # Errors
/// [`Exit::Refused`] for a time that cannot be measured in.
pub(super) fn sample_time(seconds: f64, samples: usize) -> Result<Duration, Exit> {
    if seconds > 0.0 && seconds <= 3600.0 {
        return Ok(Duration::from_secs_f64(seconds / samples as f64));
    }
    Err(Exit::Refused(format!(
        "--seconds {seconds} cannot be used: give more than 0, and at most 3600"
    )))
}

fn pattern(rate: &Rate) -> &'static str {
    match rate.case.pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    }
}

/// Size of the pages that the buffers of a row stood on, where the system says: what was granted, not what was asked.
fn pages(rate: &Rate) -> &'static str {
    match (rate.huge, rate.case.pages) {
        (Some(true), _) => "2 MiB",
        (Some(false), _) => "ordinary",
        (None, Pages::Huge) => "2 MiB asked",
        (None, Pages::Ordinary) => "unknown",
    }
}

/// Whether rows that asked for huge pages got them; none where the system does not say.
pub(super) fn huge_granted(rates: &Rates) -> Option<bool> {
    let asked = rates.rates.iter().filter(|r| r.case.pages == Pages::Huge);
    asked
        .map(|rate| rate.huge)
        .try_fold(true, |all, huge| Some(all && huge?))
}

/// A table of what was measured, and what it means.
pub(super) fn to_text(rates: &Rates) -> String {
    let mut text = format!(
        "{:<12}{:>10}{:>11}{:>14}{:>13}{:>10}{:>10}\n",
        "reads", "MB each", "in flight", "pages", "GB/s median", "lowest", "highest"
    );
    for rate in &rates.rates {
        text += &format!(
            "{:<12}{:>10.2}{:>11}{:>14}{:>13.2}{:>10.2}{:>10.2}\n",
            pattern(rate),
            rate.case.bytes as f64 / 1e6,
            rate.case.in_flight,
            pages(rate),
            rate.median() / 1e9,
            rate.lowest() / 1e9,
            rate.highest() / 1e9
        );
    }
    let best = rates.best();
    text += &format!(
        "limit: {:.2} GB/s ({}, {} in flight)\n",
        best.median() / 1e9,
        pattern(best),
        best.case.in_flight
    );
    text += match rates.direct {
        true => "direct: yes, past the page cache\n",
        false => {
            "direct: NO, this file system has no direct reads: these are rates of the page cache, not of the drive\n"
        }
    };
    text += match huge_granted(rates) {
        Some(true) => "2 MiB pages: granted\n",
        Some(false) => {
            "2 MiB pages: NOT granted, reads are slower for it; on Linux set \
             /sys/kernel/mm/transparent_hugepage/enabled to madvise\n"
        }
        None => "2 MiB pages: the system does not say\n",
    };
    text
}

/// The same for scripts. `name` and `bytes` are of the file that was read.
pub(super) fn to_json(name: &str, bytes: u64, rates: &Rates, repeats: usize) -> Value {
    let row = |rate: &Rate| {
        json!({
            "pattern": pattern(rate),
            "read_bytes": rate.case.bytes,
            "in_flight": rate.case.in_flight,
            "huge_pages_asked": rate.case.pages == Pages::Huge,
            "huge_pages": rate.huge,
            "bytes_per_s": rate.median(),
            "bytes_per_s_lowest": rate.lowest(),
            "bytes_per_s_highest": rate.highest(),
        })
    };
    let rows: Vec<Value> = rates.rates.iter().map(row).collect();
    json!({
        "file": name,
        "file_bytes": bytes,
        "direct": rates.direct,
        "huge_pages": huge_granted(rates),
        "repeats": repeats,
        "limit_bytes_per_s": rates.best().median(),
        "rows": rows,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::stream::{BLOCK, DirectFile};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn arguments_are_read_and_times_checked() {
        let parse = |line: &str| Command::try_parse_from(line.split(' ')).map(|c| c.bench.what);
        let Ok(Bench::Io(args)) = parse("bench io dir --seconds 0.5 --json") else {
            panic!("not what was said");
        };
        assert_eq!((args.path, args.json), ("dir".into(), true));
        assert_eq!(
            sample_time(args.seconds, REPEATS).unwrap(),
            Duration::from_millis(100)
        );
        for wrong in [
            "bench",
            "bench io",
            "bench disk dir",
            "bench io dir --seconds x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 3601.0] {
            assert!(sample_time(wrong, 1).is_err(), "{wrong}");
        }
    }

    /// Small reads of a small file, measured for no time: each reader reads once.
    fn small(direct: bool) -> Rates {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; 4 * BLOCK]).unwrap();
        let cases = [
            (Pattern::Sequential, Pages::Huge),
            (Pattern::Random, Pages::Ordinary),
        ];
        let cases = cases.map(|(pattern, pages)| Case {
            pattern,
            bytes: BLOCK,
            in_flight: 2,
            pages,
        });
        let file = if direct {
            DirectFile::open(&path)
        } else {
            DirectFile::open_buffered(&path)
        };
        measure_direct(&file.unwrap(), &cases, REPEATS, Duration::ZERO).unwrap()
    }

    #[test]
    fn json_and_text_say_the_same() {
        let rates = small(true);
        let (text, json) = (to_text(&rates), to_json("a file", 9, &rates, 3));
        assert_eq!(
            (&json["file"], &json["file_bytes"]),
            (&json!("a file"), &json!(9))
        );
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        let mut best = 0.0_f64;
        for (row, line) in rows.iter().zip(text.lines().skip(1)) {
            let rate = row["bytes_per_s"].as_f64().unwrap();
            best = best.max(rate);
            assert!(line.starts_with(row["pattern"].as_str().unwrap()), "{line}");
            assert!(line.contains(&format!("{:.2}", rate / 1e9)), "{line}");
            assert_eq!(
                (&row["read_bytes"], &row["in_flight"]),
                (&json!(BLOCK), &json!(2))
            );
        }
        assert_eq!(json["limit_bytes_per_s"].as_f64(), Some(best));
        assert_eq!(json["direct"] == json!(true), text.contains("direct: yes"));
    }

    #[test]
    fn buffered_reads_are_called_what_they_are() {
        let rates = small(false);
        assert!(to_text(&rates).contains("direct: NO"));
        assert_eq!(to_json("", 0, &rates, 3)["direct"], json!(false));
    }

    #[test]
    fn huge_pages_are_reported_as_granted_only_when_all_were() {
        let mut rates = small(true);
        for (huge, granted) in [
            (Some(true), Some(true)),
            (Some(false), Some(false)),
            (None, None),
        ] {
            rates.rates[0].huge = huge;
            assert_eq!(huge_granted(&rates), granted);
        }
        assert_eq!(pages(&rates.rates[0]), "2 MiB asked");
        rates.rates[0].huge = Some(false);
        assert_eq!(pages(&rates.rates[0]), "ordinary");
        assert!(to_text(&rates).contains("NOT granted"));
    }
}
