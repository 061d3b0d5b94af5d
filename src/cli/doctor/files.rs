//! The files of the model: whether they are whole, and whether the tokenizer is there and which.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::checkpoint::verify::{Examined, Fault, examine};
use crate::checkpoint::{Checkpoint, Config, hex, release};
use crate::cli::say;
use crate::stream::Volume;
use crate::stream::pack::Pack;
use crate::text::Tokenizer;

/// A file of the tokenizer.
#[derive(Debug, Serialize)]
pub(super) struct TokenizerFile {
    pub name: &'static str,
    /// None when it is not there.
    pub sha256: Option<String>,
    /// Whether it is the released model's.
    pub released: bool,
}

const TOKENIZER: [&str; 2] = ["tiktoken.model", "tokenizer_config.json"];

/// What was found in the model's folder.
pub(super) struct Files {
    /// None when no model was named.
    pub folder: Option<String>,
    pub examined: Examined,
    /// Of the model, or of the release where there is none.
    pub config: Config,
    pub config_is_released: bool,
    pub tokenizer: Vec<TokenizerFile>,
    /// Why the tokenizer cannot be used.
    pub tokenizer_problem: Option<String>,
}

impl Files {
    /// Looks at the folder. Headers and samples are read.
    ///
    /// # Errors
    /// It cannot be listed.
    pub(super) fn look(
        model: Option<&Path>,
        tok: Option<&Path>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        let mut examined = Examined::default();
        let mut config = None;
        if let Some(model) = model {
            say!("k3: {}: looking at the files", model.display());
            examined = examine(model)?;
            config = Config::load(&model.join("config.json")).ok();
        }
        let tok = tok.or(model);
        let (tokenizer, tokenizer_problem) = match tok {
            Some(folder) => (
                TOKENIZER.map(|name| tokenizer_file(folder, name)).into(),
                Tokenizer::load(folder).err().map(|e| e.to_string()),
            ),
            None => (Vec::new(), None),
        };
        let files = Self {
            folder: model.map(|model| model.display().to_string()),
            examined,
            config_is_released: config.is_none(),
            config: config.unwrap_or_else(Config::released),
            tokenizer,
            tokenizer_problem,
        };
        files.warn(model, warnings);
        Ok(files)
    }

    fn warn(&self, model: Option<&Path>, warnings: &mut Vec<String>) {
        let Some(model) = model else {
            return;
        };
        let name = model.display();
        if self.is_empty() {
            warnings.push(format!(
                "{name}: there is no model here; the figures are for the released one"
            ));
            let free = Volume::of(model).free_bytes;
            if let Some(free) = free.filter(|&free| free < release::SHARD_BYTES) {
                warnings.push(format!(
                    "{name}: {:.0} GB are free, the released model has {:.0} GB",
                    free as f64 / 1e9,
                    release::SHARD_BYTES as f64 / 1e9
                ));
            }
            return;
        }
        /// So many are told; `k3 verify` tells all.
        const TOLD: usize = 5;
        let faults = &self.examined.faults;
        warnings.extend(faults.iter().take(TOLD).map(Fault::to_string));
        if faults.len() > TOLD {
            warnings.push(format!(
                "and {} more faults of the files, which k3 verify tells",
                faults.len() - TOLD
            ));
        }
        if let Some(problem) = &self.tokenizer_problem {
            warnings.push(format!(
                "the tokenizer cannot be used, so chats cannot begin: {problem}"
            ));
        }
    }

    /// Whether no shard is here.
    pub(super) fn is_empty(&self) -> bool {
        self.examined.shards == 0
    }

    /// Whether a chat could begin.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_empty() && self.examined.faults.is_empty() && self.tokenizer_problem.is_none()
    }

    /// Whether the folder `trunk` holds a packed trunk of this model.
    pub(super) fn has_pack(&self, trunk: &Path, warnings: &mut Vec<String>) -> bool {
        let opened = match &self.folder {
            Some(folder) => Checkpoint::open(Path::new(folder), self.config.clone())
                .map_err(Into::into)
                .and_then(|checkpoint| Pack::open(trunk, &checkpoint)),
            None => return false,
        };
        match opened {
            Ok(_) => true,
            Err(error) => {
                warnings.push(format!("the packed trunk cannot be used: {error}"));
                false
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        let Examined {
            shards,
            missing,
            bytes,
            tensors,
            faults,
            notes,
        } = &self.examined;
        json!({
            "folder": self.folder,
            "whole": self.is_whole(),
            "sizes_of_the_release": self.config_is_released,
            "layers": self.config.layers(),
            "shards": shards,
            "missing_shards": missing,
            "shard_bytes": bytes,
            "tensors": tensors,
            "faults": faults,
            "notes": notes,
            "tokenizer": self.tokenizer,
            "tokenizer_problem": self.tokenizer_problem,
        })
    }
}

fn tokenizer_file(folder: &Path, name: &'static str) -> TokenizerFile {
    let bytes = fs::read(folder.join(name)).ok();
    let sha256: Option<String> = bytes.map(|bytes| hex(&Sha256::digest(bytes)));
    TokenizerFile {
        name,
        released: sha256.is_some() && sha256.as_deref() == release::sha256(name),
        sha256,
    }
}
