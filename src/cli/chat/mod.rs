//! `k3 chat`: a conversation line by line, on a plain terminal or through a pipe. What is asked and what is shown; the
//! conversation itself is the engine's.

mod input;
mod line;
mod offer;
mod progress;
mod repl;

use clap::Args;

use super::model::ChatArgs;
use super::{Exit, sampling, say};
use crate::chat::{Sampling, Session};
use crate::engine::{self, ModelFacts};
use input::Input;
use offer::Begin;
use repl::Repl;

/// Arguments of `k3 chat`.
#[derive(Args)]
#[command(after_help = line::HELP)]
pub struct LineArgs {
    #[command(flatten)]
    chat: ChatArgs,
    /// Accepted for the sake of old scripts: a turn always reads only what is new
    #[arg(long, hide = true)]
    incremental: bool,
}

impl From<ChatArgs> for LineArgs {
    fn from(chat: ChatArgs) -> Self {
        Self {
            chat,
            incremental: false,
        }
    }
}

/// Runs the command: reads lines until `/exit`, the end of the input or a signal.
///
/// # Errors
/// The model cannot be opened, the engine fails, or a signal came.
pub fn run(arguments: &LineArgs) -> anyhow::Result<()> {
    // Opened here, so that a refusal keeps its exit code; the session then moves to its thread.
    let (facts, mut session) = arguments.chat.check()?.open()?;
    let input = Input::start()?;
    banner(&facts, &session);
    let warnings = session.take_warnings();
    for line in warnings.into_iter().chain(session.take_notes()) {
        say!("k3: {line}");
    }
    let begin = match offer::settle(&mut session, &input)? {
        Begin::Leave => return Ok(()),
        Begin::Interrupted => return Err(Exit::Interrupted.into()),
        begin => begin,
    };
    let (sampling, chunk) = (session.sampling(), session.network().chunk());
    let engine = engine::start(move || Ok((facts, session)))?;
    Repl::new(engine, input, sampling, chunk).run(begin)
}

fn banner(facts: &ModelFacts, session: &Session) {
    let drawing = match session.sampling() {
        Sampling::Greedy => String::new(),
        drawn => format!(", {}", sampling::words(&drawn)),
    };
    say!(
        "k3: {}, {} positions{drawing}; /help lists the commands",
        facts.name,
        facts.context
    );
    let messages = session.messages().len();
    if messages > 0 {
        say!("k3: going on from {messages} messages");
    }
}
