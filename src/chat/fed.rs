//! What a network has seen of a conversation: its state, the ids it was fed, a pass that was left half way, and copies to
//! come back to. What the ids mean is not known here.

use super::Error;
use super::generate::Watch;
use crate::model::{self, Draft, Kept, Logits, Network, Pass, State, Want};

/// A state and the ids it has seen.
#[derive(Debug)]
pub struct Fed {
    state: State,
    ids: Vec<u32>,
    /// A pass that is not through all layers. The state is torn until it has been finished.
    parked: Option<Parked>,
    /// A draft that is through all layers, and its ids. The state is torn until it is known how many of them stand.
    open: Option<(Draft, Vec<u32>)>,
    marks: Vec<Mark>,
    /// Copies that may be kept.
    keep: usize,
    /// Passes that were taken through all layers.
    passes: usize,
}

/// A pass between two layers.
#[derive(Debug)]
struct Parked {
    pass: Pass,
    ids: Vec<u32>,
    want: Want,
    /// Only the first of its ids is known to stand; the others are guesses.
    guesses: bool,
}

impl Parked {
    /// The ids that are no guesses.
    fn sure(&self) -> &[u32] {
        match self.guesses {
            true => &self.ids[..1],
            false => &self.ids,
        }
    }
}

/// A place in the conversation to come back to.
#[derive(Debug)]
struct Mark {
    kept: Kept,
    /// What the network said there, so that an answer can begin without a pass.
    logits: Option<Logits>,
}

/// How the network comes to the end of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From a parked pass on.
    Unpark,
    /// From where it is.
    GoOn,
    /// From this copy.
    Return(usize),
}

impl Fed {
    /// A state that has seen nothing; at most `keep` copies are kept of it.
    pub fn new(state: State, keep: usize) -> Self {
        Self::having_seen(state, Vec::new(), keep)
    }

