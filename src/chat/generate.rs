//! From a prompt's ids to the ids that follow: reading, choosing, checking guesses. Text and channels are the turn's.

use super::fed::Fed;
use super::ngram::guess;
use super::{Error, Sampler};
use crate::model::{Logits, Network, PREFILL_CHUNK, Want};

/// Who watches ids being made, and says when to stop.
pub trait Watch {
    /// The prompt is being read: so many of its new positions are through.
    fn read(&mut self, done: usize, of: usize);
    /// Between two passes, where another plan may be taken.
    fn between(&mut self, network: &mut Network);
    /// Whether to stop here: between two layers of a pass, or between two passes.
    fn stop(&mut self, within_pass: bool) -> bool;
    /// Whether another pass is to be expected after the one that begins; readers run on for it.
    fn more(&self) -> bool {
        true
    }
    /// Whether the logits of every position of the prompt are wanted, for [`Self::predicted`].
    fn wants_all(&self) -> bool {
        false
    }
    /// What the network says after each position of the prompt from `first` on, where that is wanted.
    fn predicted(&mut self, _first: usize, _logits: &Logits) {}
    /// The next id was chosen; whether it is the last one. The next pass begins after this.
    ///
    /// # Errors
    /// The id makes no sense.
    fn chosen(&mut self, id: u32) -> Result<bool, Error>;
}

/// Why no more ids are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The last one was chosen.
    Done,
    /// It was stopped.
    Stopped,
    /// The context has no position left for what was chosen last.
    Full,
}

/// Reads what `fed` has not seen of `prompt`, of which it must have seen a beginning. Gives the last position's logits, or
/// nothing when it was stopped. With `mark` a copy of the state is kept before anything new is read.
///
/// # Errors
/// Reading weights fails.
pub fn read(
    network: &mut Network,
    fed: &mut Fed,
    prompt: &[u32],
    mark: bool,
    watch: &mut dyn Watch,
) -> Result<Option<Logits>, Error> {
    let before = fed.ids().len();
    let of = prompt.len().saturating_sub(before);
    watch.read(0, of);
    if fed.is_parked() {
        match fed.advance(network, watch)? {
            None => return Ok(None),
            // Guesses wait for what their logits say.
            Some(logits) if !fed.open().is_empty() => return Ok(Some(logits)),
            Some(logits) if fed.ids().len() == prompt.len() => return Ok(Some(logits)),
            Some(_) => watch.read(fed.ids().len() - before, of),
        }
    }
    if mark {
        fed.mark_start()?;
    }
    while fed.ids().len() < prompt.len() {
        watch.between(network);
        if watch.stop(false) {
            return Ok(None);
        }
        let rest = &prompt[fed.ids().len()..];
        // The logits of a whole chunk are large, and are planned for so many positions only.
        let most = match watch.wants_all() {
            true => network.chunk().min(PREFILL_CHUNK),
            false => network.chunk(),
        };
        let chunk = &rest[..rest.len().min(most)];
        let last = chunk.len() == rest.len();
        let want = match last {
            _ if watch.wants_all() => Want::All,
            true => Want::Last,
            false => Want::Nothing,
        };
        network.expect_more(!last || watch.more());
        let first = fed.ids().len();
        fed.begin(network, chunk, want)?;
        let Some(logits) = fed.advance(network, watch)? else {
            return Ok(None);
        };
        if want == Want::All {
            watch.predicted(first, &logits);
        }
        watch.read(fed.ids().len() - before, of);
        if last {
            return Ok(Some(logits));
        }
    }
    Ok(None)
}

/// How ids are chosen.
pub struct Choosing {
    /// The rule, and its generator.
    pub sampler: Sampler,
    /// How many ids may be guessed and checked in one pass. They change nothing but the number of passes.
    pub guesses: usize,
}

/// Makes ids from the logits that [`read`] gave. `said` is all ids so far, and is appended to.
///
/// # Errors
/// Reading weights fails, or an id makes no sense.
pub fn speak(
    network: &mut Network,
    fed: &mut Fed,
    mut logits: Logits,
    said: &mut Vec<u32>,
    choosing: &mut Choosing,
    watch: &mut dyn Watch,
) -> Result<Halt, Error> {
    loop {
        if choose(network, fed, &logits, said, choosing, watch)? {
            return Ok(Halt::Done);
        }
        watch.between(network);
        if watch.stop(false) {
            return Ok(Halt::Stopped);
        }
        let Some(spare) = fed.room().checked_sub(1) else {
            return Ok(Halt::Full);
        };
        let pending = said[said.len() - 1];
        let guesses = guess(said, choosing.guesses.min(spare));
        network.expect_more(watch.more());
        match guesses.is_empty() {
            true => fed.begin(network, &[pending], Want::Last)?,
            false => fed.begin_guesses(network, &[&[pending], &guesses[..]].concat())?,
        }
        logits = match fed.advance(network, watch)? {
            Some(logits) => logits,
            None => return Ok(Halt::Stopped),
        };
    }
}

/// Chooses one id, and as many more as were guessed right; whether the last one is among them. The state is then what it
/// would be without guesses.
fn choose(
    network: &Network,
    fed: &mut Fed,
    logits: &Logits,
    said: &mut Vec<u32>,
    choosing: &mut Choosing,
    watch: &mut dyn Watch,
) -> Result<bool, Error> {
    let guesses: Vec<u32> = fed.open().iter().skip(1).copied().collect();
    let mut stand = 0;
    let mut done = false;
    // Without guesses only what follows the last position counts.
    let rows = logits.rows().skip(logits.rows().len() - 1 - guesses.len());
    for (at, row) in rows.enumerate() {
        let id = choosing.sampler.next(row)?;
        stand += 1;
        said.push(id);
        done = watch.chosen(id)?;
        if done || guesses.get(at) != Some(&id) {
            break;
        }
    }
    fed.commit(network, stand)?;
    Ok(done)
}
