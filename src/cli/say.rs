//! What the commands say on standard error. A file's name or a model's word can hold anything, and a terminal obeys: control
//! characters are shown as pictures. Whoever closed standard error does not end the work, as `eprintln!` would by a panic.
//! A test sees to it that nothing under `src/cli` or `src/bin` prints in another way.

use std::fmt;
use std::io::{Write, stderr};

use crate::text::visible;

/// Says a line, formatted as by `format!`.
macro_rules! say {
    ($($what:tt)*) => {
        $crate::cli::say::line(format_args!($($what)*))
    };
}
pub(crate) use say;

/// Says a line.
pub fn line(what: fmt::Arguments<'_>) {
    let line = what.to_string();
    // There is nobody to tell that nobody can be told.
    let _ = writeln!(stderr().lock(), "{}", visible(&line));
}

/// Says something without ending the line: a question.
pub fn ask(what: &str) {
    let mut out = stderr().lock();
    let _ = write!(out, "{}", visible(what)).and_then(|()| out.flush());
}

/// Puts this in place of the line on which the terminal's cursor is, to be replaced again.
pub fn replace_line(what: &str) {
    let mut out = stderr().lock();
    let _ = write!(out, "\r\x1b[K{}", visible(what)).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// Sources in a folder and the folders in it.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => found.extend(sources(&path)),
                false => found.push(path),
            }
        }
        found
    }

    #[test]
    fn nothing_is_printed_but_through_here() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files = [sources(&src.join("cli")), sources(&src.join("bin"))].concat();
        assert!(files.len() > 20);
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests may print.
            let program = text.split("#[cfg(test)]").next().unwrap();
            for (at, line) in program.lines().enumerate() {
                let printed = ["eprintln!(", "eprint!(", "println!(", "print!("]
                    .iter()
                    .any(|word| line.contains(word));
                let place = format!("{}:{}", path.display(), at + 1);
                assert!(
                    !printed || line.trim_start().starts_with("//"),
                    "{place}: use say!"
                );
            }
        }
    }
}
