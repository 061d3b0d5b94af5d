//! What the checkpoint of a configuration holds: names, shapes and types. The one place that says so; the writer
//! of synthetic checkpoints and the check of real ones both follow it.

use super::config::{Attention, Config, MoeShape};
use super::header::Dtype;
use super::names::{self, ExpertPart};

/// Elements that share one scale in MXFP4.
pub const MXFP4_GROUP: usize = 32;

/// How a tensor is used, which decides what types it may have on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A weight matrix, streamed: BF16 and nothing else.
    Matrix,
    /// A small vector, widened to f32 when it is loaded: BF16 or F32. Descriptions of the release disagree on which
    /// of the two some of them have.
    Vector,
}

impl Kind {
    /// Whether a tensor of this kind may be stored as `dtype`.
    pub fn allows(self, dtype: Dtype) -> bool {
        dtype == Dtype::Bf16 || (self == Kind::Vector && dtype == Dtype::F32)
    }
}

/// One tensor outside the routed experts.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Full name.
    pub name: String,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// Type in the release.
    pub dtype: Dtype,
    /// How it is used.
    pub kind: Kind,
}

impl Entry {
    /// Size in bytes at the release's type.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product::<u64>() * self.dtype.size()
    }
}

/// Everything outside the routed experts of a model cut to its first `layers` layers: the layers in order, then
/// what stands outside them.
pub fn trunk(config: &Config, layers: usize) -> Vec<Entry> {
    let mut all: Vec<Entry> = (0..layers.min(config.layers()))
        .flat_map(|at| layer(config, at))
        .collect();
    all.extend(outside_layers(config));
    all
}

/// The tensors of one layer, routed experts excepted.
pub fn layer(config: &Config, layer: usize) -> Vec<Entry> {
    let hidden = config.hidden;
    let mut list = List {
        layer,
        entries: Vec::new(),
    };
    list.norm(names::INPUT_NORM, hidden);
    list.norm(names::POST_NORM, hidden);
    list.norm(names::ATTN_RES_NORM, hidden);
    list.vector(names::ATTN_RES_PROJ, &[1, hidden], Dtype::Bf16);
    list.norm(names::MLP_RES_NORM, hidden);
    list.vector(names::MLP_RES_PROJ, &[1, hidden], Dtype::Bf16);
    match config.attention.get(layer) {
        Some(Attention::Kda) => list.kda(config),
        Some(Attention::Mla) => list.mla(config),
        None => return Vec::new(),
    }
    if config.is_dense(layer) {
        list.matrix(names::MLP_GATE, config.dense_inner, hidden);
        list.matrix(names::MLP_UP, config.dense_inner, hidden);
        list.matrix(names::MLP_DOWN, hidden, config.dense_inner);
    } else {
        list.moe(config);
    }
    list.entries
}

/// Embedding, final norm, output residual and head.
pub fn outside_layers(config: &Config) -> Vec<Entry> {
    let hidden = config.hidden;
    let entry = |name: &str, shape: &[usize], kind| Entry {
        name: name.to_owned(),
        shape: shape.to_vec(),
        dtype: Dtype::Bf16,
        kind,
    };
    vec![
        entry(names::EMBEDDING, &[config.vocab, hidden], Kind::Matrix),
        entry(names::FINAL_NORM, &[hidden], Kind::Vector),
        entry(names::OUTPUT_RES_NORM, &[hidden], Kind::Vector),
        entry(names::OUTPUT_RES_PROJ, &[1, hidden], Kind::Vector),
        entry(names::LM_HEAD, &[config.vocab, hidden], Kind::Matrix),
    ]
}

/// The entries of one layer while they are being listed.
struct List {
    layer: usize,
    entries: Vec<Entry>,
}

impl List {
    fn push(&mut self, suffix: &str, shape: &[usize], dtype: Dtype, kind: Kind) {
        let name = names::in_layer(self.layer, suffix);
        self.entries.push(Entry {
            name,
            shape: shape.to_vec(),
            dtype,
            kind,
        });
    }

    fn matrix(&mut self, suffix: &str, rows: usize, cols: usize) {
        self.push(suffix, &[rows, cols], Dtype::Bf16, Kind::Matrix);
    }

    fn vector(&mut self, suffix: &str, shape: &[usize], dtype: Dtype) {
        self.push(suffix, shape, dtype, Kind::Vector);
    }

    fn norm(&mut self, suffix: &str, width: usize) {
        self.vector(suffix, &[width], Dtype::Bf16);
    }

