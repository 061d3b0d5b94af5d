//! What the documents say is so: their commands run, their flags exist, their links lead somewhere, and `docs/commands.md` is
//! what the code gives.
//!
//! A block fenced as `sh` is run line by line, in a folder of its own for each document. In it `MODEL` stands for the demo
//! model's folder, `FOLDER` for an empty folder, `OUT` for one that is not there. A block fenced as `sh check` holds what no
//! test can run (hours, terabytes, other programs): its `k3` and `k3-tui` lines are parsed, of `cargo` lines the targets
//! must exist, of Python the script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{ArgAction, CommandFactory};
use k3::cli::ScreenArgs;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document, with its path from the project's folder.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = ["README.md", "CHANGELOG.md", "benches/README.md"]
        .into_iter()
        .chain(["fixtures/README.md", "assets/demo/README.md"])
        .map(PathBuf::from)
        .collect();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name();
        if Path::new(&name).extension().is_some_and(|e| e == "md") {
            paths.push(Path::new("docs").join(name));
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// The lines of blocks with this fence, without comments; a backslash at the end joins two.
fn lines(text: &str, fence: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    let mut line = String::new();
    for row in text.lines() {
        if let Some(info) = row.strip_prefix("```") {
            inside = !inside && info == fence;
            continue;
        }
        if !inside {
            continue;
        }
        let row = row.split(" # ").next().unwrap_or(row);
        match row.strip_suffix('\\') {
            Some(part) => line += part,
            None => {
                line += row;
                lines.push(std::mem::take(&mut line).trim().to_owned());
            }
        }
    }
    lines.retain(|line| !line.is_empty() && !line.starts_with('#'));
    lines
}

#[test]
fn lines_are_found_in_fences() {
    let text = "a\n```sh\nk3 x   # why\n# all\nk3 \\\n  y\n```\n```sh check\nno\n```\nk3 z\n";
    assert_eq!(lines(text, "sh"), ["k3 x", "k3   y"]);
    assert_eq!(lines(text, "sh check"), ["no"]);
}

/// Words as a shell has them: quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut some) = (String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => (quote, some) = (Some(c), true),
            (None, ' ') if some || !word.is_empty() => {
                words.push(std::mem::take(&mut word));
                some = false;
            }
            (None, ' ') => {}
            (_, c) => word.push(c),
        }
    }
    if some || !word.is_empty() {
        words.push(word);
    }
    words
}

