//! What the slash commands do.

use std::path::PathBuf;

use super::super::backends::Carried;
use super::super::commands::{Busy, Copied, Look, Slash};
use super::super::effect::Effect;
use super::super::log::Log;
use super::super::overlay::Overlay;
use super::super::samples::Span;
use super::super::search::{Search, places};
use super::super::state::{Focus, Phase, State};
use super::super::theme::Theme;
use super::quit;
use crate::chat::{Draw, Sampling};
use crate::engine::Command;
use crate::stream::Preset;
use crate::text::{Effort, Role};

/// Runs a command.
pub fn run(state: &mut State, slash: Slash, busy: Busy) -> Vec<Effect> {
    if busy == Busy::Waits && state.busy() {
        say(
            state,
            "Not while an answer runs; wait for it, or stop it with Esc.",
        );
        return Vec::new();
    }
    match slash {
        Slash::Help => state.overlay = Some(Overlay::Help(0)),
        Slash::Telemetry(None) => say(
            state,
            "/telemetry hold, reset, 1s, 10s, 60s or 5min; Tab goes to its pane, F4 shows all of it.",
        ),
        Slash::Telemetry(Some(look)) => look_at(state, look),
        Slash::Record(file) => {
            let samples = &state.instruments.samples;
            let text = match file.ends_with(".jsonl") {
                true => samples.json_lines(),
                false => samples.csv(),
            };
            return write(state, file, text);
        }
        Slash::Stats => state.overlay = Some(Overlay::Stats(0)),
        Slash::Reset => return reset(state),
        Slash::Pause => return ask(state, Command::Pause),
        Slash::Continue => return ask(state, Command::Continue),
        Slash::Regenerate => return ask(state, Command::Regenerate),
        Slash::Undo => return ask(state, Command::Undo),
        Slash::Edit => {
            state.edit_next = able(state);
            return ask(state, Command::Undo);
        }
        Slash::Effort(Some(effort)) => return think(state, Some(effort)),
        Slash::Think(Some(false)) => return think(state, None),
        Slash::Think(Some(true)) => return think_again(state),
        Slash::Effort(None) | Slash::Think(None) => say_thinking(state),
        Slash::Preset(None) => {
            let names = Preset::ALL.map(Preset::name).join(", ");
            say(state, &format!("/preset and one of: {names}."));
        }
        Slash::Preset(Some(preset)) => return take_preset(state, preset),
        Slash::Tune => return ask(state, Command::Offers),
        Slash::Budget(change) => return take_plan(state, Command::Budget(change)),
        Slash::Backend(None) => {
            let sentence = state.backends.sentence();
            say(state, &sentence);
        }
        Slash::Backend(Some(name)) => return go_over(state, name),
        Slash::System(None) => {
            let hint = match state.conversation.system() {
                Some(text) => format!("The system message is: {text}"),
                None => "There is no system message. /system TEXT sets one.".to_owned(),
            };
            say(state, &hint);
        }
        Slash::System(Some(text)) => return ask(state, Command::System(text)),
        Slash::Temperature(None) | Slash::TopP(None) | Slash::Seed(None) => say_sampling(state),
        Slash::Temperature(Some(0.0)) => return ask(state, Command::Sampling(Sampling::Greedy)),
        Slash::Temperature(Some(temperature)) => {
            return draw(state, |draw| draw.temperature = temperature);
        }
        Slash::TopP(Some(top_p)) => return draw(state, |draw| draw.top_p = top_p),
        Slash::Seed(Some(seed)) => return draw(state, |draw| draw.seed = seed),
        Slash::Search(text) => search(state, text.as_deref()),
        Slash::Copy(what) => return copy(state, what),
        Slash::Export(file) => {
            let text = match file.ends_with(".jsonl") {
                true => state.conversation.json_lines(),
                false => state.conversation.markdown(),
            };
            return write(state, file, text);
        }
        Slash::Save(file) => {
            let text = state.conversation.json_lines();
            return write(state, file, text);
        }
        Slash::Load(file) => return load(state, PathBuf::from(file)),
        Slash::Sessions => return vec![Effect::ListSessions],
        Slash::Rename(name) => match state.history.clone() {
            Some(path) => return vec![Effect::Rename(path, name)],
            None => not_kept(state),
        },
        Slash::Fork => match state.history.clone() {
            Some(path) => return vec![Effect::Fork(path)],
            None => not_kept(state),
        },
        Slash::Theme(Some(theme)) => state.theme = theme,
        Slash::Theme(None) => {
            let names = Theme::ALL.map(Theme::name).join(", ");
            let hint = format!("The theme is {}. There are: {names}.", state.theme.name());
            say(state, &hint);
        }
        Slash::Raw => raw(state),
        Slash::Settings => return vec![Effect::EditSettings],
        Slash::Quit => return quit(state),
    }
    Vec::new()
}

