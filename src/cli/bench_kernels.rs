//! `k3 bench kernels`: the kernels at the released model's sizes, each as a share of what binds it on this machine. The
//! measuring itself is the library's; here are the tables.

use clap::Args;
use serde_json::{Value, json};

use super::bench::print;
use super::provenance::Provenance;
use crate::kernels::Isa;
use crate::model::Compute;
use crate::model::measure::{Case, Figure, Form, figures};

/// What to measure, and how to tell it.
#[derive(Args, Debug, Default)]
pub struct KernelsArgs {
    /// Threads; otherwise one, and then as many as there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints. A row is printed when it is done.
///
/// # Errors
/// There is no memory for the weights, or [`Exit::NotWritten`](super::exit::Exit::NotWritten).
pub fn run(args: &KernelsArgs) -> anyhow::Result<()> {
    let counts = match args.threads {
        Some(threads) => vec![usize::from(threads)],
        None => vec![1, std::thread::available_parallelism()?.get()],
    };
    let made = Provenance::now();
    if !args.json {
        print(&format!("{}\n", made.text()))?;
    }
    let mut all = Vec::new();
    for threads in counts {
        let compute = Compute::new(threads, Isa::detect())?;
        if !args.json {
            let isa = compute.isa.name();
            print(&format!("{threads} threads, {isa}\n{}\n", header()))?;
        }
        let mut outcome = Ok(());
        let figures = figures(&compute, &Case::usual(), |figure| {
            if !args.json && outcome.is_ok() {
                outcome = print(&row(figure));
            }
        })?;
        outcome?;
        all.push(json!({
            "threads": threads,
            "instruction_set": compute.isa.name(),
            "rows": figures.iter().map(to_json).collect::<Vec<_>>(),
        }));
    }
    match args.json {
        true => print(&format!("{:#}\n", json!({ "made": made, "runs": all }))),
        false => Ok(()),
    }
}

fn form(case: &Case) -> &'static str {
    match case.form {
        Form::F32 => "f32",
        Form::Bf16 => "bf16",
        Form::Mxfp4 => "MXFP4",
    }
}

fn header() -> String {
    format!(
        "{:<20}{:>7}{:>12}{:>12}{:>9}{:>12}{:>10}{:>10}{:>10}",
        "weights",
        "tokens",
        "GB/s best",
        "median",
        "worst",
        "memory GB/s",
        "GFMA/s",
        "limit",
        "share"
    )
}

fn row(figure: &Figure) -> String {
    let case = &figure.case;
    format!(
        "{:<20}{:>7}{:>12.2}{:>12.2}{:>9.2}{:>12.2}{:>10.1}{:>10.1}{:>8.0} %\n",
        format!("{} {}x{}", form(case), case.rows, case.columns),
        case.tokens,
        figure.bandwidth() / 1e9,
        case.bytes() as f64 / figure.seconds[1] / 1e9,
        case.bytes() as f64 / figure.seconds[2] / 1e9,
        figure.memory / 1e9,
        figure.fused_rate() / 1e9,
        figure.fused / 1e9,
        100.0 * figure.share()
    )
}

fn to_json(figure: &Figure) -> Value {
    let case = &figure.case;
    json!({
        "form": form(case),
        "matrix_rows": case.rows,
        "columns": case.columns,
        "tokens": case.tokens,
        "bytes": case.bytes(),
        "seconds_best": figure.seconds[0],
        "seconds_median": figure.seconds[1],
        "seconds_worst": figure.seconds[2],
        "bytes_per_s": figure.bandwidth(),
        "memory_bytes_per_s": figure.memory,
        "multiply_adds_per_s": figure.fused_rate(),
        "multiply_adds_per_s_limit": figure.fused,
        "share": figure.share(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_share_of_what_binds_it() {
        let case = |tokens| Case {
            form: Form::Bf16,
            rows: 1000,
            columns: 1000,
            tokens,
        };
        // Two MB in a millisecond where memory gives 4 GB/s: half. A hundred tokens of it: all of the fused units.
        for (tokens, share) in [(1, 0.5), (100, 1.0)] {
            let figure = Figure {
                case: case(tokens),
                seconds: [1e-3, 2e-3, 4e-3],
                memory: 4e9,
                fused: 1e11,
            };
            assert!((figure.share() - share).abs() < 1e-9);
            let json = to_json(&figure);
            assert_eq!(json["bytes_per_s"], 2e9);
            assert_eq!(
                (&json["seconds_median"], &json["seconds_worst"]),
                (&json!(2e-3), &json!(4e-3))
            );
            assert!(row(&figure).ends_with(&format!("{:.0} %\n", share * 100.0)));
        }
    }
}
