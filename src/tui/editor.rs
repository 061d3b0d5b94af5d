//! The person's own editor, for the message and for files.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// The editor that `VISUAL` or `EDITOR` names, else vi.
fn editor() -> OsString {
    let named = ["VISUAL", "EDITOR"].map(std::env::var_os);
    let editor = named.into_iter().flatten().find(|value| !value.is_empty());
    editor.unwrap_or_else(|| "vi".into())
}

/// Opens `text` in the person's editor and gives what it is afterwards. The terminal must have been given back.
///
/// # Errors
/// In a sentence: no temporary file, no such editor, or it failed; the message is as it was then.
pub fn edit(text: &str) -> Result<String, String> {
    edit_with(&editor(), text).map_err(|why| format!("{why}. The message is as it was."))
}

/// Opens a file in the person's editor. The terminal must have been given back.
///
/// # Errors
/// In a sentence: no such editor, or it failed.
pub fn open(path: &Path) -> Result<(), String> {
    open_with(&editor(), path)
}

fn edit_with(editor: &OsString, text: &str) -> Result<String, String> {
    let problem = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let mut file = tempfile::Builder::new()
        .prefix("k3-message-")
        .suffix(".md")
        .tempfile()
        .map_err(|error| problem("No temporary file for the editor", error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|error| problem("The message could not be written for the editor", error))?;
    open_with(editor, file.path())?;
    // Opened anew: editors put another file in its place.
    let mut written = std::fs::read_to_string(file.path())
        .map_err(|error| problem("What the editor left could not be read", error))?;
    // Editors end a file with a line break that nobody typed.
    if written.ends_with('\n') && !text.ends_with('\n') {
        written.pop();
    }
    Ok(written)
}

fn open_with(editor: &OsString, path: &Path) -> Result<(), String> {
    // Through the shell, since the variable may hold arguments (`code --wait`).
    let status = Command::new("sh")
        .args(["-c", "eval \"$0 \\\"\\$1\\\"\""])
        .arg(editor)
        .arg(path)
        .status()
        .map_err(|error| format!("The editor could not be started: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "The editor ({}) ended with {status}",
            editor.to_string_lossy()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_editor_with_arguments_changes_the_message() {
        let edited = edit_with(&"sed -i s/one/two/".into(), "one 'quoted' $HOME");
        assert_eq!(edited.as_deref(), Ok("two 'quoted' $HOME"));
    }

    #[test]
    fn one_that_fails_leaves_it() {
        let error = edit_with(&"false".into(), "text").unwrap_err();
        assert!(error.contains("The editor (false) ended"), "{error}");
    }
}
