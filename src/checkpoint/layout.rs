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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the published description of the release lists for one kind of layer: name, shape, type. Written out
    /// here once more, so that a slip in a name or a shape shows without any weights.
    const EVERY: &str = "
        input_layernorm.weight 7168 BF16
        post_attention_layernorm.weight 7168 BF16
        self_attention_res_norm.weight 7168 BF16
        self_attention_res_proj.weight 1x7168 BF16
        mlp_res_norm.weight 7168 BF16
        mlp_res_proj.weight 1x7168 BF16";
    const KDA: &str = "
        self_attn.q_proj.weight 12288x7168 BF16
        self_attn.k_proj.weight 12288x7168 BF16
        self_attn.v_proj.weight 12288x7168 BF16
        self_attn.g_proj.weight 12288x7168 BF16
        self_attn.o_proj.weight 7168x12288 BF16
        self_attn.q_conv1d.weight 12288x1x4 F32
        self_attn.k_conv1d.weight 12288x1x4 F32
        self_attn.v_conv1d.weight 12288x1x4 F32
        self_attn.f_a_proj.weight 128x7168 BF16
        self_attn.f_b_proj.weight 12288x128 BF16
        self_attn.b_proj.weight 96x7168 BF16
        self_attn.A_log 128 F32
        self_attn.dt_bias 12288 F32
        self_attn.o_norm.weight 128 F32";
    const MLA: &str = "
        self_attn.q_a_proj.weight 1536x7168 BF16
        self_attn.q_a_layernorm.weight 1536 BF16
        self_attn.q_b_proj.weight 18432x1536 BF16
        self_attn.kv_a_proj_with_mqa.weight 576x7168 BF16
        self_attn.kv_a_layernorm.weight 512 BF16
        self_attn.kv_b_proj.weight 24576x512 BF16
        self_attn.o_proj.weight 7168x12288 BF16
        self_attn.g_proj.weight 12288x7168 BF16";
    const DENSE: &str = "
        mlp.gate_proj.weight 33792x7168 BF16
        mlp.up_proj.weight 33792x7168 BF16
        mlp.down_proj.weight 7168x33792 BF16";
    const MOE: &str = "
        block_sparse_moe.gate.weight 896x7168 BF16
        block_sparse_moe.gate.e_score_correction_bias 896 F32
        block_sparse_moe.routed_expert_down_proj.weight 3584x7168 BF16
        block_sparse_moe.routed_expert_up_proj.weight 7168x3584 BF16
        block_sparse_moe.routed_expert_norm.weight 3584 BF16
        block_sparse_moe.shared_experts.gate_proj.weight 6144x7168 BF16
        block_sparse_moe.shared_experts.up_proj.weight 6144x7168 BF16
        block_sparse_moe.shared_experts.down_proj.weight 7168x6144 BF16";
    const OUTSIDE: &str = "
        language_model.lm_head.weight 163840x7168 BF16
        language_model.model.embed_tokens.weight 163840x7168 BF16
        language_model.model.norm.weight 7168 BF16
        language_model.model.output_attn_res_norm.weight 7168 BF16
        language_model.model.output_attn_res_proj.weight 1x7168 BF16";

    fn sorted(mut lines: Vec<String>) -> Vec<String> {
        lines.sort_unstable();
        lines
    }

    fn listed(tables: &[&str], prefix: &str) -> Vec<String> {
        let lines = tables
            .iter()
            .flat_map(|table| table.lines())
            .map(str::trim)
            .filter(|line| !line.is_empty());
        sorted(lines.map(|line| format!("{prefix}{line}")).collect())
    }

    fn shown(entries: &[Entry]) -> Vec<String> {
        let show = |entry: &Entry| {
            let shape: Vec<String> = entry.shape.iter().map(usize::to_string).collect();
            format!("{} {} {}", entry.name, shape.join("x"), entry.dtype)
        };
        sorted(entries.iter().map(show).collect())
    }

    #[test]
    fn the_released_names_bind_without_weights() {
        let config = Config::released();
        assert_eq!(shown(&outside_layers(&config)), listed(&[OUTSIDE], ""));
        for number in 0..93 {
            let attention = if [3, 7, 11, 91, 92].contains(&number) || number % 4 == 3 {
                MLA
            } else {
                KDA
            };
            let network = if number == 0 { DENSE } else { MOE };
            let prefix = format!("language_model.model.layers.{number}.");
            assert_eq!(
                shown(&layer(&config, number)),
                listed(&[EVERY, attention, network], &prefix)
            );
        }
        let all = trunk(&config, 93);
        assert_eq!(all.len(), 2460);
        let names: std::collections::HashSet<&str> =
            all.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), 2460);
        assert_eq!(all.len() + 92 * 896 * 6 + 168, 497_220);
        assert!(layer(&config, 93).is_empty());
        assert_eq!(trunk(&config, 2).len(), 23 + 28 + 5);
        assert_eq!(trunk(&config, 1000).len(), 2460);
    }

    /// The published totals, which count o_norm as BF16; it is F32 in the published shard headers.
    #[test]
    fn the_released_sizes_add_up() {
        let config = Config::released();
        let o_norm = 69 * 128 * 2;
        let layers: u64 = (0..93)
            .flat_map(|number| layer(&config, number))
            .map(|entry| entry.bytes())
            .sum();
        assert_eq!(layers, 108_811_859_712 + o_norm);
        let bytes = |number| layer(&config, number).iter().map(Entry::bytes).sum::<u64>();
        assert_eq!(
            (bytes(0), bytes(1), bytes(3)),
            (2_341_212_928 + 256, 1_267_744_000 + 256, 844_335_616)
        );
    }

    #[test]
    fn the_released_expert_is_one_run_of_17_547_264_bytes() {
        let layout = ExpertLayout::new(&Config::released().moe);
        assert_eq!(layout.bytes(), 17_547_264);
        let place = |part| {
            let PartLayout {
                rows,
                cols,
                offset,
                bytes,
            } = layout.part(part);
            (rows, cols, offset, bytes)
        };
        assert_eq!(place(ExpertPart::W1Packed), (3072, 1792, 0, 5_505_024));
        assert_eq!(place(ExpertPart::W1Scale), (3072, 112, 5_505_024, 344_064));
        assert_eq!(
            place(ExpertPart::W2Packed),
            (3584, 1536, 5_849_088, 5_505_024)
        );
        assert_eq!(place(ExpertPart::W2Scale), (3584, 96, 11_354_112, 344_064));
        assert_eq!(
            place(ExpertPart::W3Packed),
            (3072, 1792, 11_698_176, 5_505_024)
        );
        assert_eq!(place(ExpertPart::W3Scale), (3072, 112, 17_203_200, 344_064));
        assert_eq!(mxfp4_problem(&Config::released().moe), None);
    }

    #[test]
    fn switches_leave_their_tensors_out() {
        let mut config = Config::released();
        config.mla.output_gate = false;
        config.moe.latent_norm = false;
        let names = |number| {
            layer(&config, number)
                .into_iter()
                .map(|entry| entry.name)
                .collect::<Vec<_>>()
        };
        assert!(!names(3).contains(&names::in_layer(3, names::G_PROJ)));
        assert!(
            names(4).contains(&names::in_layer(4, names::G_PROJ)),
            "KDA keeps its gate"
        );
        assert!(!names(3).contains(&names::in_layer(3, names::LATENT_NORM)));
    }

    #[test]
    fn widths_that_are_no_whole_groups_are_named() {
        let mut moe = Config::released().moe;
        moe.inner = 48;
        assert!(
            mxfp4_problem(&moe)
                .unwrap()
                .starts_with("moe_intermediate_size 48 is not")
        );
        moe.latent = 16;
        assert!(
            mxfp4_problem(&moe)
                .unwrap()
                .contains("routed_expert_hidden_size 16")
        );
    }
}
