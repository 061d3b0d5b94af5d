//! One layer, or one half of it, driven by itself over tensors in memory.

use std::sync::Arc;

use k3::checkpoint::Config;
use k3::checkpoint::config::{Attention, KdaShape, MlaShape, MoeShape, Situ};
use k3::kernels::Isa;
use k3::model::{
    Compute, Dense, DenseStages, Flow, Kda, KdaStages, KdaState, LatentCache, Layer, LayerStages,
    LayerState, Mla, MlaStages, Moe, MoeStages, Residual, Routed, Sources,
};
use k3::stream::{PassPlan, Trunk, Walk};

use super::memory::{MemoryExperts, MemoryTrunk};
use super::tensors::Tensors;

/// What a layer is driven with.
pub struct Alone {
    pub config: Config,
    pub tensors: Arc<Tensors>,
    /// Zero-based number of the layer; its tensors are named after it.
    pub layer: usize,
    pub compute: Compute,
}

impl Alone {
    /// Layer 0, two threads.
    pub fn new(config: Config, tensors: Tensors, isa: Isa) -> Self {
        Self {
            config,
            tensors: Arc::new(tensors),
            layer: 0,
            compute: Compute::new(2, isa).unwrap(),
        }
    }

    /// The sources for a walk, a pass begun. Small segments, so that matrices come in pieces.
    fn begin<T>(
        &self,
        walk: &Walk,
        load: impl FnOnce(&mut dyn Trunk) -> T,
    ) -> (T, MemoryTrunk, MemoryExperts) {
        let mut trunk = MemoryTrunk::new(&self.tensors, walk, 700);
        let loaded = load(&mut trunk);
        let plan = PassPlan {
            head: false,
            more: false,
        };
        trunk.begin(plan).unwrap();
        (loaded, trunk, MemoryExperts::new(&self.tensors, 7))
    }

    fn run<T, R: Send>(
        &self,
        walk: &Walk,
        load: impl FnOnce(&mut dyn Trunk) -> T,
        forward: impl FnOnce(&T, &mut Sources<'_>) -> R + Send,
    ) -> R
    where
        T: Sync,
    {
        let (loaded, mut trunk, mut experts) = self.begin(walk, load);
        let mut sources = Sources {
            trunk: &mut trunk,
            experts: &mut experts,
        };
        self.compute.run(|| forward(&loaded, &mut sources))
    }

    pub fn kda(&self, state: &mut KdaState, x: &[f32]) -> Vec<f32> {
        let mut walk = Walk::default();
        let stages = KdaStages::plan(&mut walk, &self.config, self.layer);
        self.run(
            &walk,
            |trunk| Kda::load(stages, &self.config, self.layer, trunk).unwrap(),
            |kda, sources| {
                let tokens = x.len() / self.config.hidden;
                kda.forward(&self.compute, sources, state, x, tokens, None)
                    .unwrap()
                    .to_vec()
            },
        )
    }

    pub fn mla(&self, cache: &mut LatentCache, x: &[f32]) -> Vec<f32> {
        let mut walk = Walk::default();
        let stages = MlaStages::plan(&mut walk, &self.config, self.layer);
        self.run(
            &walk,
            |trunk| Mla::load(stages, &self.config, self.layer, trunk).unwrap(),
            |mla, sources| {
                let tokens = x.len() / self.config.hidden;
                mla.forward(&self.compute, sources, cache, x, tokens)
                    .unwrap()
                    .to_vec()
            },
        )
    }

    pub fn dense(&self, x: &[f32]) -> Vec<f32> {
        let mut walk = Walk::default();
        let stages = DenseStages::plan(&mut walk, &self.config, self.layer);
        self.run(
            &walk,
            |_| Dense::new(stages, &self.config),
            |dense, sources| dense.forward(&self.compute, sources, x).unwrap().to_vec(),
        )
    }

    pub fn moe(&self, x: &[f32]) -> Routed {
        let mut walk = Walk::default();
        let stages = MoeStages::plan(&mut walk, &self.config, self.layer);
        self.run(
            &walk,
            |trunk| Moe::load(stages, &self.config, self.layer, trunk).unwrap(),
            |moe, sources| {
                moe.forward(&self.compute, sources, &self.config, x)
                    .unwrap()
            },
        )
    }

    /// The whole layer, as [`Layer::forward`].
    pub fn layer(&self, state: &mut LayerState, flow: &mut Flow) {
        let mut walk = Walk::default();
        let stages = LayerStages::plan(&mut walk, &self.config, self.layer);
        self.run(
            &walk,
            |trunk| Layer::load(stages, &self.config, self.layer, trunk).unwrap(),
            |layer, sources| {
                let (compute, config) = (&self.compute, &self.config);
                let tokens = flow.stream.len() / config.hidden;
                layer.forward(compute, sources, config, state, flow, tokens)
            },
        )
        .unwrap();
    }

    /// An attention residual by the full names of its two vectors.
    pub fn mix(&self, norm: &str, proj: &str, blocks: &[Vec<f32>], stream: &[f32]) -> Vec<f32> {
        let mut trunk = MemoryTrunk::new(&self.tensors, &Walk::default(), 1);
        let (width, eps) = (self.config.hidden, self.config.norm_eps);
        let residual = Residual::load(&mut trunk, norm, proj, width, eps).unwrap();
        self.compute
            .run(|| residual.mix(&self.compute, blocks, stream))
            .unwrap()
            .to_vec()
    }
}

/// A configuration of two layers in which every width is 1, to be filled in by a test of one operator.
pub fn narrow() -> Config {
    Config {
        hidden: 1,
        attention: vec![Attention::Kda, Attention::Mla],
        vocab: 1,
        norm_eps: 1e-5,
        kda: KdaShape {
            heads: 1,
            head_dim: 1,
            conv_kernel: 1,
            gate_lower_bound: -1.0,
        },
        mla: MlaShape {
            heads: 1,
            q_rank: 1,
            kv_rank: 1,
            nope_dim: 1,
            rope_dim: 1,
            v_dim: 1,
            output_gate: true,
            lora_norm_eps: 1e-6,
        },
        moe: MoeShape {
            experts: 1,
            top_k: 1,
            shared: 1,
            latent: 1,
            inner: 1,
            scaling: 1.0,
            renormalize: true,
            latent_norm: true,
        },
        dense_layers: 1,
        dense_inner: 1,
        block: 1,
        situ: Situ {
            beta: 1.0,
            linear_beta: 1.0,
        },
        max_positions: None,
        bos: None,
        eos: None,
        pad: None,
        vision: false,
    }
}

/// The state of a KDA layer out of its parts; a history is [channels][taps - 1], oldest first.
pub fn kda_state(recurrent: Vec<f32>, histories: [Vec<f32>; 3], shape: &KdaShape) -> KdaState {
    let past = shape.conv_kernel - 1;
    KdaState {
        recurrent,
        history: histories.map(|h| super::tensors::turned(&h, past)),
    }
}