fn say(state: &mut State, hint: &str) {
    state.hint = Some(hint.to_owned());
}

fn not_kept(state: &mut State) {
    say(
        state,
        "This conversation is not kept in a file. /save FILE writes it to one.",
    );
}

fn say_thinking(state: &mut State) {
    let hint = match state.thinking {
        None => "Not known yet: the model is still loading.".to_owned(),
        Some(None) => "Thinking is off. /think on, or /effort low, high or max.".to_owned(),
        Some(Some(effort)) => format!(
            "Thinking is on, effort {}. /effort low, high or max; /think off.",
            effort.as_str()
        ),
    };
    say(state, &hint);
}

/// Thinking on again, with the effort of before: the engine knows it and answers with it.
fn think_again(state: &mut State) -> Vec<Effect> {
    if !able(state) {
        return Vec::new();
    }
    state.answers_due += 1;
    vec![Effect::Send(Command::Think(true))]
}

/// Does something with the telemetry.
pub fn look_at(state: &mut State, look: Look) {
    let hint = match look {
        Look::Hold => {
            state.instruments.hold(&state.telemetry);
            match state.instruments.is_held() {
                true => "The telemetry is held; /telemetry hold, or f in its pane, lets it go on.",
                false => "The telemetry goes on.",
            }
        }
        Look::SetBack => {
            state.instruments.set_back(state.now, &state.telemetry);
            "Counted from now on."
        }
        Look::Span(span) => {
            state.instruments.span = span;
            match span {
                Span::Second => "Charts show the last second.",
                Span::Ten => "Charts show the last ten seconds.",
                Span::Minute => "Charts show the last minute.",
                Span::Five => "Charts show the last five minutes.",
            }
        }
    };
    say(state, hint);
}

/// Takes a memory plan.
pub fn take_plan(state: &mut State, command: Command) -> Vec<Effect> {
    if !able(state) {
        return Vec::new();
    }
    let hint = match state.phase {
        Phase::Turn(_) => "Changing the memory plan when this token is through.",
        _ => "Changing the memory plan.",
    };
    say(state, hint);
    vec![Effect::Send(command)]
}

/// Takes the memory of a preset.
pub fn take_preset(state: &mut State, preset: Preset) -> Vec<Effect> {
    take_plan(state, Command::Preset(preset))
}

/// How tokens are chosen, in a sentence.
pub fn sampling(sampling: Sampling) -> String {
    match sampling {
        Sampling::Greedy => "the most probable token, always".to_owned(),
        Sampling::Draw(draw) => {
            let top_k = match draw.top_k {
                Some(k @ 1..) => format!(", top-k {k}"),
                _ => String::new(),
            };
            format!(
                "temperature {}, top-p {}{top_k}, seed {}",
                draw.temperature, draw.top_p, draw.seed
            )
        }
    }
}

