//! A small tokenizer for tests, made by a few lines of code. It is no part of the program.

use base64::Engine as _;

/// Merges that meet ties, overlaps, characters of several bytes, and the words of the chat format.
pub const MERGES: [&str; 44] = [
    "in", "er", "th", " t", "he", "the", " the", "on", "an", " a", "or", "es", "ou", " w", "ro",
    "le", "ss", "se", "us", "user", "role", " role", "me", "ag", "age", "ess", "think", "message",
    "ing", "aa", "aaaa", "ab", "aba", "  ", "    ", "=\"", "中", "文", "中文", "😀", "\n\n", "123",
    "ſ", "response",
];

/// The 16 names of the release, by their distance from the end of the vocabulary.
pub const NAMES: [(u32, &str); 16] = [
    (0, "[BOS]"),
    (1, "[EOS]"),
    (2, "<|end_of_msg|>"),
    (3, "<|open|>"),
    (4, "<|close|>"),
    (5, "<|sep|>"),
    (6, "[start_header_id]"),
    (7, "[end_header_id]"),
    (9, "[EOT]"),
    (18, "<|media_begin|>"),
    (19, "<|media_content|>"),
    (20, "<|media_end|>"),
    (21, "<|media_pad|>"),
    (65, "<osagent_mode>"),
    (254, "[UNK]"),
    (255, "[PAD]"),
];

/// A `tiktoken.model` of the 256 bytes, in the order of the release, and `merges`.
pub fn tiktoken_model(merges: &[impl AsRef<[u8]>]) -> String {
    let printable = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let first = (0..=u8::MAX).filter(|&byte| printable(byte));
    let bytes = first
        .chain((0..=u8::MAX).filter(|&byte| !printable(byte)))
        .map(|byte| vec![byte]);
    let tokens = bytes.chain(merges.iter().map(|merge| merge.as_ref().to_vec()));
    let encode = |token| base64::engine::general_purpose::STANDARD.encode(token);
    tokens
        .enumerate()
        .map(|(rank, token)| format!("{} {rank}\n", encode(token)))
        .collect()
}

/// A `tokenizer_config.json` for a vocabulary of `ranks` tokens.
pub fn tokenizer_config(ranks: u32) -> String {
    let entries: Vec<String> = NAMES
        .iter()
        .map(|(offset, name)| {
            format!(
                r#""{}": {{"content": "{name}", "special": true}}"#,
                ranks + offset
            )
        })
        .collect();
    format!(
        r#"{{"added_tokens_decoder": {{{}}}, "auto_map": {{"AutoTokenizer": [null]}}, "model_max_length": 1000000000000000019884624838656}}"#,
        entries.join(", ")
    )
}

/// Writes both files of a tokenizer with [`MERGES`] into `folder`.
pub fn write_to(folder: &std::path::Path) -> std::io::Result<()> {
    std::fs::write(folder.join("tiktoken.model"), tiktoken_model(&MERGES))?;
    std::fs::write(
        folder.join("tokenizer_config.json"),
        tokenizer_config(256 + MERGES.len() as u32),
    )
}
