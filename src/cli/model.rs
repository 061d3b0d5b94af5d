//! Which model, and how a chat with it begins: the flags that `k3 chat` and `k3-tui` share.

use std::path::{Path, PathBuf};

use clap::Args;

use super::budget::{BudgetArgs, CONTEXT};
use super::{Exit, SamplingArgs, say};
use crate::chat::{CheckedModel, Limits, ModelFiles, Opening, Session, StateStore, Store, Words};
use crate::checkpoint::demo;
use crate::engine::ModelFacts;
use crate::model::Blueprint;
use crate::stream::{Machine, Plan, Request, plan};
use crate::text::{Effort, Tokenizer};

/// A model to chat with.
#[derive(Args, Clone, Debug)]
pub struct ChatArgs {
    /// Checkpoint folder in the released layout (default: the demo model inside the program)
    pub model: Option<PathBuf>,
    /// Use the demo model
    #[arg(long, conflicts_with = "model")]
    pub demo: bool,
    /// Folder of tiktoken.model and tokenizer_config.json (default: MODEL)
    #[arg(long, value_name = "DIR")]
    pub tok: Option<PathBuf>,
    /// The model's configuration (default: config.json in MODEL)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How much memory to take
    #[command(flatten)]
    pub budget: BudgetArgs,
    /// How tokens are chosen
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Answer without thinking
    #[arg(long, conflicts_with = "thinking_effort")]
    pub no_think: bool,
    /// How much to think: low, high or max
    #[arg(long, value_name = "EFFORT", default_value = "max")]
    pub thinking_effort: Effort,
    /// What holds for the whole conversation
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Keep the conversation in this file (JSON lines)
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// At most so many tokens an answer
    #[arg(long, value_name = "N", value_parser = super::budget::count, allow_negative_numbers = true)]
    pub r#gen: Option<usize>,
    /// Stop after this id (up to 8 times)
    #[arg(long, value_name = "ID")]
    pub stop_id: Vec<String>,
    /// Check up to so many guessed tokens in one pass; changes no token
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::ids::guesses)]
    pub spec: usize,
    /// Copies of the state that are kept in memory, so that /regen and /undo read nothing again: 0 to 2 (default: by preset)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub keep_states: Option<u8>,
    /// Where states are saved, so that a history that is opened again is not read again (default: the data folder)
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The most that saved states may take, in GB; 0 saves none
    #[arg(long, value_name = "X", default_value = "4", value_parser = super::budget::gigabytes, allow_negative_numbers = true)]
    pub states_gb: u64,
}

/// A model's folder, and whether it is the demo model.
pub(super) struct Folder {
    pub path: PathBuf,
    pub demo: bool,
}

/// The folder that was named, else the demo model's, unpacked.
///
/// # Errors
/// The demo model cannot be unpacked.
pub(super) fn folder(named: Option<&Path>) -> anyhow::Result<Folder> {
    if let Some(path) = named {
        return Ok(Folder {
            path: path.to_owned(),
            demo: false,
        });
    }
    let folders = directories::ProjectDirs::from("", "", "k3-tui").ok_or_else(|| {
        Exit::Refused("there is no home folder to unpack the demo model in; name a MODEL".into())
    })?;
    Ok(Folder {
        path: demo::unpack(folders.cache_dir())?,
        demo: true,
    })
}

/// A chat whose every part was checked, and none loaded.
pub struct ChatPlan {
    model: CheckedModel,
    opening: Opening,
    /// None when thinking is off.
    effort: Option<Effort>,
}

impl ChatArgs {
    /// Checks everything that can be checked without reading weights.
    ///
    /// # Errors
    /// Anything is missing, wrong, or does not belong together.
    pub fn check(&self) -> anyhow::Result<ChatPlan> {
        let Folder { path, demo } = folder(self.model.as_deref())?;
        let files = ModelFiles {
            folder: path,
            demo,
            tokenizer: self.tok.clone(),
            config: self.config.clone(),
            trunk: self.budget.trunk.clone(),
        };
        let config = files.config()?;
        let mut request = self.budget.request(&config, CONTEXT)?;
        request.kept_states = match self.keep_states {
            Some(count) => count.into(),
            None => request.preset.kept_states(),
        };
        request.guesses = self.spec;
        if request.context < 2 {
            return Err(Exit::Refused("--context must be 2 or more".into()).into());
        }
        let limits = Limits {
            tokens: self.r#gen,
            stop_ids: super::ids::stops(&self.stop_id, config.vocab)?,
        };
        let history = self.history.as_deref().map(Store::open).transpose()?;
        let model = files.check(config, request)?;
        notice(model.plan());
        let opening = Opening {
            system: self.system.clone(),
            history,
            states: self.states()?,
            sampling: self.sampling.sampling(),
            limits,
            guesses: self.spec,
        };
        Ok(ChatPlan {
            model,
            opening,
            effort: (!self.no_think).then_some(self.thinking_effort),
        })
    }
}

impl ChatArgs {
    /// Where states are saved: only those of a conversation that is kept itself.
    fn states(&self) -> anyhow::Result<Option<StateStore>> {
        if self.history.is_none() || self.states_gb == 0 {
            return Ok(None);
        }
        let folder = match &self.state_dir {
            Some(folder) => folder.clone(),
            None => match directories::ProjectDirs::from("", "", "k3-tui") {
                Some(folders) => folders.data_dir().join("states"),
                None => return Ok(None),
            },
        };
        match StateStore::open(&folder, self.states_gb) {
            Ok(states) => Ok(Some(states)),
            // Asked for by name it must work; else it is a help that cannot be had.
            Err(error) if self.state_dir.is_some() => Err(Exit::Refused(error.to_string()).into()),
            Err(error) => {
                say!("k3: states are not saved: {error}");
                Ok(None)
            }
        }
    }
}

impl ChatPlan {
    /// Loads the model and opens the conversation.
    ///
    /// # Errors
    /// A file cannot be read, or the history not be saved.
    pub fn open(self) -> anyhow::Result<(ModelFacts, Session)> {
        let facts = ModelFacts::of(&self.model);
        let mut session = self.model.open(self.opening)?;
        match self.effort {
            Some(effort) => session.set_effort(effort),
            None => session.set_thinking(false),
        }
        Ok((facts, session))
    }
}

/// The tokenizer in a folder, checked against the model's vocabulary.
///
/// # Errors
/// A file is missing or wrong, or it is another model's.
pub(super) fn words(folder: &Path, vocab: usize) -> anyhow::Result<Words> {
    Ok(Words::new(Tokenizer::load(folder)?, vocab)?)
}

/// The memory plan of a network on this machine. What the person should know about it goes to standard error.
///
/// # Errors
/// The machine cannot be understood, or cannot hold it.
pub(super) fn planned(blueprint: &Blueprint, request: &Request) -> anyhow::Result<Plan> {
    let plan = plan(&blueprint.shape(), request, &Machine::detect()?)?;
    notice(&plan);
    Ok(plan)
}

/// What the person should know about a plan.
fn notice(plan: &Plan) {
    for notice in &plan.notices {
        say!("k3: {notice}");
    }
}
