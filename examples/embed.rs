//! A model inside another program: open it, stream an answer, look at what disk and caches did, make sure that nothing was
//! left out.
//!
//! `cargo run --release --example embed [MODEL [MESSAGE]]`; without a MODEL it is the demo model.

use std::io::Write;
use std::time::Instant;

use anyhow::{bail, ensure};
use k3::chat::{Limits, ModelFiles, Opening};
use k3::engine::{self, Command, Ended, Event, ModelFacts};
use k3::stream::{Preset, Request};
use k3::text::Channel;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (model, message) = (arguments.next(), arguments.next());
    let message = message.unwrap_or_else(|| "What is the ring?".to_owned());

    // 1. Check files and make the memory plan. Nothing is loaded yet.
    let unpacked = tempfile::tempdir()?;
    let files = match model {
        Some(folder) => ModelFiles::in_folder(folder),
        None => ModelFiles::demo(unpacked.path())?,
    };
    let config = files.config()?;
    let model = files.check(config, Request::of(Preset::Ultra, 2048))?;
    println!(
        "{}: {} layers, at most {} MB",
        model.name(),
        model.layers(),
        model.plan().total() / 1_000_000
    );

    // 2. The inference thread opens it; commands go in, events come out.
    let facts = ModelFacts::of(&model);
    let opening = Opening {
        limits: Limits {
            tokens: Some(300),
            stop_ids: Vec::new(),
        },
        ..Opening::default()
    };
    let engine = engine::start(move || Ok((facts, model.open(opening)?)))?;
    let mut telemetry = engine.telemetry.reader();
    engine.commands.send(Command::Send(message))?;

    // 3. The answer, token by token. (Command::Cancel stops it between two layers.)
    let mut channel = None;
    let turn = loop {
        match engine.events.recv()? {
            Event::Delta {
                channel: Some(now),
                text,
            } => {
                if channel.replace(now) != Some(now) {
                    let name = match now {
                        Channel::Think => "think",
                        Channel::Response => "response",
                        Channel::Tools => "tools",
                    };
                    print!("\n[{name}] ");
                }
                print!("{text}");
                std::io::stdout().flush()?;
            }
            Event::TurnEnded(turn) => break turn,
            Event::Refused(reason) => bail!("refused: {reason}"),
            Event::Stopped(reason) => bail!("{}", reason.unwrap_or_default()),
            Event::Warning(text) | Event::Note(text) => eprintln!("{text}"),
            _ => {}
        }
    };

    // 4. What it took. A token is never made from a part of its experts: an expert that cannot be read ends the turn.
    let seen = telemetry.read(Instant::now());
    ensure!(seen.drops == 0, "{} experts could not be read", seen.drops);
    ensure!(turn.ended == Ended::Finished, "{:?}", turn.ended);
    println!(
        "\n\n{} + {} tokens; trunk read: {} MB; expert bytes that need not be read again: {}",
        turn.think_tokens,
        turn.response_tokens,
        seen.trunk_bytes.map_or(0, |bytes| bytes.read) / 1_000_000,
        seen.retained()
            .map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
    );

    // 5. The thread ends when it is told to.
    engine.commands.send(Command::Quit)?;
    while !matches!(engine.events.recv()?, Event::Stopped(_)) {}
    Ok(())
}
