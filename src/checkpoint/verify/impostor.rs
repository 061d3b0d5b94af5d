//! Files that have the name of a model's file and are something else: what a download without its client, or one that
//! broke off, leaves behind. Only the first bytes are looked at.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// So much of a file is looked at.
const LOOKED_AT: u64 = 4096;

/// What the file at `path` is in truth, if it is one of the known impostors.
pub(super) fn of(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LOOKED_AT).read_to_end(&mut head).ok()?;
    told(&head)
}

fn told(head: &[u8]) -> Option<String> {
    if head.is_empty() {
        return Some("is empty".into());
    }
    if head.iter().all(|&byte| byte == 0) {
        return Some("begins with zeros: room was set aside for it and never filled".into());
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with("version https://git-lfs") {
        let size = text
            .lines()
            .find_map(|line| line.strip_prefix("size "))
            .map_or(String::new(), |size| format!(" to {size} bytes"));
        return Some(format!(
            "is a Git LFS pointer{size} and not the file: it was cloned without Git LFS"
        ));
    }
    let start: String = text.chars().take(16).collect();
    let start = start.to_ascii_lowercase();
    if start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml") {
        return Some("is a web page, most likely what a server said instead of the file".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_model_file_is_called_what_it_is() {
        let pointer =
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 16990911504\n";
        for (head, word) in [
            (&pointer[..], "pointer to 16990911504 bytes"),
            (b"\n <!DOCTYPE html><html>", "web page"),
            (b"<HTML>", "web page"),
            (b"<?xml version='1.0'?><Error>", "web page"),
            (&[0; 100], "zeros"),
            (b"", "empty"),
        ] {
            let said = told(head);
            assert!(
                said.as_ref().is_some_and(|said| said.contains(word)),
                "{said:?}"
            );
        }
        for sound in [
            &b"\x10\0\0\0\0\0\0\0{\"a\":{}}       "[..],
            b"{\"weight_map\": {}}",
        ] {
            assert_eq!(told(sound), None);
        }
    }
}