    fn kda(&mut self, config: &Config) {
        let (hidden, kda) = (config.hidden, &config.kda);
        let width = kda.width();
        for suffix in [names::Q_PROJ, names::K_PROJ, names::V_PROJ, names::G_PROJ] {
            self.matrix(suffix, width, hidden);
        }
        self.matrix(names::O_PROJ, hidden, width);
        for suffix in [names::Q_CONV, names::K_CONV, names::V_CONV] {
            self.vector(suffix, &[width, 1, kda.conv_kernel], Dtype::F32);
        }
        self.matrix(names::F_A_PROJ, kda.head_dim, hidden);
        self.matrix(names::F_B_PROJ, width, kda.head_dim);
        self.matrix(names::B_PROJ, kda.heads, hidden);
        // Stored at the width of a head, although only one value a head is used.
        self.vector(names::A_LOG, &[kda.head_dim], Dtype::F32);
        self.vector(names::DT_BIAS, &[width], Dtype::F32);
        self.vector(names::O_NORM, &[kda.head_dim], Dtype::F32);
    }

    fn mla(&mut self, config: &Config) {
        let (hidden, mla) = (config.hidden, &config.mla);
        self.matrix(names::Q_A_PROJ, mla.q_rank, hidden);
        self.norm(names::Q_A_NORM, mla.q_rank);
        self.matrix(names::Q_B_PROJ, mla.heads * mla.q_dim(), mla.q_rank);
        self.matrix(names::KV_A_PROJ, mla.cache_width(), hidden);
        self.norm(names::KV_A_NORM, mla.kv_rank);
        self.matrix(
            names::KV_B_PROJ,
            mla.heads * mla.kv_b_head_rows(),
            mla.kv_rank,
        );
        self.matrix(names::O_PROJ, hidden, mla.heads * mla.v_dim);
        if mla.output_gate {
            self.matrix(names::G_PROJ, mla.heads * mla.v_dim, hidden);
        }
    }

    fn moe(&mut self, config: &Config) {
        let (hidden, moe) = (config.hidden, &config.moe);
        self.matrix(names::ROUTER, moe.experts, hidden);
        self.vector(names::ROUTER_BIAS, &[moe.experts], Dtype::F32);
        self.matrix(names::LATENT_DOWN, moe.latent, hidden);
        self.matrix(names::LATENT_UP, hidden, moe.latent);
        if moe.latent_norm {
            self.norm(names::LATENT_NORM, moe.latent);
        }
        self.matrix(names::SHARED_GATE, moe.shared_inner(), hidden);
        self.matrix(names::SHARED_UP, moe.shared_inner(), hidden);
        self.matrix(names::SHARED_DOWN, hidden, moe.shared_inner());
    }
}

/// Where one of the six tensors of an expert stands in the canonical run, and its shape in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLayout {
    /// Rows: output features.
    pub rows: usize,
    /// Bytes a row: two values a byte when packed, 32 values a byte as scales.
    pub cols: usize,
    /// First byte, counted from the beginning of the run.
    pub offset: u64,
    /// `rows * cols`.
    pub bytes: u64,
}

impl PartLayout {
    /// Where the part stands in the run.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.bytes) as usize
    }
}

/// The canonical run of one routed expert: six tensors without gaps, in the order of [`ExpertPart::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertLayout {
    parts: [PartLayout; 6],
    bytes: u64,
}

impl ExpertLayout {
    /// The layout that follows from the sizes: `w1` and `w3` are `[inner, latent]`, `w2` is `[latent, inner]`.
    /// Both widths should be multiples of [`MXFP4_GROUP`], else no such expert can be stored.
    pub fn new(moe: &MoeShape) -> ExpertLayout {
        let mut offset = 0;
        let parts = ExpertPart::ALL.map(|part| {
            let (rows, values) = match part {
                ExpertPart::W2Packed | ExpertPart::W2Scale => (moe.latent, moe.inner),
                _ => (moe.inner, moe.latent),
            };
            let cols = match part {
                ExpertPart::W1Packed | ExpertPart::W2Packed | ExpertPart::W3Packed => values / 2,
                _ => values / MXFP4_GROUP,
            };
            let bytes = rows as u64 * cols as u64;
            let layout = PartLayout {
                rows,
                cols,
                offset,
                bytes,
            };
            offset += bytes;
            layout
        });
        ExpertLayout {
            parts,
            bytes: offset,
        }
    }

    /// One part's place and shape.
    pub fn part(&self, part: ExpertPart) -> PartLayout {
        self.parts[part as usize]
    }

    /// Bytes of the whole run.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What is wrong with the experts' widths for MXFP4, if anything: both must be whole groups of 32.
pub fn mxfp4_problem(moe: &MoeShape) -> Option<String> {
    let wrong: Vec<String> = [
        ("routed_expert_hidden_size", moe.latent),
        ("moe_intermediate_size", moe.inner),
    ]
    .into_iter()
    .filter(|(_, size)| !size.is_multiple_of(MXFP4_GROUP))
    .map(|(key, size)| format!("{key} {size} is not a multiple of {MXFP4_GROUP}"))
    .collect();
    (!wrong.is_empty()).then(|| format!("{}, so experts cannot be MXFP4", wrong.join(" and ")))
}
