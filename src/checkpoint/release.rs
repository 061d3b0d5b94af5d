//! What is known of the published files: where they are called what, how many, and the digests of the small ones. Facts
//! only; that a checkpoint is another one is no fault.

/// The repository.
pub const REPOSITORY: &str = "moonshotai/Kimi-K3";
/// The commit that the figures here are of.
pub const REVISION: &str = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569";
/// Shards.
pub const SHARDS: usize = 96;
/// Bytes of all shards.
pub const SHARD_BYTES: u64 = 1_560_936_091_448;

/// SHA-256 of files beside the shards that decide what comes out.
const DIGESTS: [(&str, &str); 4] = [
    (
        "config.json",
        "9710e121a58d03ac92c8d6da287a19541994319afbbe6d6202af001ffd379213",
    ),
    (
        "model.safetensors.index.json",
        "a1c5210650ce71d2d3ae9ec5a101ac4afd3cf4b10091be589853437eb967febd",
    ),
    (
        "tiktoken.model",
        "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103",
    ),
    (
        "tokenizer_config.json",
        "5d0803c94db9cd78763499e0956c95fd5a225c14a727e5a6cf5db3f96f010a6e",
    ),
];

/// SHA-256 of the released file of this name, in hexadecimal digits, if it is known.
pub fn sha256(name: &str) -> Option<&'static str> {
    let found = DIGESTS.iter().find(|(file, _)| *file == name);
    found.map(|(_, sha256)| *sha256)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn these_are_the_released_files_digests() {
        let Some(folder) = std::env::var_os("K3_ORACLE").map(std::path::PathBuf::from) else {
            println!("these_are_the_released_files_digests: NOT RUN, K3_ORACLE names no folder");
            return;
        };
        for (file, name) in [
            ("chat/official-config.json", "config.json"),
            ("chat/tokenizer_config.json", "tokenizer_config.json"),
        ] {
            let digest = Sha256::digest(std::fs::read(folder.join(file)).unwrap());
            let digest = crate::checkpoint::hex(&digest);
            assert_eq!(sha256(name), Some(&*digest), "{name}");
        }
        assert_eq!(sha256("README.md"), None);
    }
}
