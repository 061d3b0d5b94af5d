//! The whole network: from ids to logits, a chunk of tokens at a time.

use std::sync::Arc;
use std::time::Instant;

use super::kda::KdaInputs;
use super::residual::{norm_rows, vector};
use super::{
    Blueprint, Compute, Error, Flow, Layer, LayerState, ModelKey, Residual, Sources, State,
};
use crate::checkpoint::config::Config;
use crate::checkpoint::{Checkpoint, names};
use crate::stream::{
    Clock, Closed, Error as StreamError, ExpertCounters, ExpertStore, Experts, Files, Meters,
    PassPlan, Plan, Shape, StageId, StreamedTrunk, Trunk, TrunkCounters, TrunkPlan, Walk,
    open_shards, trace::TraceWriter,
};

/// Tokens of a prompt that go through the layers together, unless a plan allows more.
pub const PREFILL_CHUNK: usize = 64;

/// Positions whose logits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// None: the middle of a prompt.
    Nothing,
    /// The last one's.
    Last,
    /// Every position's.
    All,
}

/// Logits of the wanted positions, one row a position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logits {
    vocab: usize,
    values: Vec<f32>,
}

impl Logits {
    /// The rows in order of position.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.vocab.max(1))
    }

    /// The last row.
    pub fn last(&self) -> Option<&[f32]> {
        self.rows().last()
    }

    /// All rows, one after the other.
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

/// A chunk of tokens on its way through the layers. It can be left and taken up again between any two layers.
#[derive(Clone, Debug)]
pub struct Pass {
    tokens: usize,
    want: Want,
    /// Layers that are through.
    layer: usize,
    flow: Flow,
    clock: Clock,
}

/// Tokens that are through the layers and of which some may be taken back: see [`Network::begin_draft`].
#[derive(Debug)]
pub struct Draft {
    tokens: usize,
    /// Of each recurrent layer; none of a pass that has moved them itself.
    inputs: Option<Vec<KdaInputs>>,
}

impl Pass {
    /// Wants no logits of it any more.
    pub fn want_nothing(&mut self) {
        self.want = Want::Nothing;
    }

    /// How many tokens' logits are wanted.
    fn wanted(&self) -> usize {
        match self.want {
            Want::Nothing => 0,
            Want::Last => self.tokens.min(1),
            Want::All => self.tokens,
        }
    }

    /// Layers that are through.
    pub fn layer(&self) -> usize {
        self.layer
    }

    /// The residual stream as it is now, `[tokens][hidden]`. Behind the last layer it is that of the tokens whose logits are
    /// wanted, or of the last one.
    pub fn stream(&self) -> &[f32] {
        &self.flow.stream
    }
}

/// What another plan's sources are made from.
struct Origin {
    checkpoint: Arc<Checkpoint>,
    files: Files,
    walk: Walk,
    shape: Shape,
    trunk: TrunkPlan,
    expert_slots: usize,
    meters: Arc<Meters>,
}

/// Trunk and experts.
type Opened = (Box<dyn Trunk>, Box<dyn Experts>);

impl Origin {
    /// Trunk and experts by this plan, over the same files.
    fn open(&self) -> Result<Opened, Error> {
        let (files, meters) = (|| Arc::clone(&self.files), || Arc::clone(&self.meters));
        let checkpoint = || Arc::clone(&self.checkpoint);
        let (walk, plan) = (&self.walk, &self.trunk);
        let trunk = StreamedTrunk::metered(checkpoint(), walk, plan, files(), meters())?;
        let (slots, gate) = (self.expert_slots, trunk.gate());
        let experts = ExpertStore::metered(checkpoint(), files(), slots, gate, meters())?;
        Ok((Box::new(trunk), Box::new(experts)))
    }
}

