//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::commands::{self, Parsed};
use super::super::effect::Effect;
use super::super::keys::{self, Action};
use super::super::log::Log;
use super::super::state::{Focus, Phase, State};
use super::{cancel, command, quit};
use crate::engine::Command;

/// A key.
pub fn on_key(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    // Some terminals tell when a key comes up, too.
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let action = keys::action(key);
    let armed = std::mem::take(&mut state.armed);
    if !state.closing {
        state.hint = None;
    }
    if let Some(top) = state.help {
        match help_key(key, action, top) {
            Some(help) => {
                state.help = help;
                return Vec::new();
            }
            // Any other key does what it always does.
            None => state.help = None,
        }
    }
    match action {
        Some(Action::Send) => return send(state),
        Some(Action::Newline) => {
            state.focus = Focus::Message;
            state.draft.newline();
        }
        Some(Action::Stop) => return stop(state),
        Some(Action::Interrupt) => return interrupt(state, armed),
        Some(Action::EndOfInput) if state.draft.is_empty() => return quit(state),
        Some(Action::CycleEffort) => return command::cycle(state),
        Some(Action::Next) => next(state),
        Some(Action::PageUp) => {
            let log = focused(state);
            log.scroll(-log.page());
        }
        Some(Action::PageDown) => {
            let log = focused(state);
            log.scroll(log.page());
        }
        Some(Action::Follow) => follow(state),
        Some(Action::Help) => state.help = Some(0),
        Some(Action::Suspend) => return vec![Effect::Suspend],
        Some(Action::Redraw) => return vec![Effect::Redraw],
        Some(Action::EndOfInput) | None => other(state, key),
    }
    Vec::new()
}

/// Keys while the help is open: None if the help has no use for it.
fn help_key(key: KeyEvent, action: Option<Action>, top: usize) -> Option<Option<usize>> {
    match (key.code, action) {
        (KeyCode::Esc, _) | (_, Some(Action::Help | Action::Interrupt | Action::Send)) => {
            Some(None)
        }
        (KeyCode::Char('q'), None) => Some(None),
        (KeyCode::Up, _) => Some(Some(top.saturating_sub(1))),
        (KeyCode::Down, _) => Some(Some(top.saturating_add(1))),
        (KeyCode::PageUp, _) => Some(Some(top.saturating_sub(5))),
        (KeyCode::PageDown, _) => Some(Some(top.saturating_add(5))),
        _ => None,
    }
}

/// The pane that scrolling keys move.
fn focused(state: &mut State) -> &mut Log {
    match state.focus {
        Focus::Think => &mut state.think,
        Focus::Message | Focus::Response => &mut state.response,
    }
}

fn follow(state: &mut State) {
    match state.focus {
        Focus::Message => {
            state.response.follow();
            state.think.follow();
        }
        Focus::Response | Focus::Think => focused(state).follow(),
    }
}

/// Sends the message or runs the command. The draft stays where that is not possible.
fn send(state: &mut State) -> Vec<Effect> {
    state.focus = Focus::Message;
    let text = state.draft.text();
    let parsed = match text.trim() {
        "" => return Vec::new(),
        // A command may have been typed with a space behind it.
        _ if text.starts_with('/') => commands::parse(text.trim_end()),
        _ => Parsed::Text(text),
    };
    match parsed {
        Parsed::Run(slash) => {
            state.draft = Default::default();
            state.choice = Some(0);
            command::run(state, slash)
        }
        Parsed::Text(text) => send_text(state, text),
        Parsed::Wrong(why) => {
            if !complete(state) {
                state.hint = Some(why);
            }
            Vec::new()
        }
    }
}

