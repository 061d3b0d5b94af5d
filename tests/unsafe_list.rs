//! The list of `docs/unsafe.md` against the sources: every place where `unsafe` stands is in it, under the item that it is in, with
//! a test that is there, and nothing else is in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    found
}

/// The name of the function or of the thing implemented that begins on this line.
fn item(line: &str) -> Option<String> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return None;
    }
    if let Some((_, rest)) = line.split_once("unsafe impl ") {
        return Some(rest.trim_end_matches(['{', '}', ' ']).to_owned());
    }
    let (before, rest) = match line.strip_prefix("pub type ") {
        Some(rest) => ("", rest),
        None => line.split_once("fn ")?,
    };
    let words = [
        "pub",
        "pub(super)",
        "pub(crate)",
        "const",
        "unsafe",
        "$vis",
        "extern",
        "\"C\"",
    ];
    let begins = before.split_whitespace().all(|word| words.contains(&word));
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || "_$".contains(*c))
        .collect();
    (begins && !name.is_empty()).then_some(name)
}

/// Whether `unsafe` is used on this line, not only written about or allowed.
fn is_used(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let used = [
        "unsafe {",
        "unsafe impl",
        "unsafe fn",
        "unsafe extern",
        "unsafe(",
    ];
    used.iter().any(|word| code.contains(word))
}

/// How often each item of each file uses it.
fn used() -> BTreeMap<(String, String), usize> {
    let mut used = BTreeMap::new();
    for path in sources(&root().join("src")) {
        let name = path
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let (mut inside, mut before) = (String::new(), 0);
        for line in text.lines() {
            if line.trim_start().starts_with("#[unsafe(") {
                // Of the item that follows.
                before += 1;
                continue;
            }
            if let Some(item) = item(line) {
                inside = item;
            }
            let count = std::mem::take(&mut before) + usize::from(is_used(line));
            if count > 0 {
                *used.entry((name.clone(), inside.clone())).or_default() += count;
            }
        }
    }
    used
}

#[test]
fn the_list_of_unsafe_is_complete_and_every_test_of_it_is_there() {
    let list = fs::read_to_string(root().join("docs/unsafe.md")).unwrap();
    let mut listed = BTreeMap::new();
    let code = |cell: &str| cell.trim().trim_matches('`').to_owned();
    for row in list.lines().filter(|line| line.starts_with("| `src/")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [file, item, count, why, tests] = cells.as_slice() else {
            panic!("{row}: five cells")
        };
        assert!(why.trim().len() > 20, "{row}: why?");
        let count: usize = count.trim().parse().unwrap();
        assert!(
            listed.insert((code(file), code(item)), count).is_none(),
            "{row}: twice"
        );
        let (path, name) = code(tests)
            .rsplit_once("::")
            .map(|(p, n)| (p.to_owned(), n.to_owned()))
            .unwrap();
        let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
        assert!(text.contains(&format!("fn {name}(")), "{row}: no such test");
    }
    let used = used();
    assert!(
        used.values().sum::<usize>() > 20,
        "nothing is found: {used:?}"
    );
    assert_eq!(listed, used, "docs/unsafe.md and src differ");
}

/// Where it may be at all.
#[test]
fn unsafe_stays_where_it_belongs() {
    for (file, item) in used().into_keys() {
        let allowed = [
            "src/kernels/",
            "src/stream/",
            "src/checkpoint/",
            "src/capi/",
        ];
        let belongs = allowed.iter().any(|folder| file.starts_with(folder));
        assert!(belongs, "{file}: {item}");
    }
}
