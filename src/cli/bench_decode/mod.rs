//! `k3 bench decode`: what a token costs, and a token of a prompt, beside what binds them: memory, drive and processor. Here are
//! the flags and the tables.

mod measured;
mod sizes;
mod subject;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use self::measured::{Extra, Far, Limits, Prompt, Resident, Streamed};
pub use self::sizes::Size;
use self::subject::Subject;
use super::bench::print;
use crate::stream::Split;

/// What to measure, and how to tell it.
#[derive(Args, Debug, Default)]
pub struct DecodeArgs {
    /// A model (default: a synthetic one, made in the temporary folder and removed)
    pub model: Option<PathBuf>,
    /// Which synthetic model: mid takes 4.2 GB on the drive and in memory, slice 9.5 GB and has the released widths
    #[arg(
        long,
        value_enum,
        value_name = "SIZE",
        default_value = "mid",
        conflicts_with = "model"
    )]
    pub size: Size,
    /// Gigabytes of trunk in memory where weights are streamed (default: 26 % of it)
    #[arg(long, value_name = "GB", value_parser = super::budget::gigabytes, allow_negative_numbers = true)]
    pub trunk: Option<u64>,
    /// Leave out what needs all weights in memory
    #[arg(long)]
    pub streamed_only: bool,
    /// Threads (default: all)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints. A row is printed when it is done.
///
/// # Errors
/// The model cannot be made or read, or memory does not hold it: [`Exit::Refused`](super::exit::Exit::Refused); [`Exit::NotWritten`](super::exit::Exit::NotWritten).
pub fn run(args: &DecodeArgs) -> anyhow::Result<()> {
    let subject = Subject::open(args)?;
    let mut report = Report {
        told: json!({
            "model": subject.name,
            "threads": subject.threads,
            "trunk_and_head_bytes_per_token": subject.shape.walk(),
            "expert_bytes_per_token": subject.expert_bytes(),
        }),
        quiet: args.json,
    };
    report.line(&format!(
        "{}: trunk and head {:.3} GB, experts {:.3} GB a token; {} threads\n",
        subject.name,
        subject.shape.walk() as f64 / 1e9,
        subject.expert_bytes() as f64 / 1e9,
        subject.threads
    ))?;
    let limits = Limits::new(subject.threads)?;
    let resident = match args.streamed_only {
        true => None,
        false => Some(in_memory(&subject, &limits, &mut report)?),
    };
    let streamed = subject.streamed(args.trunk)?;
    streamed_rows(&subject, &limits, streamed, resident, &mut report)?;
    if args.json {
        let told = format!("{:#}\n", report.told);
        print(&told)?;
    }
    Ok(())
}

/// Everything that needs all weights in memory. Gives the best seconds a token.
fn in_memory(subject: &Subject, limits: &Limits, report: &mut Report) -> anyhow::Result<f64> {
    let mut network = subject.resident()?;
    report.line("\nresident: s/token, GB/s, memory GB/s, share\n")?;
    let mut rows = Vec::new();
    measured::resident(&mut network, limits, subject.token_bytes(), |row| {
        rows.push(row);
        report.line(&resident_row(&row))
    })?;
    let best = |figure: fn(&Resident) -> f64| rows.iter().map(figure).fold(0.0, f64::max);
    let (rate, memory) = (best(|row| row.rate), best(|row| row.memory));
    report.line(&format!(
        "best against best {:.0} %\n",
        100.0 * rate / memory
    ))?;
    report.tell("resident", rows.iter().map(resident_json).collect());
    let seconds = subject.token_bytes() as f64 / rate;

    report.line("\nprompt, resident: tokens, s, ms/token, s/token of decode in turns, times faster, GFMA/s of its products while they run, limit, share\n")?;
    let mut rows = Vec::new();
    measured::prompts(&mut network, limits, |row| {
        report.line(&prompt_row(&row))?;
        rows.push(prompt_json(&row));
        Ok(())
    })?;
    report.tell("prompt", rows);

    report.line("\npositions checked in one pass, resident: s a pass, times one position\n")?;
    let mut rows = Vec::new();
    measured::extra(&mut network, |row: Extra| {
        let times = row.seconds / row.one;
        report.line(&format!(
            "{:>5} {:>9.4} {times:>7.2}\n",
            row.positions, row.seconds
        ))?;
        rows.push(
            json!({ "positions": row.positions, "seconds": row.seconds, "times_one": times }),
        );
        Ok(())
    })?;
    report.tell("extra_positions", rows);

    report.line("\ncontext: positions, s/token, times 64 positions\n")?;
    let mut rows = Vec::new();
    measured::context(&mut network, |row: Far| {
        let times = row.seconds / row.near;
        report.line(&format!(
            "{:>7} {:>9.4} {times:>7.2}\n",
            row.positions, row.seconds
        ))?;
        rows.push(json!({ "positions": row.positions, "seconds": row.seconds, "times_64": times }));
        Ok(())
    })?;
    report.tell("context", rows);
    Ok(seconds)
}

