//! Paths in commands that are to be pasted into a shell.

use std::path::Path;

/// A path as one word of a POSIX shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,=:@%".contains(c);
    // A word that begins with a dash would be a flag.
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text;
    }
    let dash = if text.starts_with('-') { "./" } else { "" };
    format!("'{dash}{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        for (path, word) in [
            ("/models/k3", "/models/k3"),
            ("my model", "'my model'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("-x", "'./-x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }
}
