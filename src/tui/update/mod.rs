//! What happens to the state when something happens to the screen. Pure: no clock, no terminal, no channel; what is to be
//! done in the world is returned.

mod command;
mod engine;
mod key;
mod send;

use super::draft::{Draft, Pasted};
use super::effect::{Effect, Outcome};
use super::figures::counted;
use super::message::Message;
use super::overlay::Overlay;
use super::state::{Focus, Phase, State};
use crate::engine::Command;

pub use command::sampling;
pub use key::completions;

/// Takes a message in.
pub fn update(state: &mut State, message: Message) -> Vec<Effect> {
    let effects = match message {
        Message::Now(now) => {
            // A running turn shows its seconds; nothing else moves with the time.
            let moves = state.turn().is_some() && !state.still;
            state.dirty |= moves && state.now.as_secs() != now.as_secs();
            state.now = now;
            return Vec::new();
        }
        Message::Telemetry(telemetry) => {
            state.instruments.samples.take(state.now, &telemetry);
            if state.telemetry == *telemetry {
                return Vec::new();
            }
            state.telemetry = *telemetry;
            Vec::new()
        }
        Message::Key(key) => key::on_key(state, key),
        Message::Paste(text) => paste(state, &text),
        Message::Resize(width, height) => {
            state.size = (width, height);
            Vec::new()
        }
        Message::Engine(event) => engine::on_event(state, event),
        Message::EngineGone => engine::gone(state),
        Message::Edited(edited) => match edited {
            Ok(text) => {
                state.draft = Draft::default();
                paste(state, &text)
            }
            Err(why) => {
                state.hint = Some(why);
                Vec::new()
            }
        },
        Message::Retained(curve) => {
            if let Some(Overlay::Tune(tune)) = &mut state.overlay {
                tune.simulated(curve);
            }
            Vec::new()
        }
        Message::Recovered(unsent) => {
            send::recovered(state, unsent);
            Vec::new()
        }
        Message::Told(hint) => {
            state.hint = Some(hint);
            Vec::new()
        }
        Message::Opened(name, opened) => {
            engine::opened(state, name, opened);
            Vec::new()
        }
        Message::Sessions(kept) => {
            match kept.is_empty() {
                true => state.hint = Some("No conversation is kept yet.".to_owned()),
                false => state.overlay = Some(Overlay::Sessions(kept, 0)),
            }
            Vec::new()
        }
        Message::Forked(path) => command::load(state, path),
        Message::Terminate => {
            let mut effects = farewell(state);
            effects.push(Effect::Exit(Outcome::Interrupted));
            effects
        }
        Message::Suspend => vec![Effect::Suspend],
        Message::Continued => vec![Effect::Reenter],
    };
    state.dirty = true;
    state.settle();
    effects
}

/// Text from elsewhere goes to the message, wherever the keys are.
fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    state.hint = match state.draft.paste(text) {
        Pasted::Taken(0) => None,
        Pasted::Taken(n) => Some(format!(
            "{} left out of the paste.",
            counted(n, "control character")
        )),
        Pasted::TooLong => Some(format!(
            "Not pasted: a message holds at most {} bytes and {}.",
            super::figures::count(super::draft::LIMIT_BYTES),
            counted(super::draft::LIMIT_LINES, "line")
        )),
    };
    state.overlay = None;
    state.armed = false;
    state.focus = Focus::Message;
    state.choice = Some(0);
    Vec::new()
}

/// The person wants to leave. The engine finishes first, unless that was asked before.
fn quit(state: &mut State) -> Vec<Effect> {
    if let Phase::Stopped(reason) = &state.phase {
        return vec![Effect::Exit(Outcome::EngineFailed(reason.clone()))];
    }
    if state.closing {
        return vec![Effect::Exit(Outcome::Done)];
    }
    let mut effects = farewell(state);
    if state.phase == Phase::Loading {
        // There is nothing yet that could be lost.
        effects.push(Effect::Exit(Outcome::Done));
    }
    state.closing = true;
    state.hint = Some("Waiting for the engine to finish. Ctrl-C leaves at once.".to_owned());
    effects
}

/// What the engine is told before the screen goes.
fn farewell(state: &State) -> Vec<Effect> {
    match state.phase {
        Phase::Stopped(_) => Vec::new(),
        Phase::Turn(_) | Phase::Waiting(_) => {
            vec![Effect::Send(Command::Cancel), Effect::Send(Command::Quit)]
        }
        Phase::Loading | Phase::Idle => vec![Effect::Send(Command::Quit)],
    }
}

/// Asks a running turn to stop. Says whether there was anything to stop.
fn cancel(state: &mut State) -> Vec<Effect> {
    if let Phase::Turn(turn) = &mut state.phase {
        if turn.cancelling {
            state.hint = Some(
                "Stopping after the running step. What was answered so far is kept.".to_owned(),
            );
            return Vec::new();
        }
        turn.cancelling = true;
    }
    vec![Effect::Send(Command::Cancel)]
}

#[cfg(test)]
mod tests;
