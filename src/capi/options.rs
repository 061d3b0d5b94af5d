//! The options of C, and what they say. Opening is [`super::talk`]'s.

use std::ffi::{CStr, c_char};
use std::path::PathBuf;

use super::talk::{Options, Problem};
use crate::chat::{Draw, Sampling};
use crate::text::Effort;

/// What to open and how. Zero and null mean: as usual. Take them from `k3_options` and change what is to be another.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct K3Options {
    /// The checkpoint's folder; null is the demo model.
    pub model: *const c_char,
    /// Where the demo model is unpacked; null is the platform's cache folder.
    pub cache: *const c_char,
    /// Folder of `tiktoken.model` and `tokenizer_config.json`; null is the model's.
    pub tokenizer: *const c_char,
    /// Folder of a packed trunk; null reads the shards.
    pub trunk: *const c_char,
    /// ultra, laptop, desktop, workstation, server, max or auto; null is auto.
    pub preset: *const c_char,
    /// low, high, max, or off for no thinking; null is max.
    pub effort: *const c_char,
    /// Bytes for pins and ring together; 0 leaves it to the preset.
    pub trunk_bytes: u64,
    /// Bytes for experts; 0 leaves it to the preset.
    pub cache_bytes: u64,
    /// Slots of the ring; 0 is four.
    pub ring: usize,
    /// Positions to plan for; 0 is 8,192, or the model's longest.
    pub context: usize,
    /// Threads; 0 is all cores.
    pub threads: usize,
    /// At most so many tokens an answer; 0 is as many as fit.
    pub tokens: usize,
    /// 0 chooses the most probable token; above 0 tokens are drawn at this temperature.
    pub temperature: f64,
    /// The most probable tokens that together reach this share are drawn from; 0 is 0.95.
    pub top_p: f64,
    /// Where drawing begins.
    pub seed: u64,
}

impl Default for K3Options {
    fn default() -> Self {
        let null = std::ptr::null();
        Self {
            model: null,
            cache: null,
            tokenizer: null,
            trunk: null,
            preset: null,
            effort: null,
            trunk_bytes: 0,
            cache_bytes: 0,
            ring: 0,
            context: 0,
            threads: 0,
            tokens: 0,
            temperature: 0.0,
            top_p: 0.0,
            seed: 0,
        }
    }
}

impl K3Options {
    /// What they say.
    ///
    /// # Safety
    /// Every text ends with NUL or is null.
    pub(super) unsafe fn read(&self) -> Result<Options, Problem> {
        // SAFETY: the caller's promise, for each of them.
        let text = |pointer, name| unsafe { text(pointer, name) };
        let path = |pointer, name| Ok(text(pointer, name)?.map(PathBuf::from));
        let named = |number: u64| (number > 0).then_some(number);
        let counted = |number: usize| (number > 0).then_some(number);
        let preset = text(self.preset, "the preset")?.unwrap_or_else(|| "auto".into());
        let effort = text(self.effort, "the effort")?.unwrap_or_else(|| "max".into());
        let effort = match effort.as_str() {
            "off" => None,
            name => Some(name.parse::<Effort>().map_err(Problem::refused)?),
        };
        let sampling = match self.temperature {
            0.0 => Sampling::Greedy,
            temperature => {
                let usual = Draw::new(self.seed);
                let top_p = if self.top_p == 0.0 {
                    usual.top_p
                } else {
                    self.top_p
                };
                Sampling::Draw(Draw {
                    temperature,
                    top_p,
                    ..usual
                })
            }
        };
        if let Sampling::Draw(draw) = &sampling {
            draw.check().map_err(Problem::refused)?;
        }
        Ok(Options {
            model: path(self.model, "the model's folder")?,
            cache: path(self.cache, "the cache folder")?,
            tokenizer: path(self.tokenizer, "the tokenizer's folder")?,
            trunk_folder: path(self.trunk, "the trunk's folder")?,
            preset: preset.parse().map_err(Problem::refused::<String>)?,
            effort,
            trunk: named(self.trunk_bytes),
            cache_bytes: named(self.cache_bytes),
            ring: counted(self.ring),
            context: counted(self.context),
            threads: counted(self.threads),
            tokens: counted(self.tokens),
            sampling,
        })
    }
}

/// A text of C; none for null.
///
/// # Safety
/// It ends with NUL, or is null.
pub(super) unsafe fn text(pointer: *const c_char, name: &str) -> Result<Option<String>, Problem> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Problem::refused(format!("{name} is not UTF-8"))),
    }
}
