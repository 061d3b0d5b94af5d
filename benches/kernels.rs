//! The kernels at the released sizes as shares of what the machine gives. `cargo bench --bench kernels [-- --json]`

use anyhow::Result;
use k3::kernels::Isa;
use k3::model::Compute;
use k3::model::measure::{Case, HEADER, figures, fused_rate};

fn main() -> Result<()> {
    let threads = std::thread::available_parallelism()?.get();
    for threads in [1, threads] {
        let compute = Compute::new(threads, Isa::detect())?;
        println!(
            "{threads} threads, {}: {:.1} GFMA/s",
            compute.isa.name(),
            fused_rate(&compute) / 1e9
        );
        println!("{HEADER}");
        figures(&compute, &Case::usual(), |figure| println!("{figure}"))?;
    }
    Ok(())
}
