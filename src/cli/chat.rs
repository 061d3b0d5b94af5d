//! `k3 chat`: a conversation line by line, on a plain terminal or through a pipe.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;

use super::model::ChatArgs;
use crate::engine::{self, Command, Ended, Event, Handle, Reread, TurnFacts};
use crate::text::{Channel, Effort, visible};

/// Arguments of `k3 chat`.
#[derive(Args)]
pub struct LineArgs {
    #[command(flatten)]
    chat: ChatArgs,
}

impl From<ChatArgs> for LineArgs {
    fn from(chat: ChatArgs) -> Self {
        Self { chat }
    }
}

const HELP: &str = "/help        this list
/reset       forget the conversation
/continue    go on with an answer that was stopped or cut
/regen       answer the last message anew
/undo        take the last message and its answer back
/effort E    think low, high or max
/think on    think before answering; `/think off` answers at once
/preset P    take the memory of another preset
/exit        end";

/// Runs the command: reads lines until `/exit` or the end of the input.
///
/// # Errors
/// The model cannot be opened or the engine fails.
pub fn run(arguments: &LineArgs) -> anyhow::Result<()> {
    // Opened here, so that a refusal keeps its exit code; the session then moves to its thread.
    let opened = arguments.chat.check()?.open()?;
    let unanswered = opened.1.awaits_answer();
    let engine = engine::start(move || Ok(opened))?;
    let mut repl = Repl {
        engine,
        speaking: None,
    };
    let asking = std::io::stdin().is_terminal();
    repl.wait()?;
    if unanswered {
        eprintln!("k3: the last message of the history was not answered; answering it");
        repl.wait()?;
    }
    let lines = Lines { asking };
    for line in lines {
        let line = line?;
        let command = match parse(line.trim_end_matches(['\n', '\r'])) {
            Line::Nothing => continue,
            Line::Exit => break,
            Line::Say(text) => {
                eprintln!("{text}");
                continue;
            }
            Line::Ask(command) => command,
        };
        repl.engine.commands.send(command)?;
        repl.wait()?;
    }
    // The thread may have ended already; then there is nothing to ask of it.
    let _ = repl.engine.commands.send(Command::Quit);
    repl.drain()
}

/// Lines of standard input, asked for where a person types them.
struct Lines {
    asking: bool,
}

impl Iterator for Lines {
    type Item = std::io::Result<String>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.asking {
            eprint!("user> ");
        }
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// What a line asks for.
enum Line {
    Nothing,
    Exit,
    /// Something to tell the person.
    Say(String),
    Ask(Command),
}

fn parse(line: &str) -> Line {
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Line::Nothing,
        (Some("/exit" | "/quit"), None, _) => Line::Exit,
        (Some("/continue"), None, _) => Line::Ask(Command::Continue),
        (Some("/regen"), None, _) => Line::Ask(Command::Regenerate),
        (Some("/undo"), None, _) => Line::Ask(Command::Undo),
        (Some("/help"), None, _) => Line::Say(HELP.into()),
        (Some("/reset"), None, _) => Line::Ask(Command::Reset),
        (Some("/effort"), Some(word), None) => match word.parse::<Effort>() {
            Ok(effort) => Line::Ask(Command::Effort(effort)),
            Err(why) => Line::Say(why),
        },
        (Some("/preset"), Some(word), None) => match word.parse() {
            Ok(preset) => Line::Ask(Command::Preset(preset)),
            Err(why) => Line::Say(why),
        },
        (Some("/think"), Some("on"), None) => Line::Ask(Command::Think(true)),
        (Some("/think"), Some("off"), None) => Line::Ask(Command::Think(false)),
        (Some("/effort" | "/think" | "/preset"), ..) => Line::Say(HELP.into()),
        // As in the C engine, any other line is what it says, a leading slash or not.
        _ => Line::Ask(Command::Send(line.to_owned())),
    }
}

struct Repl {
    engine: Handle,
    /// The channel whose tag is open on standard output.
    speaking: Option<Channel>,
}

