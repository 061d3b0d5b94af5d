//! From a folder to a conversation: what can be refused is refused before weights are read. For the chats of this program,
//! and for others that embed the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Error, Opening, Session, Words};
use crate::checkpoint::{self, Checkpoint, Config, demo};
use crate::kernels::Isa;
use crate::model::{self, Blueprint, Compute, Network};
use crate::stream::{Files, Machine, Plan, Request, TrunkPlan, open_weights, plan};
use crate::text::Tokenizer;

/// Which files a model is.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    /// The checkpoint's folder, in the released layout.
    pub folder: PathBuf,
    /// Whether it is the demo model.
    pub demo: bool,
    /// Folder of `tiktoken.model` and `tokenizer_config.json`, if it is another one.
    pub tokenizer: Option<PathBuf>,
    /// The configuration, if it is not `config.json` in the folder.
    pub config: Option<PathBuf>,
    /// Folder of a packed trunk, if there is one.
    pub trunk: Option<PathBuf>,
}

impl ModelFiles {
    /// Everything in one folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            demo: false,
            tokenizer: None,
            config: None,
            trunk: None,
        }
    }

    /// The demo model, unpacked below a folder for what can be made again.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn demo(cache: &Path) -> Result<Self, Error> {
        Ok(Self {
            demo: true,
            ..Self::in_folder(demo::unpack(cache)?)
        })
    }

    /// What to call it.
    pub fn name(&self) -> String {
        match self.folder.file_name() {
            _ if self.demo => "demo model".to_owned(),
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.folder.display().to_string(),
        }
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// The folder or the file is missing, or the configuration cannot be used.
    pub fn config(&self) -> Result<Config, Error> {
        let problem = match (self.folder.is_dir(), self.folder.exists()) {
            (true, _) => None,
            (_, true) => Some("is not a folder: name the one that holds the checkpoint"),
            _ => Some("does not exist: name the folder that holds the checkpoint"),
        };
        if let Some(problem) = problem {
            return Err(checkpoint::Error::Checkpoint {
                path: self.folder.clone(),
                problem: problem.into(),
            }
            .into());
        }
        let inside = || self.folder.join("config.json");
        Ok(Config::load(&self.config.clone().unwrap_or_else(inside))?)
    }

    /// Checks everything that can be checked without reading weights, and makes the memory plan.
    ///
    /// # Errors
    /// Anything is missing, wrong, does not belong together, or does not fit into the machine.
    pub fn check(self, config: Config, request: Request) -> Result<CheckedModel, Error> {
        let tokenizer = Tokenizer::load(self.tokenizer.as_deref().unwrap_or(&self.folder))?;
        let words = Words::new(tokenizer, config.vocab)?;
        let layers = config.layers();
        let blueprint = Blueprint::new(config.clone(), layers);
        let plan = plan(&blueprint.shape(), &request, &Machine::detect()?)?;
        let checkpoint = Checkpoint::open(&self.folder, config)?;
        checkpoint.check(layers)?;
        let files = open_weights(&checkpoint, self.trunk.as_deref());
        Ok(CheckedModel {
            name: self.name(),
            demo: self.demo,
            checkpoint: Arc::new(checkpoint),
            files: files.map_err(model::Error::from)?,
            words,
            blueprint,
            request,
            plan,
        })
    }
}

/// A model whose every part was checked, and none loaded.
pub struct CheckedModel {
    name: String,
    demo: bool,
    checkpoint: Arc<Checkpoint>,
    files: Files,
    words: Words,
    blueprint: Blueprint,
    request: Request,
    plan: Plan,
}

impl CheckedModel {
    /// What to call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the demo model.
    pub fn is_demo(&self) -> bool {
        self.demo
    }

    /// Its layers.
    pub fn layers(&self) -> usize {
        self.blueprint.layer_count()
    }

    /// What it will take of the machine.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the plan was made from.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Loads it and opens a conversation.
    ///
    /// # Errors
    /// A file cannot be read, there is no memory, or the history cannot be saved.
    pub fn open(self, opening: Opening) -> Result<Session, Error> {
        let compute = Compute::new(self.plan.threads, Isa::detect())?;
        let trunk = TrunkPlan::of(&self.plan, &self.blueprint.walk);
        let mut network = Network::over_files(
            &self.checkpoint,
            self.files,
            self.blueprint,
            &trunk,
            self.plan.expert_slots,
            compute,
        )?;
        network.meters().plan(self.plan.total());
        network.plan_chunk(self.plan.chunk);
        Session::open(network, self.words, self.request, opening)
    }
}