fn send_text(state: &mut State, text: String) -> Vec<Effect> {
    let obstacle = match &state.phase {
        _ if state.closing => Some("The program is closing."),
        Phase::Idle => None,
        Phase::Loading => Some(
            "The model is still loading. Your message stays here; press Enter again when it is there.",
        ),
        Phase::Waiting(_) | Phase::Turn(_) => {
            Some("The model is still answering. Your message stays here; Esc stops the answer.")
        }
        Phase::Stopped(_) => Some("The engine has stopped, so nothing can be sent. /quit leaves."),
    };
    if let Some(obstacle) = obstacle {
        state.hint = Some(obstacle.to_owned());
        return Vec::new();
    }
    state.draft = Default::default();
    state.response.follow();
    state.think.follow();
    state.phase = Phase::Waiting(text.clone());
    vec![Effect::Send(Command::Send(text))]
}

/// One thing at a time: the list of completions, the answer, the focus.
fn stop(state: &mut State) -> Vec<Effect> {
    let listed = !completions(state).is_empty();
    if listed {
        state.choice = None;
    } else if state.busy() && !state.closing {
        return cancel(state);
    } else {
        state.focus = Focus::Message;
    }
    Vec::new()
}

/// One thing at a time: the answer, the message, the program.
fn interrupt(state: &mut State, armed: bool) -> Vec<Effect> {
    if armed || state.closing {
        return quit(state);
    }
    if state.busy() {
        let effects = cancel(state);
        if effects.is_empty() {
            state.armed = true;
            state.hint = Some("Stopping after the running step. Ctrl-C again leaves.".to_owned());
        }
        return effects;
    }
    state.armed = true;
    state.hint = Some(match state.draft.is_empty() {
        true => "Ctrl-C again leaves.".to_owned(),
        false => {
            state.draft.clear();
            "Message cleared; Ctrl-U brings it back. Ctrl-C again leaves.".to_owned()
        }
    });
    Vec::new()
}

/// The completions that are listed now.
pub fn completions(state: &State) -> Vec<commands::Completion> {
    match state.choice {
        Some(_) if state.focus == Focus::Message => commands::completions(&state.draft.text()),
        _ => Vec::new(),
    }
}

/// Takes the chosen completion, if it says more than the draft.
fn complete(state: &mut State) -> bool {
    let chosen = state.choice.unwrap_or(0);
    let completion = completions(state).into_iter().nth(chosen);
    match completion {
        Some(completion) if completion.draft != state.draft.text() => {
            state.draft = super::super::draft::Draft::with(&completion.draft);
            state.choice = Some(0);
            true
        }
        _ => false,
    }
}

fn next(state: &mut State) {
    if complete(state) {
        return;
    }
    // A pane that is not there cannot have the keys.
    let think = state.areas().is_some_and(|areas| areas.think.height > 0);
    state.focus = match state.focus {
        Focus::Message => Focus::Response,
        Focus::Response if think => Focus::Think,
        Focus::Response | Focus::Think => Focus::Message,
    };
}

/// A key that is in no table: it moves in a pane that has the keys, else it is for the message.
fn other(state: &mut State, key: KeyEvent) {
    if state.focus != Focus::Message {
        match key.code {
            KeyCode::Up => return focused(state).scroll(-1),
            KeyCode::Down => return focused(state).scroll(1),
            KeyCode::Home => return focused(state).go_to_start(),
            KeyCode::End => return follow(state),
            KeyCode::Left | KeyCode::Right => return,
            _ => state.focus = Focus::Message,
        }
    }
    let listed = completions(state).len();
    match (key.code, state.choice) {
        (KeyCode::Up, Some(choice)) if listed > 0 => {
            state.choice = Some((choice + listed - 1) % listed);
        }
        (KeyCode::Down, Some(choice)) if listed > 0 => state.choice = Some((choice + 1) % listed),
        (KeyCode::End, _) if state.draft.is_empty() => follow(state),
        // The text area would take these for its own; a stray one must not change the message.
        (KeyCode::Char('m' | 'c'), _) if key.modifiers == KeyModifiers::CONTROL => {}
        _ => {
            let before = state.draft.text();
            state.draft.key(key);
            if state.draft.text() != before {
                state.choice = Some(0);
            }
        }
    }
}
