//! What is on disk: `config.json`, safetensors shards, tensor names, synthetic checkpoints. Nothing here computes.

pub mod config;