fn say_sampling(state: &mut State) {
    let hint = match state.sampling {
        None => "Not known yet: the model is still loading.".to_owned(),
        Some(now) => format!("Tokens are chosen by: {}.", sampling(now)),
    };
    say(state, &hint);
}

fn draw(state: &mut State, change: impl FnOnce(&mut Draw)) -> Vec<Effect> {
    let mut draw = match state.sampling {
        Some(Sampling::Draw(draw)) => draw,
        _ => Draw::new(0),
    };
    change(&mut draw);
    if let Err(error) = draw.check() {
        say(state, &format!("Not set: {error}."));
        return Vec::new();
    }
    ask(state, Command::Sampling(Sampling::Draw(draw)))
}

/// Answers as they came, or as markdown again.
pub fn raw(state: &mut State) {
    let raw = !state.response.raw();
    state.response.set_raw(raw);
    say(
        state,
        match raw {
            true => "Answers are shown as they came. F5 shows them as markdown.",
            false => "Answers are shown as markdown. F5 shows them as they came.",
        },
    );
}

fn search(state: &mut State, text: Option<&str>) {
    match text {
        Some(text) => {
            state.search = Some(Search::new(text));
            find(state, false);
        }
        None => {
            state.search = None;
            say(
                state,
                "/search TEXT finds a text; F7 goes to the one before, F8 to the next.",
            );
        }
    }
}

/// Goes to the next place of what is looked for, or to the one before, in the pane that has the keys.
pub fn find(state: &mut State, forward: bool) {
    let Some(mut search) = state.search.clone() else {
        say(state, "Nothing is looked for yet: /search TEXT.");
        return;
    };
    let log: &mut Log = match state.focus {
        Focus::Think => &mut state.think,
        Focus::Message | Focus::Response | Focus::Telemetry => &mut state.response,
    };
    let all: Vec<(usize, usize)> = log
        .blocks()
        .iter()
        .enumerate()
        .flat_map(|(index, block)| {
            places(&block.text, &search.needle).map(move |(start, _)| (index, start))
        })
        .collect();
    // From the end on, if nothing was found before: what is looked for was said lately, as a rule.
    let next = match (search.at, forward) {
        (None, false) => all.len().checked_sub(1),
        (None, true) => (!all.is_empty()).then_some(0),
        (Some(at), false) => all
            .iter()
            .rposition(|place| *place < at)
            .or(all.len().checked_sub(1)),
        (Some(at), true) => all
            .iter()
            .position(|place| *place > at)
            .or((!all.is_empty()).then_some(0)),
    };
    let hint = match next {
        Some(index) => {
            let (block, byte) = all[index];
            search.at = Some((block, byte));
            log.go_to(block, byte);
            format!(
                "{} of {}. F7 the one before, F8 the next.",
                index + 1,
                all.len()
            )
        }
        None => "Not found in this pane.".to_owned(),
    };
    state.search = Some(search);
    say(state, &hint);
}

fn copy(state: &mut State, what: Copied) -> Vec<Effect> {
    let conversation = &state.conversation;
    let answer = |message: &&crate::text::Message| message.role == Role::Assistant;
    let copied = match what {
        Copied::Answer => conversation
            .last_answer()
            .map(|text| ("The answer", text.to_owned())),
        Copied::Think => conversation
            .messages()
            .iter()
            .rev()
            .find(answer)
            .and_then(|message| message.reasoning_content.clone())
            .map(|text| ("The reasoning", text)),
        Copied::All => Some(("The conversation", conversation.markdown())),
        Copied::Code(number) => {
            let code = conversation.code_blocks().into_iter().nth(number - 1);
            code.map(|text| ("The code", text))
        }
    };
    match copied.filter(|(_, text)| !text.is_empty()) {
        Some((name, text)) => vec![Effect::Copy(name, text)],
        None => {
            let hint = match what {
                Copied::Code(_) => format!(
                    "The last answer has {}.",
                    super::super::figures::counted(
                        conversation.code_blocks().len(),
                        "block of code"
                    )
                    .replace("block of codes", "blocks of code")
                ),
                _ => "There is nothing to copy yet.".to_owned(),
            };
            say(state, &hint);
            Vec::new()
        }
    }
}