#[test]
fn every_command_of_the_documents_runs() {
    let programs = Path::new(env!("CARGO_BIN_EXE_k3")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(programs.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let mut ran = 0;
    for (document, text) in documents() {
        let folder = tempfile::tempdir().unwrap();
        // Cargo runs this; what its commands name is checked below.
        for line in lines(&text, "sh")
            .iter()
            .filter(|line| !line.starts_with("cargo "))
        {
            let empty = tempfile::tempdir_in(folder.path()).unwrap();
            let new = folder.path().join(format!("out-{ran}"));
            // The full screen needs a terminal; line by line it is the same program.
            let line = match line.strip_prefix("k3-tui") {
                Some(rest) => format!("k3-tui{rest} --plain"),
                None => line.clone(),
            };
            let command = line
                .replace("MODEL", demo::demo_model().to_str().unwrap())
                .replace("FOLDER", empty.path().to_str().unwrap())
                .replace("OUT", new.to_str().unwrap());
            let output = Command::new("sh")
                .args(["-c", &command])
                .env("PATH", &path)
                .env("HOME", folder.path())
                .env("XDG_CACHE_HOME", folder.path())
                .env("XDG_CONFIG_HOME", folder.path())
                .env("XDG_DATA_HOME", folder.path())
                .env_remove("K3_ORACLE")
                .stdin(Stdio::null())
                .current_dir(folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{}: {line}\n{said}",
                document.display()
            );
            ran += 1;
        }
    }
    assert!(ran > 20, "{ran} commands");
}

/// Parses a line of one of the two programs.
fn parses(line: &str) -> Result<(), String> {
    let words = words(
        line.split(" < ")
            .next()
            .unwrap()
            .split(" > ")
            .next()
            .unwrap(),
    );
    let command = match words[0].as_str() {
        "k3" => k3::cli::command(),
        "k3-tui" => ScreenArgs::command(),
        other => return Err(format!("{other} is no program of ours")),
    };
    command
        .try_get_matches_from(&words)
        .map(|_| ())
        .map_err(|e| e.to_string())
}

#[test]
fn commands_that_no_test_can_run_are_at_least_commands() {
    for (document, text) in documents() {
        let all = [lines(&text, "sh"), lines(&text, "sh check")].concat();
        for line in all {
            let at = format!("{}: {line}", document.display());
            let words = words(&line);
            let start = words.iter().position(|word| !word.contains('=')).unwrap();
            let words = &words[start..];
            let after = |flag: &str| {
                let at = words.iter().position(|word| word == flag)?;
                words.get(at + 1).cloned()
            };
            match words[0].as_str() {
                "k3" | "k3-tui" => parses(&line).unwrap_or_else(|e| panic!("{at}\n{e}")),
                "cargo" => {
                    for (flag, folder) in [
                        ("--bench", "benches"),
                        ("--test", "tests"),
                        ("--example", "examples"),
                        ("--bin", "src/bin"),
                    ] {
                        if let Some(name) = after(flag) {
                            let file = root().join(folder).join(format!("{name}.rs"));
                            let package = root().join(folder).join(&name).join("main.rs");
                            assert!(file.exists() || package.exists(), "{at}");
                        }
                    }
                }
                word if word.starts_with(".ci/") => assert!(root().join(word).exists(), "{at}"),
                word if word.contains("python") => {
                    let script = words.iter().find(|word| word.ends_with(".py"));
                    assert!(
                        script.is_none_or(|script| root().join(script).exists()),
                        "{at}"
                    );
                }
                // Programs of others, which are only shown.
                _ => {}
            }
        }
    }
}

/// Every `k3 …` between backquotes in running text, without placeholders' own brackets.
fn quoted(text: &str) -> BTreeSet<String> {
    let pieces = text.split('`').skip(1).step_by(2);
    pieces
        .filter(|piece| !piece.contains('\n'))
        .filter(|piece| piece.starts_with("k3 ") || piece.starts_with("k3-tui "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn flags_that_are_mentioned_exist() {
    for (document, text) in documents() {
        // The history of changes may name what is gone.
        if document.ends_with("CHANGELOG.md") {
            continue;
        }
        let prose: String = text.split("```").step_by(2).collect();
        for mention in quoted(&prose) {
            let words = words(&mention);
            let mut command = match words[0].as_str() {
                "k3" => k3::cli::command(),
                _ => ScreenArgs::command(),
            };
            for word in &words[1..] {
                if let Some(below) = command.find_subcommand(word) {
                    command = below.clone();
                }
            }
            for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
                let name = flag.split(['=', ',', ')']).next().unwrap();
                let known = command.get_arguments().any(|a| a.get_long() == Some(name));
                let known = known || ["help", "version"].contains(&name);
                assert!(
                    known,
                    "{}: `{mention}`: there is no --{name}",
                    document.display()
                );
            }
        }
    }
}

/// The name of a heading in a link, as the usual hosts make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    for (document, text) in documents() {
        let prose: String = text.split("```").step_by(2).collect();
        for part in prose.split("](").skip(1) {
            let target = part.split(')').next().unwrap();
            if target.starts_with("http") || target.contains(char::is_whitespace) {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let at = format!("{}: {target}", document.display());
            assert!(root().join(&path).exists(), "{at}");
            if !heading.is_empty() {
                let text = std::fs::read_to_string(root().join(path)).unwrap();
                let known = text
                    .lines()
                    .filter(|l| l.starts_with('#'))
                    .any(|l| anchor(l) == heading);
                assert!(known, "{at}");
            }
        }
    }
}

/// A command's flags as a table.
fn table(command: &clap::Command, name: &str, out: &mut String) {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut usage = String::new();
    for argument in command.get_positionals() {
        let value = argument
            .get_value_names()
            .map_or("", |names| names[0].as_str());
        let value = value.to_uppercase();
        let _ = match argument.is_required_set() {
            true => write!(usage, " {value}"),
            false => write!(usage, " [{value}]"),
        };
    }
    let _ = write!(out, "\n## {name}{usage}\n\n{about}.\n");
    let shown =
        |a: &&clap::Arg| !a.is_hide_set() && !["help", "version"].contains(&a.get_id().as_str());
    let arguments: Vec<_> = command.get_arguments().filter(shown).collect();
    if !arguments.is_empty() {
        out.push_str("\n| argument | |\n|---|---|\n");
    }
    for argument in arguments {
        let value = argument
            .get_value_names()
            .map_or(String::new(), |names| names[0].to_uppercase());
        let label = match argument.get_long() {
            None => value,
            Some(long) if matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) => {
                format!("--{long} {value}")
            }
            Some(long) => format!("--{long}"),
        };
        let help = argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let _ = writeln!(out, "| `{label}` | {} |", help.replace('|', "\\|"));
    }
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        table(below, &format!("{name} {}", below.get_name()), out);
    }
}

#[test]
fn the_page_of_commands_is_what_the_code_gives() {
    let mut made = "# Commands\n\n\
        Made from the code by the test `documents`; change that, not this page. What each command is for and how they go together: \
        [quick-start.md](quick-start.md). Exit codes: 0 done, 1 failed while running, 2 refused, 3 result file not written, \
        4 an expert could not be read, 5 interrupted with results written.\n"
        .to_owned();
    let screen = ScreenArgs::command();
    table(&screen, "k3-tui", &mut made);
    for command in k3::cli::command().get_subcommands() {
        table(command, &format!("k3 {}", command.get_name()), &mut made);
    }
    let path = root().join("docs/commands.md");
    if std::env::var_os("K3_WRITE_COMMANDS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == made,
        "docs/commands.md is old; make it anew: K3_WRITE_COMMANDS=1 cargo test --test documents"
    );
}

#[test]
fn completions_and_man_pages_are_made_for_both_programs() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        for (program, flag) in [("k3", "sim-cache"), ("k3-tui", "history")] {
            let output = Command::new(env!("CARGO_BIN_EXE_k3"))
                .args(["completions", shell, "--program", program])
                .output()
                .unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(flag), "{shell}, {program}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let done = Command::new(env!("CARGO_BIN_EXE_k3"))
        .arg("man")
        .arg(&pages)
        .status();
    assert!(done.unwrap().success());
    for (page, part) in [
        ("k3.1", "sim\\-cache"),
        ("k3-run.1", "prompt\\-file"),
        ("k3-tui.1", "history"),
    ] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(part), "{page}");
    }
    // A folder that cannot be made is a result that is not written.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_k3"))
        .arg("man")
        .arg(file.join("x"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
}
