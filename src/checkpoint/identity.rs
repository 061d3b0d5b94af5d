//! A model's identity: one hash over its configuration and over the name, size and header of every shard.
//!
//! Weights are not read for it. Two checkpoints of one shape whose headers agree byte for byte have one identity.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::config::{Attention, Config};

/// The hash while shards are being indexed.
pub(super) struct Identity(Sha256);

impl Identity {
    pub(super) fn new(config: &Config) -> Identity {
        let mut identity = Identity(Sha256::new());
        identity.field(canonical(config).as_bytes());
        identity
    }

    pub(super) fn shard(&mut self, name: &[u8], len: u64, header: &[u8]) {
        self.field(name);
        self.0.update(len.to_le_bytes());
        self.field(header);
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// Lengths are hashed too, so that no two sequences of fields give the same bytes.
    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}

/// Everything of the configuration that changes what the network computes, in a text of its own, so that neither the
/// layout of `config.json` nor this program's types matter. Floats stand as their bits. Token ids and the longest
/// context change nothing and are left out.
fn canonical(config: &Config) -> String {
    let Config {
        kda,
        mla,
        moe,
        situ,
        ..
    } = config;
    let attention: String = config
        .attention
        .iter()
        .map(|kind| if *kind == Attention::Mla { 'm' } else { 'k' })
        .collect();
    let mut text = format!("k3 1 {attention}");
    for number in [
        config.hidden,
        config.vocab,
        config.dense_layers,
        config.dense_inner,
        config.block,
        kda.heads,
        kda.head_dim,
        kda.conv_kernel,
        mla.heads,
        mla.q_rank,
        mla.kv_rank,
        mla.nope_dim,
        mla.rope_dim,
        mla.v_dim,
        usize::from(mla.output_gate),
        moe.experts,
        moe.top_k,
        moe.shared,
        moe.latent,
        moe.inner,
        usize::from(moe.renormalize),
        usize::from(moe.latent_norm),
    ] {
        // Writing to a String does not fail.
        let _ = write!(text, " {number}");
    }
    for float in [
        config.norm_eps,
        kda.gate_lower_bound,
        mla.lora_norm_eps,
        moe.scaling,
        situ.beta,
        situ.linear_beta,
    ] {
        let _ = write!(text, " {:08x}", float.to_bits());
    }
    text
}

impl Config {
    /// A hash of everything in the configuration that changes what the network computes.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(canonical(self)).into()
    }
}
