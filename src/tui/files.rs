//! Writing what a person asks to have in a file. Not what is written.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes a new file; one that is there stays as it is. In a sentence what came of it.
pub fn write_new(file: &str, text: &str) -> String {
    let path = Path::new(file);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        });
    match written {
        Ok(()) => format!("Written to {}.", path.display()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            format!("{} is there already; name another file.", path.display())
        }
        Err(error) => format!("{} could not be written: {error}.", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        let file = path.to_str().unwrap();
        assert!(write_new(file, "one").starts_with("Written to"));
        assert!(write_new(file, "two").contains("is there already"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert!(write_new("/no/such/folder/a", "").contains("could not be written"));
    }
}