    /// A state that has seen these ids.
    pub fn having_seen(state: State, ids: Vec<u32>, keep: usize) -> Self {
        Self {
            state,
            ids,
            parked: None,
            open: None,
            marks: Vec::new(),
            keep,
            passes: 0,
        }
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The ids it has seen, a pass that is on its way not counted.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Passes that were taken through all layers so far.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Whether a pass is on its way.
    pub fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Positions left.
    pub fn room(&self) -> usize {
        self.state.capacity() - self.ids.len()
    }

    /// Takes a copy before a message is read. Earlier copies are given up: they are of older places.
    ///
    /// # Errors
    /// The state is torn.
    pub fn mark_start(&mut self) -> Result<(), Error> {
        let here = self.ids.len();
        self.marks.retain(|mark| mark.kept.positions() == here);
        match self.marks.is_empty() && here > 0 {
            true => self.mark(None),
            // There is one already, or the state is fresh and nothing to copy.
            false => Ok(()),
        }
    }

    /// Takes a copy where an answer begins, with the logits of its first token, if there is room for it.
    ///
    /// # Errors
    /// The state is torn.
    pub fn mark(&mut self, logits: Option<&Logits>) -> Result<(), Error> {
        if self.marks.len() < self.keep {
            self.marks.push(Mark {
                kept: self.state.keep()?,
                logits: logits.cloned(),
            });
        }
        Ok(())
    }

    /// Whether `prompt` goes on from what has been seen, if that is anything, with nothing taken back.
    pub fn goes_on(&self, prompt: &[u32]) -> bool {
        matches!(self.way(prompt), Some(Way::GoOn | Way::Unpark)) && self.seen(prompt) > 0
    }

    /// Takes a state that has seen these ids in place of this one.
    pub fn replace(&mut self, state: State, ids: Vec<u32>) {
        *self = Self {
            passes: self.passes,
            ..Self::having_seen(state, ids, self.keep)
        };
    }

    /// Gives a pass that was left half way up, and goes back to the latest copy if there is one; whether the state is whole
    /// then.
    ///
    /// # Errors
    /// The copy does not fit the state.
    pub fn fall_back(&mut self) -> Result<bool, Error> {
        (self.parked, self.open) = (None, None);
        if !self.state.is_whole()
            && let Some(Mark { kept, .. }) = self.marks.last()
        {
            self.state.return_to(kept)?;
            self.ids.truncate(kept.positions());
        }
        Ok(self.state.is_whole())
    }

    /// How many positions of `prompt` need not be read: those of the best way to its end.
    pub fn seen(&self, prompt: &[u32]) -> usize {
        match self.way(prompt) {
            Some(Way::Unpark) => {
                let parked = self.parked.as_ref().map_or(0, |p| p.sure().len());
                self.ids.len() + parked
            }
            Some(Way::GoOn) => self.ids.len(),
            Some(Way::Return(mark)) => self.marks[mark].kept.positions(),
            None => 0,
        }
    }

    fn way(&self, prompt: &[u32]) -> Option<Way> {
        if let Some(parked) = &self.parked
            && let Some(rest) = prompt.strip_prefix(&self.ids[..])
            && let Some(rest) = rest.strip_prefix(parked.sure())
            && (!rest.is_empty() || parked.want != Want::Nothing)
        {
            return Some(Way::Unpark);
        }
        if self.state.is_whole() && self.ids.len() < prompt.len() && prompt.starts_with(&self.ids) {
            return Some(Way::GoOn);
        }
        let reaches = |mark: &Mark| {
            let positions = mark.kept.positions();
            prompt.starts_with(&self.ids[..positions])
                && (positions < prompt.len() || mark.logits.is_some())
        };
        self.marks.iter().rposition(reaches).map(Way::Return)
    }

    /// Sees to it that what the network has seen is a beginning of `prompt`, by going back if need be; false if only a
    /// fresh state is one. Gives the logits too where all of the prompt has been seen. A parked pass may be left, to be
    /// taken up by [`Self::advance`].
    ///
    /// # Errors
    /// A copy does not fit the state.
    pub fn follow(
        &mut self,
        network: &mut Network,
        prompt: &[u32],
    ) -> Result<(bool, Option<Logits>), Error> {
        let way = self.way(prompt);
        match way {
            None => return Ok((false, None)),
            Some(Way::GoOn) => {}
            // Guesses are worth their logits only where the answer goes on behind them.
            Some(Way::Unpark) => {
                let parked = self.parked.as_ref().filter(|p| p.guesses);
                if parked.is_some_and(|p| self.ids.len() + p.sure().len() < prompt.len()) {
                    self.settle(network)?;
                }
            }
            Some(Way::Return(mark)) => {
                let Mark { kept, logits } = &self.marks[mark];
                self.state.return_to(kept)?;
                self.ids.truncate(kept.positions());
                let logits = logits.clone().filter(|_| self.ids.len() == prompt.len());
                self.marks.truncate(mark + 1);
                (self.parked, self.open) = (None, None);
                return Ok((true, logits));
            }
        }
        Ok((true, None))
    }

    /// Starts a pass over ids that stand. [`Self::advance`] takes it through.
    ///
    /// # Errors
    /// As [`Network::begin`].
    pub fn begin(&mut self, network: &mut Network, ids: &[u32], want: Want) -> Result<(), Error> {
        self.parked = Some(Parked {
            pass: network.begin(&mut self.state, ids, want)?,
            ids: ids.to_vec(),
            want,
            guesses: false,
        });
        Ok(())
    }

    /// Starts a pass over one id that stands and guesses of what follows it. Once it is through, [`Self::commit`] says how
    /// many of them stand.
    ///
    /// # Errors
    /// As [`Network::begin_draft`].
    pub fn begin_guesses(&mut self, network: &mut Network, ids: &[u32]) -> Result<(), Error> {
        self.parked = Some(Parked {
            pass: network.begin_draft(&mut self.state, ids)?,
            ids: ids.to_vec(),
            want: Want::All,
            guesses: true,
        });
        Ok(())
    }

    /// Takes the pass on its way through the rest of the layers; its logits, or nothing when `watch` stopped it between two
    /// of them. It stays parked then.
    ///
    /// # Errors
    /// Weights cannot be read. The pass is lost then, and the state torn.
    pub fn advance(
        &mut self,
        network: &mut Network,
        watch: &mut dyn Watch,
    ) -> Result<Option<Logits>, Error> {
        let Some(mut parked) = self.parked.take() else {
            return Ok(None);
        };
        while !network.advance(&mut parked.pass, &mut self.state)? {
            if watch.stop(true) {
                self.parked = Some(parked);
                return Ok(None);
            }
        }
        self.passes += 1;
        let (logits, draft) = network.finish_draft(parked.pass, &self.state)?;
        let stand = parked.ids.len();
        self.open = Some((draft, parked.ids));
        if !parked.guesses {
            self.commit(network, stand)?;
        }
        Ok(Some(logits))
    }

    /// The ids of the pass that is through and waits for [`Self::commit`].
    pub fn open(&self) -> &[u32] {
        self.open.as_ref().map_or(&[], |(_, ids)| ids)
    }

    /// The first `stand` ids of the pass that is through are right, the others were never there.
    ///
    /// # Errors
    /// More than it has.
    pub fn commit(&mut self, network: &Network, stand: usize) -> Result<(), Error> {
        if let Some((draft, ids)) = self.open.take() {
            network.commit(draft, &mut self.state, stand)?;
            self.ids.extend(ids.into_iter().take(stand));
        }
        Ok(())
    }

    /// Finishes the pass on its way, if there is one, from the layer it had reached. Its logits are not computed.
    ///
    /// # Errors
    /// Reading fails; the state is torn then.
    pub fn settle(&mut self, network: &mut Network) -> Result<(), Error> {
        let Some(Parked {
            mut pass,
            ids,
            guesses,
            ..
        }) = self.parked.take()
        else {
            return Ok(());
        };
        pass.want_nothing();
        while !network.advance(&mut pass, &mut self.state)? {}
        let (_, draft) = network.finish_draft(pass, &self.state)?;
        let stand = if guesses { 1 } else { ids.len() };
        self.open = Some((draft, ids));
        self.commit(network, stand)
    }

    /// Whether the state can be saved or copied.
    pub fn is_whole(&self) -> bool {
        self.state.is_whole()
    }

    /// Starts over with a fresh state of the same size.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn restart(&mut self, network: &Network) -> Result<(), model::Error> {
        self.replace(network.new_state(self.state.capacity())?, Vec::new());
        Ok(())
    }
}