/// A network with its weights behind the seam.
pub struct Network {
    config: Config,
    compute: Compute,
    trunk: Box<dyn Trunk>,
    experts: Box<dyn Experts>,
    layers: Vec<Layer>,
    head: StageId,
    output_residual: Residual,
    final_norm: Vec<f32>,
    /// Tokens of a prompt that its memory is planned for.
    chunk: usize,
    /// Whether another pass is to be expected after the next one.
    more: bool,
    /// Where the router's choices are written.
    trace: Option<TraceWriter>,
    /// Those of the running pass, if it is one token's.
    chosen: Vec<(u16, u16)>,
    /// Where the sources come from, if they are a checkpoint's.
    origin: Option<Origin>,
    /// What is counted, under every plan; trunk and experts that were made elsewhere count on their own.
    meters: Arc<Meters>,
}

impl Network {
    /// The first `layers` layers of a checkpoint that has been checked, the trunk in memory.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn open(
        checkpoint: &Arc<Checkpoint>,
        layers: usize,
        compute: Compute,
    ) -> Result<Self, Error> {
        let blueprint = Blueprint::new(checkpoint.config().clone(), layers);
        let plan = TrunkPlan::resident(&blueprint.walk);
        let slots = checkpoint.config().moe.top_k;
        Self::planned(checkpoint, blueprint, &plan, slots, compute)
    }

    /// A blueprint's network over a checkpoint that has been checked, in as much memory as it is given.
    ///
    /// # Errors
    /// Something cannot be read, or there is no memory.
    pub fn planned(
        checkpoint: &Arc<Checkpoint>,
        blueprint: Blueprint,
        trunk: &TrunkPlan,
        expert_slots: usize,
        compute: Compute,
    ) -> Result<Self, Error> {
        let files = open_shards(checkpoint)?;
        Self::over_files(checkpoint, files, blueprint, trunk, expert_slots, compute)
    }

    /// As [`Self::planned`], over files that are open: the shards, and a packed trunk perhaps.
    ///
    /// # Errors
    /// As [`Self::planned`].
    pub fn over_files(
        checkpoint: &Arc<Checkpoint>,
        files: Files,
        blueprint: Blueprint,
        trunk: &TrunkPlan,
        expert_slots: usize,
        compute: Compute,
    ) -> Result<Self, Error> {
        let origin = Origin {
            checkpoint: Arc::clone(checkpoint),
            files,
            walk: blueprint.walk.clone(),
            shape: blueprint.shape(),
            trunk: trunk.clone(),
            expert_slots,
            meters: Meters::new(blueprint.layers.len()),
        };
        let meters = Arc::clone(&origin.meters);
        let (trunk, experts) = origin.open()?;
        let mut network = Self::metered(blueprint, trunk, experts, compute, meters)?;
        network.origin = Some(origin);
        Ok(network)
    }

    /// The sizes that a memory plan of this network is made from, if its weights are a checkpoint's.
    pub fn shape(&self) -> Option<&Shape> {
        self.origin.as_ref().map(|origin| &origin.shape)
    }

    /// Experts that there is room for, if the weights are a checkpoint's.
    pub fn expert_slots(&self) -> Option<usize> {
        self.origin.as_ref().map(|origin| origin.expert_slots)
    }

    /// Has its threads give way to others: a screen that shows what they do must answer keys while they compute. What the
    /// system does not allow is left as it is.
    pub fn give_way(&self) {
        self.compute.give_way();
    }

    /// What a saved state must belong to, if the weights are a checkpoint's.
    pub fn key(&self) -> Option<ModelKey> {
        let origin = self.origin.as_ref()?;
        let identity = origin.checkpoint.identity();
        Some(ModelKey::new(identity, &self.config, self.layers.len()))
    }

    /// [`Self::replan`] to what a memory plan says.
    ///
    /// # Errors
    /// As [`Self::replan`].
    pub fn replan_to(&mut self, plan: &Plan) -> Result<(), Error> {
        let Some(origin) = &self.origin else {
            return Err(StreamError::Closed.into());
        };
        self.replan(&TrunkPlan::of(plan, &origin.walk), plan.expert_slots)?;
        self.meters.plan(plan.total());
        self.plan_chunk(plan.chunk);
        Ok(())
    }

    /// Tokens of a prompt that should go through the layers together: as many as the plan has memory for.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Has memory for chunks of so many tokens.
    pub fn plan_chunk(&mut self, tokens: usize) {
        self.chunk = tokens.max(1);
    }

    /// Takes another plan's memory. Between passes only; states and results stay as they are. What the old plan held is
    /// given back first. If the new one cannot be had, the old one is taken again.
    ///
    /// # Errors
    /// Something cannot be read, or there is no memory; or the sources are not a checkpoint's.
    pub fn replan(&mut self, trunk: &TrunkPlan, expert_slots: usize) -> Result<(), Error> {
        let Some(mut origin) = self.origin.take() else {
            return Err(StreamError::Closed.into());
        };
        let closed = || Box::new(Closed(Arc::clone(&self.meters)));
        (self.trunk, self.experts) = (closed(), closed());
        let old = (
            std::mem::replace(&mut origin.trunk, trunk.clone()),
            origin.expert_slots,
        );
        origin.expert_slots = expert_slots;
        let opened = origin.open();
        let outcome = match opened {
            Ok(opened) => {
                (self.trunk, self.experts) = opened;
                Ok(())
            }
            Err(failed) => {
                (origin.trunk, origin.expert_slots) = old;
                if let Ok(opened) = origin.open() {
                    (self.trunk, self.experts) = opened;
                }
                Err(failed)
            }
        };
        self.origin = Some(origin);
        outcome
    }

    /// Reads the small vectors; everything else is asked for when it is used.
    ///
    /// # Errors
    /// A vector is missing, cannot be read or has another length.
    pub fn new(
        blueprint: Blueprint,
        trunk: Box<dyn Trunk>,
        experts: Box<dyn Experts>,
        compute: Compute,
    ) -> Result<Self, Error> {
        let meters = Meters::new(blueprint.layers.len());
        Self::metered(blueprint, trunk, experts, compute, meters)
    }

    fn metered(
        blueprint: Blueprint,
        mut trunk: Box<dyn Trunk>,
        experts: Box<dyn Experts>,
        mut compute: Compute,
        meters: Arc<Meters>,
    ) -> Result<Self, Error> {
        compute.meter = meters.kernel_meter();
        let Blueprint {
            config,
            layers,
            head,
            ..
        } = blueprint;
        let layers = layers
            .into_iter()
            .enumerate()
            .map(|(index, stages)| Layer::load(stages, &config, index, trunk.as_mut()))
            .collect::<Result<_, _>>()?;
        let output_residual = Residual::load(
            trunk.as_mut(),
            names::OUTPUT_RES_NORM,
            names::OUTPUT_RES_PROJ,
            config.hidden,
            config.norm_eps,
        )?;
        let final_norm = vector(trunk.as_mut(), names::FINAL_NORM, config.hidden)?;
        Ok(Self {
            config,
            compute,
            trunk,
            experts,
            layers,
            head,
            output_residual,
            final_norm,
            chunk: PREFILL_CHUNK,
            more: true,
            trace: None,
            chosen: Vec::new(),
            origin: None,
            meters,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Layers that run.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// A state before the first token, for at most `capacity` positions.
    ///
    /// # Errors
    /// There is no room for the caches.
    pub fn new_state(&self, capacity: usize) -> Result<State, Error> {
        State::new(&self.config, self.layers.len(), capacity)
    }

    /// Says whether another pass is to be expected after the next one. Readers run on across its end if so, which is what
    /// they do until told otherwise.
    pub fn expect_more(&mut self, more: bool) {
        self.more = more;
    }

    /// Writes the router's choices to a trace from now on.
    pub fn record(&mut self, trace: TraceWriter) {
        self.trace = Some(trace);
    }

    /// Ends the trace, if there is one.
    ///
    /// # Errors
    /// Its end cannot be written.
    pub fn end_record(&mut self) -> Result<(), Error> {
        Ok(self.trace.take().map_or(Ok(()), TraceWriter::finish)?)
    }

    /// What went by of the trunk so far, under every plan.
    pub fn trunk_counters(&self) -> TrunkCounters {
        self.trunk.counters()
    }

    /// What was asked of the experts so far, under every plan.
    pub fn expert_counters(&self) -> ExpertCounters {
        self.experts.counters()
    }

    /// What is counted, for whoever watches from another thread. They stay the same under every plan.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Feeds a prompt in chunks of at most `chunk` tokens. Any chunking gives the same bits.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`Self::advance`].
    pub fn prefill(
        &mut self,
        state: &mut State,
        ids: &[u32],
        chunk: usize,
        want: Want,
    ) -> Result<Logits, Error> {
        let mut logits = Logits {
            vocab: self.config.vocab,
            values: Vec::new(),
        };
        let chunks = ids.chunks(chunk.max(1));
        let last = chunks.len().saturating_sub(1);
        for (i, ids) in chunks.enumerate() {
            let want = if want == Want::Last && i < last {
                Want::Nothing
            } else {
                want
            };
            logits.values.extend(self.feed(state, ids, want)?.values);
        }
        Ok(logits)
    }

    /// Feeds one chunk through all layers.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`Self::advance`].
    pub fn feed(&mut self, state: &mut State, ids: &[u32], want: Want) -> Result<Logits, Error> {
        let mut pass = self.begin(state, ids, want)?;
        while !self.advance(&mut pass, state)? {}
        self.finish(pass, state)
    }

    /// Starts a pass over `ids`. Until it is finished the state is torn.
    ///
    /// # Errors
    /// An id outside the vocabulary, a full context, a torn state, an embedding that cannot be read.
    pub fn begin(&mut self, state: &mut State, ids: &[u32], want: Want) -> Result<Pass, Error> {
        let (hidden, vocab) = (self.config.hidden, self.config.vocab);
        if let Some(&id) = ids.iter().find(|&&id| id as usize >= vocab) {
            return Err(Error::Id { id, vocab });
        }
        state.tear(ids.len())?;
        let mut clock = Clock::start(Instant::now(), &self.meters);
        self.meters.pass_begins(&clock);
        let mut stream = vec![0.0; ids.len() * hidden];
        for (&id, row) in ids.iter().zip(stream.chunks_exact_mut(hidden)) {
            self.trunk.embedding(id, row)?;
        }
        self.trunk.begin(PassPlan {
            head: want != Want::Nothing,
            more: self.more,
        })?;
        clock.rest(Instant::now(), &self.meters);
        Ok(Pass {
            tokens: ids.len(),
            want,
            layer: 0,
            flow: Flow {
                stream,
                ..Flow::default()
            },
            clock,
        })
    }

    /// Starts a pass over tokens of which only the first may turn out to be right: the recurrent states are not moved until
    /// [`Self::commit`] says by how many. It is ended by [`Self::finish_draft`].
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_draft(&mut self, state: &mut State, ids: &[u32]) -> Result<Pass, Error> {
        let mut pass = self.begin(state, ids, Want::All)?;
        pass.flow.draft = Some(Vec::new());
        Ok(pass)
    }

    /// Moves a pass through its next layer; true when all are through.
    ///
    /// # Errors
    /// Weights cannot be read. The pass and its state are lost then.
    pub fn advance(&mut self, pass: &mut Pass, state: &mut State) -> Result<bool, Error> {
        if pass.tokens == 0 {
            // Nothing to compute, and no layer divides by the number of tokens.
            pass.layer = self.layers.len();
            return Ok(true);
        }
        let Self {
            config,
            compute,
            trunk,
            experts,
            layers,
            trace,
            chosen,
            meters,
            ..
        } = self;
        let (Some(layer), Some(state)) = (layers.get(pass.layer), state.layers.get_mut(pass.layer))
        else {
            return Ok(true);
        };
        let mut sources = Sources {
            trunk: trunk.as_mut(),
            experts: experts.as_mut(),
        };
        pass.clock.work(Instant::now(), meters);
        // Behind the last layer nothing looks at the others. Its weights go by whatever is wanted, and one token goes with
        // them. A trace has the choices of all.
        let wanted = match pass.layer + 1 == layers.len() && trace.is_none() {
            true => pass.wanted().max(1),
            false => pass.tokens,
        };
        let flow = &mut pass.flow;
        let choices =
            compute.run(|| layer.forward(compute, &mut sources, config, state, flow, wanted))?;
        if let Some(trace) = trace {
            for choices in &choices {
                let experts: Vec<usize> = choices.iter().map(|c| c.expert).collect();
                trace.record(pass.layer, &experts)?;
            }
        }
        if pass.tokens == 1 {
            if pass.layer == 0 {
                chosen.clear();
            }
            // Both are below 65,536 in every configuration that is accepted.
            let short = |n| u16::try_from(n).unwrap_or(u16::MAX);
            let choices = choices.iter().flatten();
            chosen.extend(choices.map(|choice| (short(pass.layer), short(choice.expert))));
            if pass.layer + 1 == layers.len() {
                meters.recent().push(chosen);
            }
        }
        pass.layer += 1;
        let (time, waited) = pass.clock.rest(Instant::now(), meters);
        meters.layer_through(pass.layer, time, waited);
        Ok(pass.layer == layers.len())
    }

    /// Ends a pass that is through all layers: the state is whole again, and the wanted logits are computed.
    ///
    /// # Errors
    /// A layer is missing ([`Error::Torn`]), the head cannot be read, or a logit is not finite.
    pub fn finish(&mut self, pass: Pass, state: &mut State) -> Result<Logits, Error> {
        let tokens = pass.tokens;
        let (logits, draft) = self.finish_draft(pass, state)?;
        self.commit(draft, state, tokens)?;
        Ok(logits)
    }

    /// Ends a pass that is through all layers and gives its logits. The state stays torn until [`Self::commit`].
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_draft(
        &mut self,
        mut pass: Pass,
        state: &State,
    ) -> Result<(Logits, Draft), Error> {
        if pass.layer < self.layers.len() {
            return Err(Error::Torn);
        }
        pass.clock.work(Instant::now(), &self.meters);
        let before = state.positions();
        let vocab = self.config.vocab;
        let wanted = pass.wanted();
        let mut values = vec![0.0; wanted * vocab];
        if wanted > 0 {
            let hidden = self.config.hidden;
            pass.flow.keep_last(wanted * hidden);
            let Self {
                config,
                compute,
                trunk,
                output_residual,
                final_norm,
                head,
                ..
            } = self;
            compute.run(|| {
                let mixed = output_residual.mix(compute, &pass.flow.blocks, &pass.flow.stream)?;
                let x = norm_rows(compute, &mixed, final_norm, config.norm_eps)?;
                let mut room = compute.room(&x, hidden)?;
                let x = compute.tokens(&x, hidden, &mut room);
                compute.products(trunk.as_mut(), *head, &mut [(&x, &mut values)])
            })?;
        }
        if pass.tokens > 1 && pass.want == Want::Last {
            // A prompt's end: what follows takes far less.
            self.compute.workspace.trim();
        }
        if let Some(bad) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite {
                position: before + pass.tokens - wanted + bad / vocab,
            });
        }
        let now = Instant::now();
        pass.clock.rest(now, &self.meters);
        let token = (wanted > 0).then(|| pass.clock.split(now, pass.tokens));
        self.meters.pass_ends(token);
        let draft = Draft {
            tokens: pass.tokens,
            inputs: pass.flow.draft,
        };
        Ok((Logits { vocab, values }, draft))
    }

    /// Moves `state` on by the first `stand` tokens of a draft; it is what feeding these alone would have made it, bit for
    /// bit, and whole again. Nothing is read for it.
    ///
    /// # Errors
    /// More tokens than the draft has, fewer than all of a pass that was no draft, or a state of another model.
    pub fn commit(&self, draft: Draft, state: &mut State, stand: usize) -> Result<(), Error> {
        if stand > draft.tokens || draft.inputs.is_none() && stand < draft.tokens {
            return Err(Error::Torn);
        }
        if stand < draft.tokens {
            state.forget(draft.tokens - stand);
        }
        let recurrent = self.layers.iter().map(Layer::recurrent);
        let moved = recurrent
            .zip(&mut state.layers)
            .filter_map(|(kda, state)| Some((kda?, state)));
        for ((kda, state), inputs) in moved.zip(draft.inputs.unwrap_or_default()) {
            let LayerState::Kda(state) = state else {
                return Err(Error::Torn);
            };
            let compute = &self.compute;
            compute.run(|| kda.commit(compute, state, inputs, stand))?;
        }
        state.mend(stand);
        Ok(())
    }
}
