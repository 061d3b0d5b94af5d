//! What the slash commands do.

use super::super::commands::Slash;
use super::super::effect::Effect;
use super::super::state::{Phase, State};
use super::quit;
use crate::engine::Command;
use crate::stream::Preset;
use crate::text::Effort;

/// Runs a command, also while the model is busy.
pub fn run(state: &mut State, slash: Slash) -> Vec<Effect> {
    match slash {
        Slash::Help => {
            state.help = Some(0);
            Vec::new()
        }
        Slash::Reset => reset(state),
        Slash::Pause => ask(state, Command::Pause),
        Slash::Continue => ask(state, Command::Continue),
        Slash::Regenerate => ask(state, Command::Regenerate),
        Slash::Undo => ask(state, Command::Undo),
        Slash::Effort(Some(effort)) => think(state, Some(effort)),
        Slash::Think(Some(false)) => think(state, None),
        Slash::Think(Some(true)) => {
            if !able(state) {
                return Vec::new();
            }
            // The engine knows which effort was in force before; it answers with it.
            state.answers_due += 1;
            vec![Effect::Send(Command::Think(true))]
        }
        Slash::Effort(None) | Slash::Think(None) => {
            state.hint = Some(match state.thinking {
                None => "Not known yet: the model is still loading.".to_owned(),
                Some(None) => "Thinking is off. /think on, or /effort low, high or max.".to_owned(),
                Some(Some(effort)) => format!(
                    "Thinking is on, effort {}. /effort low, high or max; /think off.",
                    effort.as_str()
                ),
            });
            Vec::new()
        }
        Slash::Preset(None) => {
            let names = Preset::ALL.map(Preset::name).join(", ");
            state.hint = Some(format!("/preset and one of: {names}."));
            Vec::new()
        }
        Slash::Preset(Some(preset)) => {
            if !able(state) {
                return Vec::new();
            }
            state.hint = Some(match state.phase {
                Phase::Turn(_) => "Changing the memory plan when this token is through.".to_owned(),
                _ => "Changing the memory plan.".to_owned(),
            });
            vec![Effect::Send(Command::Preset(preset))]
        }
        Slash::Quit => quit(state),
    }
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
        state.hint = Some("Stopping the answer, then forgetting the conversation.".to_owned());
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
        Phase::Stopped(_) => "The engine has stopped. /quit leaves.",
        _ if state.closing => "The program is closing.",
        _ => return true,
    };
    state.hint = Some(obstacle.to_owned());
    false
}
