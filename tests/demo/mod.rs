//! Conversations with the demo model, for tests of chats.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Parser;
use k3::checkpoint::demo;
use k3::cli::model::{ChatArgs, ChatPlan};

/// The demo model, unpacked once for all tests of a program.
pub fn demo_model() -> &'static Path {
    static FOLDER: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, folder) = FOLDER.get_or_init(|| {
        let cache = tempfile::tempdir().unwrap();
        let folder = demo::unpack(cache.path()).unwrap();
        (cache, folder)
    });
    folder
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    chat: ChatArgs,
}

/// A chat with the demo model and these flags, checked and not loaded.
pub fn chat(flags: &[&str]) -> ChatPlan {
    let model = demo_model().to_str().unwrap();
    let line = Line::parse_from(["test", model].iter().chain(flags));
    line.chat.check().unwrap()
}
