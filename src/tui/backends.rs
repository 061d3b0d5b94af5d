//! Where models can be talked to: on this computer, and on servers. How one is opened is known by whoever made the list.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::chat::Sampling;
use crate::engine::Handle;
use crate::text::Effort;

/// The name of the model on this computer.
pub const LOCAL: &str = "local";

/// What goes along when a conversation goes over to another model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// Where the conversation is kept.
    pub history: Option<PathBuf>,
    /// The thinking in force; none where it is not known, none inside where it is off.
    pub thinking: Option<Option<Effort>>,
    /// How tokens are chosen; none where it is not known.
    pub sampling: Option<Sampling>,
}

/// Opens the one of a name.
type Open = dyn Fn(&str, Carried) -> anyhow::Result<Handle> + Send + Sync;

/// Where models can be talked to, and how that is begun.
#[derive(Clone)]
pub struct Backends {
    listed: Listed,
    open: Arc<Open>,
}

/// The list alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Names, and what a person knows them by.
    pub names: Vec<(String, String)>,
    /// The one that is talked to.
    pub current: String,
}

impl Listed {
    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(known, _)| known == name)
    }

    /// All of them, in a sentence.
    pub fn sentence(&self) -> String {
        let all = self.names.iter().map(|(name, about)| {
            let here = if *name == self.current {
                ", in use"
            } else {
                ""
            };
            format!("{name} ({about}{here})")
        });
        format!(
            "Models: {}. /backend NAME goes over to one.",
            all.collect::<Vec<_>>().join("; ")
        )
    }
}

impl Backends {
    /// These, of which `current` is opened first.
    pub fn new(
        names: Vec<(String, String)>,
        current: &str,
        open: impl Fn(&str, Carried) -> anyhow::Result<Handle> + Send + Sync + 'static,
    ) -> Self {
        Self {
            listed: Listed {
                names,
                current: current.to_owned(),
            },
            open: Arc::new(open),
        }
    }

    /// None but the one that runs already.
    pub fn only() -> Self {
        let names = vec![(LOCAL.to_owned(), "on this computer".to_owned())];
        Self::new(names, LOCAL, |name, _| {
            anyhow::bail!("{name} cannot be opened again")
        })
    }

    /// The list.
    pub fn listed(&self) -> &Listed {
        &self.listed
    }

    /// Opens the one of this name.
    ///
    /// # Errors
    /// What it needs is not there, or wrong.
    pub fn open(&self, name: &str, carried: Carried) -> anyhow::Result<Handle> {
        (self.open)(name, carried)
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backends").field(&self.listed).finish()
    }
}
