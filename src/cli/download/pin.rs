//! Which revision a folder holds: written down before the first file comes, so that whatever goes on with it fetches the
//! same one.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Exit;
use crate::checkpoint::atomic::{Access, replace};
use crate::stream::sums::known::is_commit;

/// Its name in the folder.
const FILE: &str = ".k3-download.json";

/// A repository and one of its commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pin {
    pub repository: String,
    /// 40 hexadecimal digits.
    pub revision: String,
}

impl Pin {
    /// Of a folder that was begun before.
    ///
    /// # Errors
    /// [`Exit::Refused`] when it is there and cannot be understood.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, Exit> {
        let path = dir.join(FILE);
        let wrong = |problem: &dyn std::fmt::Display| {
            Exit::Refused(format!(
                "{}: {problem}; delete it and name the folder's revision by --revision",
                path.display()
            ))
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(wrong(&e)),
        };
        let pin: Self = serde_json::from_str(&text).map_err(|e| wrong(&e))?;
        match is_commit(&pin.revision) {
            true => Ok(Some(pin)),
            false => Err(wrong(&"its revision is no commit")),
        }
    }

    /// Writes it down.
    ///
    /// # Errors
    /// [`Exit::Refused`]: then nothing else could be written either.
    pub(super) fn save(&self, dir: &Path) -> Result<(), Exit> {
        let path = dir.join(FILE);
        let failed = |e: &dyn std::fmt::Display| {
            Exit::Refused(format!("{}: cannot be written: {e}", path.display()))
        };
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(&e))?;
        replace(&path, Access::Ordinary, format!("{text}\n").as_bytes()).map_err(|e| failed(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_a_garbled_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Pin::load(dir.path()).unwrap(), None);
        let pin = Pin {
            repository: "a/b".into(),
            revision: "0".repeat(40),
        };
        pin.save(dir.path()).unwrap();
        assert_eq!(Pin::load(dir.path()).unwrap(), Some(pin));
        for garbled in ["", "{}", "{\"repository\":\"a/b\",\"revision\":\"main\"}"] {
            fs::write(dir.path().join(FILE), garbled).unwrap();
            let error = Pin::load(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains(FILE) && error.contains("delete it"),
                "{error}"
            );
        }
    }
}