impl Repl {
    /// Shows what comes until the engine waits for the next command.
    fn wait(&mut self) -> anyhow::Result<()> {
        loop {
            match self.engine.events.recv()? {
                Event::Ready {
                    model, messages, ..
                } => {
                    eprintln!(
                        "k3: {}, {} positions; /help lists the commands",
                        model.name, model.context
                    );
                    if !messages.is_empty() {
                        eprintln!("k3: going on from {} messages", messages.len());
                    }
                    return Ok(());
                }
                Event::TurnStarted { prompt_tokens, .. } => {
                    eprintln!("k3: reading {prompt_tokens} tokens")
                }
                Event::TurnResumed { prompt_tokens } => {
                    eprintln!("k3: going on with the answer, reading {prompt_tokens} tokens");
                }
                Event::Paused | Event::Unpaused => {}
                Event::Delta { channel, text } => self.show(channel, &text)?,
                Event::TurnEnded(facts) => return self.end(&facts),
                Event::Reset { .. } => {
                    eprintln!("k3: the conversation is forgotten");
                    return Ok(());
                }
                Event::Conversation { taken_back, .. } => {
                    if let Some(text) = taken_back {
                        eprintln!("k3: taken back: {}", visible(&text));
                        return Ok(());
                    }
                }
                Event::SamplingIs(_) | Event::Loaded { .. } | Event::Offers(_) => return Ok(()),
                Event::ThinkingIs { effort, cost } => {
                    eprintln!("k3: thinking {}", effort.map_or("off", Effort::as_str));
                    if let Some(Reread { tokens, seconds }) = cost {
                        let about = seconds.map(|s| format!(", about {s:.0} s"));
                        eprintln!(
                            "k3: the next answer reads {tokens} tokens again{}",
                            about.unwrap_or_default()
                        );
                    }
                    return Ok(());
                }
                Event::Planned {
                    preset,
                    total_bytes,
                    ..
                } => {
                    eprintln!(
                        "k3: preset {preset}, up to {:.2} GB",
                        total_bytes as f64 / 1e9
                    );
                    return Ok(());
                }
                Event::Refused(why) => {
                    eprintln!("k3: {why}");
                    return Ok(());
                }
                Event::Warning(what) | Event::Note(what) => eprintln!("k3: {what}"),
                Event::Stopped(reason) => {
                    anyhow::bail!(reason.unwrap_or_else(|| "the engine has ended".into()))
                }
            }
        }
    }

    /// Waits for the engine's last word.
    fn drain(&mut self) -> anyhow::Result<()> {
        loop {
            match self.engine.events.recv() {
                Ok(Event::Stopped(Some(reason))) => anyhow::bail!(reason),
                Ok(Event::Stopped(None)) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    fn show(&mut self, channel: Option<Channel>, text: &str) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        if channel != self.speaking {
            if let Some(open) = self.speaking {
                writeln!(out, "</{open}>")?;
            }
            if let Some(channel) = channel {
                write!(out, "<{channel}>")?;
            }
            self.speaking = channel;
        }
        match out.is_terminal() {
            true => write!(out, "{}", visible(text))?,
            false => write!(out, "{text}")?,
        }
        out.flush()
    }

    fn end(&mut self, facts: &TurnFacts) -> anyhow::Result<()> {
        if let Some(open) = self.speaking.take() {
            let mut out = std::io::stdout().lock();
            writeln!(out, "</{open}>")?;
            out.flush()?;
        }
        let tokens = facts.think_tokens + facts.response_tokens;
        eprintln!(
            "k3: {} and {} tokens, {:.2} s reading, {:.2} tokens a second",
            facts.think_tokens,
            facts.response_tokens,
            facts.seconds_prefill,
            tokens as f64 / facts.seconds_decode.max(1e-9),
        );
        match &facts.ended {
            Ended::Finished => {}
            Ended::Cancelled => eprintln!("k3: stopped; /continue goes on"),
            Ended::Limit => eprintln!("k3: as many tokens as --gen allows; /continue goes on"),
            Ended::StopId(id) => eprintln!("k3: stopped at id {id}; /continue goes on"),
            Ended::Killed => {}
            Ended::Length => eprintln!("k3: the context is full; /reset starts anew"),
            Ended::Malformed(why) | Ended::Failed(why) => eprintln!("k3: the answer is cut: {why}"),
        }
        Ok(())
    }
}
