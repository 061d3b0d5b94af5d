//! Copying through the terminal (OSC 52), which works over ssh as well, and through tmux. Whether the terminal obeys cannot be
//! known, so the text is in a file too.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Terminals leave out what is longer; 74,994 bytes is what the strictest of the common ones takes.
const LONGEST: usize = 74_994;

/// The bytes that ask the terminal to copy; none for a text that is too long for it.
pub fn bytes(text: &str, in_tmux: bool) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    let copy = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    Some(match in_tmux {
        // tmux hands on what is wrapped like this, every escape doubled.
        true => format!("\x1bPtmux;{}\x1b\\", copy.replace('\x1b', "\x1b\x1b")),
        false => copy,
    })
}

/// Writes the text to a file in `folder` that only its owner can read, over what was copied before.
///
/// # Errors
/// The folder cannot be made or the file not be written.
pub fn to_file(text: &str, folder: &Path) -> std::io::Result<PathBuf> {
    crate::checkpoint::atomic::private_folder(folder)?;
    let path = folder.join("copied.txt");
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_gets_base64_and_tmux_a_wrapping() {
        assert_eq!(bytes("hé", false).as_deref(), Some("\x1b]52;c;aMOp\x07"));
        assert_eq!(
            bytes("h", true).as_deref(),
            Some("\x1bPtmux;\x1b\x1b]52;c;aA==\x07\x1b\\")
        );
        assert_eq!(bytes(&"x".repeat(LONGEST + 1), false), None);
    }

    #[test]
    fn the_file_holds_the_last_text() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("deep");
        to_file("one", &inside).unwrap();
        let path = to_file("two", &inside).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "two");
    }
}
