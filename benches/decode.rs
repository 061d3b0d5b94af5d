//! A token, a token of a prompt, of a long context and of a streamed model, beside what binds them. It is `k3 bench decode`,
//! so that anybody can repeat it: `cargo bench --bench decode [-- slice] [-- json]`

use k3::cli::bench_decode::{DecodeArgs, Size, run};

fn main() -> anyhow::Result<()> {
    let asked = |name: &str| std::env::args().any(|a| a == name);
    run(&DecodeArgs {
        size: if asked("slice") {
            Size::Slice
        } else {
            Size::Mid
        },
        json: asked("json"),
        ..DecodeArgs::default()
    })
}
