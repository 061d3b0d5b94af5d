//! The key that a server asks for: from an environment variable or from a private file. Never shown, never written down.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::system;

/// The variable that is looked at when nothing else is named.
pub const VARIABLE: &str = "K3_API_KEY";

/// Bytes that a key file may have.
const LONGEST: u64 = 16 * 1024;

/// A key. It has no form in which it could be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// Why there is no key. None of these says anything of what was found.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The variable that was named is not there.
    #[error(
        "the environment has no {0}, which is to hold the key of the server; set it, or change key_env in the settings"
    )]
    NoVariable(String),
    /// The file cannot be read.
    #[error("{}: the key cannot be read: {cause}", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Others may read the file.
    #[error("{0}: others may read this key file; `chmod 600 {0}` makes it private", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// What was found cannot be a key.
    #[error("{0} holds no key: one line of visible ASCII characters without blanks is needed")]
    NoKey(String),
}

impl Key {
    /// A key, without the blanks around it. `from` is where it was found, for the error.
    ///
    /// # Errors
    /// It is empty, or has characters that no header can carry.
    pub fn new(text: &str, from: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(KeyError::NoKey(from.to_owned())),
        }
    }

    /// The key in a variable of the environment.
    ///
    /// # Errors
    /// There is no such variable, or no key in it.
    pub fn from_variable(name: &str) -> Result<Self, KeyError> {
        match std::env::var(name) {
            Ok(text) => Self::new(&text, name),
            Err(std::env::VarError::NotUnicode(_)) => Err(KeyError::NoKey(name.to_owned())),
            Err(std::env::VarError::NotPresent) => Err(KeyError::NoVariable(name.to_owned())),
        }
    }

    /// The key in [`VARIABLE`], if that is set.
    ///
    /// # Errors
    /// There is something in it that is no key.
    pub fn from_environment() -> Result<Option<Self>, KeyError> {
        match std::env::var_os(VARIABLE).is_some_and(|text| !text.is_empty()) {
            true => Self::from_variable(VARIABLE).map(Some),
            false => Ok(None),
        }
    }

    /// The key in a file that its owner alone may read.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or there is no key in it.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let not_read = |cause| KeyError::NotRead {
            path: path.to_owned(),
            cause,
        };
        let file = std::fs::File::open(path).map_err(not_read)?;
        // Of the file that was opened: a name may stand for another one a moment later.
        let about = file.metadata().map_err(not_read)?;
        if system::others_may_read(&about) {
            return Err(KeyError::Open {
                path: path.to_owned(),
            });
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, LONGEST), &mut bytes)
            .map_err(not_read)?;
        let from = path.display().to_string();
        let text = String::from_utf8(bytes).map_err(|_| KeyError::NoKey(from.clone()))?;
        Self::new(&text, &from)
    }

    /// The header's value.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// A server's words without the key: some servers quote it.
    pub(super) fn taken_out_of(&self, text: &str) -> String {
        text.replace(&self.0, "(key)")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_word_and_is_never_printed() {
        let key = Key::new(" sk-secret\n", "here").unwrap();
        assert_eq!(key.bearer(), "Bearer sk-secret");
        assert_eq!(format!("{key:?}"), "Key(..)");
        assert_eq!(key.taken_out_of("wrong key sk-secret."), "wrong key (key).");
        for wrong in ["", " \n", "a b", "a\nb", "schlüssel"] {
            let error = Key::new(wrong, "VARIABLE").unwrap_err().to_string();
            assert!(error.starts_with("VARIABLE holds no key"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-secret\n").unwrap();
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match Key::from_file(&path) {
                Ok(key) => assert!(!open && key.bearer() == "Bearer sk-secret", "{mode:o}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(open && error.contains("chmod 600"), "{mode:o}: {error}");
                    assert!(!error.contains("sk-secret"));
                }
            }
        }
        let missing = Key::from_file(&folder.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"));
    }
}
