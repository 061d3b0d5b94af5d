//! The C interface from C: the header is what the code says, and programs that are compiled against it do what it promises.
//! Prints NOT RUN where there is no C compiler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;
mod examples;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const HEADER: &str = "src/capi/k3.h";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The header that the code gives.
fn header() -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some("K3_H".into()),
        cpp_compat: true,
        documentation_style: cbindgen::DocumentationStyle::C99,
        usize_is_size_t: true,
        header: Some(
            "// The C interface of k3. Made from src/capi by the test `c_interface`; change the code, not this file.\n\
             // Build, memory and threads: docs/embedding.md."
                .into(),
        ),
        line_length: 120,
        ..cbindgen::Config::default()
    };
    config.enumeration.rename_variants = cbindgen::RenameRule::QualifiedScreamingSnakeCase;
    let builder = ["mod.rs", "options.rs", "telemetry.rs"].iter().fold(
        cbindgen::Builder::new().with_config(config),
        |builder, file| builder.with_src(root().join("src/capi").join(file)),
    );
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_what_the_code_says() {
    let path = root().join(HEADER);
    let made = header();
    if std::env::var_os("K3_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        there, made,
        "make it anew: K3_WRITE_HEADER=1 cargo test --test c_interface"
    );
}

/// The static library with the C interface in it, built as the tests are.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let profile = examples::profile();
        let built = Command::new(env!("CARGO"))
            .args([
                "rustc",
                "--quiet",
                "--offline",
                "--lib",
                "--features",
                "capi",
            ])
            .args(["--crate-type", "staticlib", "--target-dir"])
            .arg(profile.parent().unwrap())
            .args(profile.ends_with("release").then_some("--release"))
            .current_dir(root())
            .status();
        assert!(built.unwrap().success());
        profile.join("libk3.a")
    })
}

/// A C program, compiled without a warning and linked; none where there is no compiler.
fn compiled(source: &str, folder: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        println!("{source}: NOT RUN, there is no C compiler");
        return None;
    }
    let program = folder.join("program");
    let output = Command::new(compiler)
        .args([
            "-std=c11",
            "-D_DEFAULT_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I",
        ])
        .arg(root().join("src/capi"))
        .arg(root().join(source))
        .arg(library())
        .args(["-lpthread", "-lm", "-ldl", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(program)
}

#[test]
fn a_program_in_c_gets_what_is_promised() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("tests/c/checks.c", folder.path()) else {
        return;
    };
    let output = Command::new(program)
        .arg(demo::demo_model())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "", "nothing is printed by the library");
}

#[test]
fn the_example_in_c_streams_an_answer_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("examples/embed.c", folder.path()) else {
        return;
    };
    let output = Command::new(&program)
        .arg(demo::demo_model())
        .arg("hello")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    for part in ["[think] ", "[response] ", "trunk read: ", "drops: 0"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let output = Command::new(program).arg("/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere"));
}