/// Decode and a prompt with a part of the trunk in memory.
fn streamed_rows(
    subject: &Subject,
    limits: &Limits,
    mut network: crate::model::Network,
    resident: Option<f64>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let drive = subject.drive()?;
    let both = measured::both(limits, &drive)?;
    report.line(&format!(
        "\nwhile all threads read memory: drive {:.2} GB/s, memory {:.2} GB/s\n",
        both.drive / 1e9,
        both.memory / 1e9
    ))?;
    report.tell(
        "drive_beside_memory",
        vec![json!({ "drive_bytes_per_s": both.drive, "memory_bytes_per_s": both.memory })],
    );
    report.line(&format!(
        "\nstreamed, {:.0} % of the trunk in memory: s/token, GB read, drive GB/s, s of reading, times the larger of reading and computing, times what drive and memory give together\n",
        100.0 * network.trunk_counters().bytes_pinned as f64 / subject.shape.walk() as f64
    ))?;
    let mut rows = Vec::new();
    let mut best = f64::MAX;
    measured::streamed(&mut network, &drive, |row: Streamed| {
        let binds = row
            .reading()
            .max(resident.unwrap_or(row.split.computed.as_secs_f64()));
        let together = both.seconds(subject.token_bytes() as f64, row.bytes, row.drive);
        best = best.min(row.seconds);
        report.line(&format!(
            "{:>9.4} {:>8.3} {:>8.2} {:>8.3} {:>7.2} {:>7.2}   {}\n",
            row.seconds,
            row.bytes / 1e9,
            row.drive / 1e9,
            row.reading(),
            row.seconds / binds,
            row.seconds / together,
            parts(&row.split)
        ))?;
        rows.push(json!({
            "seconds_per_token": row.seconds, "bytes_per_token": row.bytes, "drive_bytes_per_s": row.drive,
            "seconds_reading": row.reading(), "times_larger": row.seconds / binds, "times_together": row.seconds / together,
            "parts": parts_json(&row.split),
        }));
        Ok(())
    })?;
    report.tell("streamed", rows);

    let row = measured::streamed_prompt(&mut network)?;
    let times = best * row.tokens as f64 / row.seconds;
    report.line(&format!(
        "\nprompt, streamed: {} tokens in {:.2} s, {:.1} ms each, {times:.1} times faster than decode; {:.3} GB read in {} passes\n",
        row.tokens,
        row.seconds,
        1e3 * row.seconds / row.tokens as f64,
        row.bytes / 1e9,
        row.passes
    ))?;
    report.tell(
        "prompt_streamed",
        vec![json!({
            "tokens": row.tokens, "seconds": row.seconds, "times_decode": times, "bytes": row.bytes, "passes": row.passes,
        })],
    );
    Ok(())
}

/// What was measured so far: printed row by row, or kept for the end.
struct Report {
    told: Value,
    quiet: bool,
}

impl Report {
    fn line(&self, text: &str) -> anyhow::Result<()> {
        match self.quiet {
            true => Ok(()),
            false => print(text),
        }
    }

    fn tell(&mut self, name: &str, rows: Vec<Value>) {
        self.told[name] = rows.into();
    }
}

fn resident_row(row: &Resident) -> String {
    format!(
        "{:>9.4} {:>8.2} {:>8.2} {:>7.0} %   {}\n",
        row.seconds,
        row.rate / 1e9,
        row.memory / 1e9,
        100.0 * row.rate / row.memory,
        parts(&row.split)
    )
}

fn resident_json(row: &Resident) -> Value {
    json!({
        "seconds_per_token": row.seconds, "bytes_per_s": row.rate, "memory_bytes_per_s": row.memory,
        "share": row.rate / row.memory, "parts": parts_json(&row.split),
    })
}

fn prompt_row(row: &Prompt) -> String {
    let each = row.seconds / row.tokens as f64;
    format!(
        "{:>5} {:>9.3} {:>8.2} {:>8.4} {:>7.2} {:>8.1} {:>8.1} {:>7.0} %   {}\n",
        row.tokens,
        row.seconds,
        1e3 * each,
        row.alone,
        row.alone / each,
        row.rate / 1e9,
        row.limit / 1e9,
        100.0 * row.rate / row.limit,
        parts(&row.split)
    )
}

fn prompt_json(row: &Prompt) -> Value {
    json!({
        "tokens": row.tokens, "seconds": row.seconds, "seconds_per_token_alone": row.alone,
        "times_decode": row.alone * row.tokens as f64 / row.seconds,
        "multiply_adds_per_s": row.rate, "multiply_adds_per_s_limit": row.limit, "share": row.rate / row.limit,
        "parts": parts_json(&row.split),
    })
}

/// The parts of a token's time, which add up to it, by name.
fn named(split: &Split) -> [(&'static str, Duration); 8] {
    [
        ("waited for the trunk", split.waited.trunk),
        ("for experts", split.waited.experts),
        ("for the embedding", split.waited.embedding),
        ("computed the trunk's products", split.kernels.trunk),
        ("the experts'", split.kernels.experts),
        ("attention", split.kernels.attention),
        ("all else", split.other_kernels()),
        ("rest", split.rest),
    ]
}

fn parts(split: &Split) -> String {
    let wall = split.wall().as_secs_f64().max(1e-9);
    named(split)
        .map(|(name, time)| format!("{name} {:.1} %", 100.0 * time.as_secs_f64() / wall))
        .join(", ")
}

fn parts_json(split: &Split) -> Value {
    named(split)
        .into_iter()
        .map(|(name, time)| {
            (
                name.replace(' ', "_").replace('\'', ""),
                time.as_secs_f64().into(),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Kernels, Waits};

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let ms = Duration::from_millis;
        let split = Split {
            positions: 1,
            waited: Waits {
                trunk: ms(10),
                experts: ms(20),
                embedding: ms(1),
            },
            computed: ms(60),
            kernels: Kernels {
                trunk: ms(30),
                experts: ms(15),
                attention: ms(5),
            },
            rest: ms(9),
        };
        let total: Duration = named(&split).iter().map(|(_, time)| *time).sum();
        assert_eq!(total, split.wall());
        assert!(parts(&split).contains("all else 10.0 %"));
        assert_eq!(parts_json(&split)["the_experts"], 0.015);
    }
}
