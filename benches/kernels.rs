//! The kernels at the released sizes as shares of what the machine gives. It is `k3 bench kernels`, so that anybody can
//! repeat it: `cargo bench --bench kernels [-- json]`

use k3::cli::bench_kernels::{KernelsArgs, run};

fn main() -> anyhow::Result<()> {
    let json = std::env::args().any(|a| a == "json");
    run(&KernelsArgs {
        json,
        ..KernelsArgs::default()
    })
}
