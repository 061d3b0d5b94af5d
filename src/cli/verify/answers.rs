//! The published prompts, run on the released model: whether it says what it said elsewhere. It proves the files and the
//! arithmetic together.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::checkpoint::verify::Fault;
use crate::checkpoint::{Checkpoint, Config, release, shards};
use crate::cli::budget::BudgetArgs;
use crate::cli::run::interrupt;
use crate::cli::{Exit, model, open, say};
use crate::kernels::{Isa, argmax};
use crate::model::{Blueprint, Compute, Network, Want};
use crate::stream::TrunkPlan;

/// A prompt and what other engines said to it, greedily.
struct Published {
    prompt: &'static [u32],
    next: &'static [u32],
    /// The highest logit after the prompt, where it was published.
    top_logit: Option<f32>,
}

const PUBLISHED: [Published; 2] = [
    // "The capital of France is"
    Published {
        prompt: &[1008, 10484, 318, 15383, 387],
        next: &[17374, 20829, 10, 427, 414, 1008, 606, 142_957],
        top_logit: None,
    },
    Published {
        prompt: &[3, 4, 5, 6, 7],
        next: &[2494],
        top_logit: Some(15.0219),
    },
];

/// The published figures are of engines that take this epsilon in the two low-rank norms of MLA, where the official code
/// takes 1e-6. To compare like with like it is taken here.
const PUBLISHED_EPS: f32 = 1e-5;

/// Four published decimals, and what two engines that agree were measured to differ by, many times over.
const TOLERANCE: f32 = 1e-3;

/// What the model said to one prompt.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    prompt: Vec<u32>,
    expected: Vec<u32>,
    ids: Vec<u32>,
    expected_top_logit: Option<f32>,
    top_logit: f32,
}

impl Answer {
    /// Whether it said something else.
    pub(super) fn fault(&self) -> Option<Fault> {
        let far = |want: f32| (self.top_logit - want).abs() > TOLERANCE;
        let problem = if self.ids != self.expected {
            format!("gives {:?}, published is {:?}", self.ids, self.expected)
        } else if let Some(want) = self.expected_top_logit.filter(|&want| far(want)) {
            format!(
                "gives a highest logit of {}, published is {want}",
                self.top_logit
            )
        } else {
            return None;
        };
        let remedy = "read every byte with --full; if that finds nothing, report it";
        Some(Fault::new(
            format!("prompt {:?}", self.prompt),
            problem,
            remedy,
        ))
    }
}

/// Refuses another model than the released one, by its configuration and the size of its shards.
///
/// # Errors
/// [`Exit::Refused`]; the configuration cannot be read.
pub(super) fn refuse_other_model(path: &Path) -> anyhow::Result<()> {
    let config = open::config(path, None)?;
    let bytes = shards::bytes(path)?;
    if config.hash() == Config::released().hash() && bytes == release::SHARD_BYTES {
        return Ok(());
    }
    let message = format!(
        "{}: --answers compares with what was published of the released model ({} shards of {} bytes in all), and this is \
         another one ({bytes} bytes); leave --answers out",
        path.display(),
        release::SHARDS,
        release::SHARD_BYTES
    );
    Err(Exit::Refused(message).into())
}

/// Runs the published prompts.
///
/// # Errors
/// The machine cannot hold the plan, reading or computing fails, a signal came.
pub(super) fn ask_released(path: &Path, mut config: Config) -> anyhow::Result<Vec<Answer>> {
    say!(
        "k3: the published answers are of engines whose low-rank norms of MLA take eps {PUBLISHED_EPS:e}, so that is taken \
         here too; chats take the official {:e}",
        config.mla.lora_norm_eps
    );
    config.mla.lora_norm_eps = PUBLISHED_EPS;
    ask(path, config, &PUBLISHED)
}

fn ask(path: &Path, config: Config, published: &[Published]) -> anyhow::Result<Vec<Answer>> {
    let layers = config.layers();
    let longest = published
        .iter()
        .map(|p| p.prompt.len() + p.next.len())
        .max();
    let context = longest.unwrap_or(1);
    let request = BudgetArgs::default().request(&config, context)?;
    let checkpoint: Arc<Checkpoint> = open::checkpoint(path, config, layers)?;
    let files = crate::stream::open_shards(&checkpoint)?;
    let blueprint = Blueprint::new(checkpoint.config().clone(), layers);
    let plan = model::planned(&blueprint, &request)?;
    let trunk = TrunkPlan::of(&plan, &blueprint.walk);
    let compute = Compute::new(plan.threads, Isa::detect())?;
    let slots = plan.expert_slots;
    let mut network = Network::over_files(&checkpoint, files, blueprint, &trunk, slots, compute)?;
    let interrupted = interrupt()?;
    let mut answers = Vec::new();
    for Published {
        prompt,
        next,
        top_logit,
    } in published
    {
        let mut state = network.new_state(context)?;
        let mut logits = network.feed(&mut state, prompt, Want::Last)?;
        let (mut ids, mut top) = (Vec::new(), None);
        loop {
            let row = logits.last().unwrap_or_default();
            let Some(id) = argmax(row) else {
                anyhow::bail!("{}: the model gives no finite logit", path.display());
            };
            top = top.or(row.get(id).copied());
            ids.push(id as u32);
            say!("k3: prompt {prompt:?}: {ids:?}");
            if ids.len() >= next.len() {
                break;
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(Exit::Interrupted.into());
            }
            logits = network.feed(&mut state, &[id as u32], Want::Last)?;
        }
        answers.push(Answer {
            prompt: prompt.to_vec(),
            expected: next.to_vec(),
            ids,
            expected_top_logit: *top_logit,
            top_logit: top.unwrap_or(f32::NAN),
        });
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second prompt of the fixture's own answers (`fixtures/expected/tiny-a.json`), which a float64 reference gave.
    const RIGHT: Published = Published {
        prompt: &[51, 70, 72, 7, 22, 90],
        next: &[27, 8, 91, 91, 42, 35],
        top_logit: None,
    };

    fn asked(published: Published) -> Answer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-a");
        let config = Config::load(&folder.join("config.json")).unwrap();
        ask(&folder, config, &[published]).unwrap().remove(0)
    }

    #[test]
    fn right_answers_pass_and_wrong_ones_are_faults() {
        let right = asked(RIGHT);
        assert_eq!((right.ids.as_slice(), right.fault()), (RIGHT.next, None));
        let wrong = asked(Published {
            next: &[27, 8, 91, 91, 42, 36],
            ..RIGHT
        });
        assert!(
            wrong
                .fault()
                .unwrap()
                .to_string()
                .contains("published is [27")
        );
        for (off, fault) in [(0.5 * TOLERANCE, false), (2.0 * TOLERANCE, true)] {
            let answer = Answer {
                expected_top_logit: Some(right.top_logit + off),
                ..asked(RIGHT)
            };
            assert_eq!(answer.fault().is_some(), fault);
        }
    }

    #[test]
    fn another_model_is_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-a");
        let error = refuse_other_model(&folder).unwrap_err();
        assert_eq!(Exit::code(&error), Exit::REFUSED);
        assert!(error.to_string().contains("leave --answers out"), "{error}");
    }
}
