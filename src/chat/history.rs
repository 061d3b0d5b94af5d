//! The history file of a conversation: read once, saved whole, never seen half written.

use std::path::{Path, PathBuf};

use super::Error;
use crate::checkpoint::atomic::{Access, replace, resolve};
use crate::text::{Message, history};

/// A history file.
#[derive(Clone, Debug)]
pub struct HistoryFile {
    path: PathBuf,
}

impl HistoryFile {
    /// The file at `path`, which need not be there yet. A link is followed, so that saving replaces what it points to.
    pub fn new(path: &Path) -> Self {
        Self {
            path: resolve(path).unwrap_or_else(|_| path.to_owned()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its messages; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is no message of a history.
    pub fn load(&self) -> Result<Vec<Message>, Error> {
        match self.path.exists() {
            true => Ok(history::read(&self.path)?),
            false => Ok(Vec::new()),
        }
    }

    /// Replaces the file whole by these messages, one a line ([`crate::checkpoint::atomic`]).
    ///
    /// # Errors
    /// [`Error::NotSaved`].
    pub fn save(&self, messages: &[Message]) -> Result<(), Error> {
        self.replace(messages).map_err(|cause| Error::NotSaved {
            path: self.path.clone(),
            cause,
        })
    }

    fn replace(&self, messages: &[Message]) -> std::io::Result<()> {
        let mut text = Vec::new();
        for message in messages {
            serde_json::to_writer(&mut text, message)?;
            text.push(b'\n');
        }
        replace(&self.path, Access::Private, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn messages() -> Vec<Message> {
        vec![
            Message::system("be kind"),
            Message::user("a \"line\"\nand \u{1b}[31m, \u{4f60}\u{597d}"),
            Message::assistant(Some(String::new()), "ok"),
        ]
    }

    #[test]
    fn what_is_saved_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = HistoryFile::new(&folder.path().join("chat.jsonl"));
        assert!(file.load().unwrap().is_empty());
        file.save(&messages()).unwrap();
        assert_eq!(file.load().unwrap(), messages());
        file.save(&messages()[..1]).unwrap();
        assert_eq!(file.load().unwrap(), messages()[..1]);
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_keeps_pointing_and_the_mode_stays() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (
            folder.path().join("real.jsonl"),
            folder.path().join("link.jsonl"),
        );
        fs::write(&real, "").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        HistoryFile::new(&link).save(&messages()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(HistoryFile::new(&real).load().unwrap(), messages());
    }

    #[test]
    fn a_failed_save_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = HistoryFile::new(&folder.path().join("no/such/folder.jsonl"));
        let message = file.save(&messages()).unwrap_err().to_string();
        assert!(message.contains("folder.jsonl"), "{message}");
    }
}