fn write(state: &mut State, file: String, text: String) -> Vec<Effect> {
    if text.is_empty() {
        say(state, "There is nothing to write yet.");
        return Vec::new();
    }
    vec![Effect::Write(file, text)]
}

/// Goes over to another conversation.
pub fn load(state: &mut State, path: PathBuf) -> Vec<Effect> {
    if state.history.as_ref() == Some(&path) {
        say(state, "That is this conversation.");
        return Vec::new();
    }
    ask(state, Command::Load(path))
}

/// Goes over to another model. The conversation goes along through its file.
fn go_over(state: &mut State, name: String) -> Vec<Effect> {
    let stopped = matches!(state.phase, Phase::Stopped(_));
    if !stopped && !able(state) {
        return Vec::new();
    }
    if !state.backends.has(&name) {
        let hint = format!("There is no model {name}. {}", state.backends.sentence());
        say(state, &hint);
        return Vec::new();
    }
    if name == state.backends.current && !stopped {
        say(state, "That is the model in use.");
        return Vec::new();
    }
    if state.history.is_none() && !state.conversation.messages().is_empty() {
        say(
            state,
            "This conversation is not kept in a file, so it cannot go along: /save FILE, then /reset and /backend.",
        );
        return Vec::new();
    }
    let hint = format!("Going over to {name}.");
    say(state, &hint);
    if stopped {
        return vec![open(state, name)];
    }
    state.switching = Some(name);
    state.phase = Phase::Loading;
    vec![Effect::Send(Command::Quit)]
}

/// Opens a model; the engine that was there has ended.
pub fn open(state: &State, name: String) -> Effect {
    let carried = Carried {
        history: state.history.clone(),
        thinking: state.thinking,
        sampling: state.sampling,
    };
    Effect::Open(name, carried)
}

/// The effort after the one in force, or after the one asked for last: off, low, high, max.
pub fn cycle(state: &mut State) -> Vec<Effect> {
    let next = match state.asked.or(state.thinking).flatten() {
        None => Some(Effort::Low),
        Some(Effort::Low) => Some(Effort::High),
        Some(Effort::High) => Some(Effort::Max),
        Some(Effort::Max) => None,
    };
    think(state, next)
}

fn think(state: &mut State, wanted: Option<Effort>) -> Vec<Effect> {
    if !able(state) {
        return Vec::new();
    }
    let off = state.asked.or(state.thinking) == Some(None);
    let commands = match wanted {
        None => vec![Command::Think(false)],
        Some(effort) if off => vec![Command::Think(true), Command::Effort(effort)],
        Some(effort) => vec![Command::Effort(effort)],
    };
    state.asked = Some(wanted);
    state.answers_due += commands.len();
    commands.into_iter().map(Effect::Send).collect()
}

fn reset(state: &mut State) -> Vec<Effect> {
    if !able(state) {
        return Vec::new();
    }
    if let Phase::Turn(turn) = &mut state.phase {
        turn.cancelling = true;
        say(
            state,
            "Stopping the answer, then forgetting the conversation.",
        );
    }
    vec![Effect::Send(Command::Reset)]
}

fn ask(state: &mut State, command: Command) -> Vec<Effect> {
    match able(state) {
        true => vec![Effect::Send(command)],
        false => Vec::new(),
    }
}

/// Whether the engine can be asked now; if not, says why.
fn able(state: &mut State) -> bool {
    let obstacle = match state.phase {
        Phase::Loading => "The model is still loading; try again when it is there.",
        Phase::Stopped(_) => "The engine has stopped. /backend starts one again, /quit leaves.",
        _ if state.closing => "The program is closing.",
        _ => return true,
    };
    say(state, obstacle);
    false
}
