//! What keys do.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::commands::{self, Look, Parsed};
use super::super::effect::Effect;
use super::super::keys::{self, Action};
use super::super::log::Log;
use super::super::overlay::Overlay;
use super::super::panes::Alone;
use super::super::state::{Focus, State};
use super::{cancel, command, quit, send as sending};
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
    if let Some(overlay) = state.overlay.take() {
        match overlay_key(key, action, overlay) {
            Opened::Stays(overlay) => {
                state.overlay = Some(overlay);
                return Vec::new();
            }
            Opened::Closes => return Vec::new(),
            Opened::Chosen(path) => return command::load(state, path),
            Opened::Taken(taken) => return command::take_plan(state, taken),
            // Any other key does what it always does.
            Opened::Passes => {}
        }
    }
    if state.focus == Focus::Telemetry && instrument_key(state, key) {
        return Vec::new();
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
        Some(Action::Help) => state.overlay = Some(Overlay::Help(0)),
        Some(Action::ThinkView) => {
            state.panes.think = state.panes.think.next();
            state.panes.alone = None;
        }
        Some(Action::Alone) => alone(state),
        Some(Action::TelemetryView) => state.panes.telemetry = state.panes.telemetry.next(),
        Some(Action::Raw) => command::raw(state),
        Some(Action::FindBefore) => command::find(state, false),
        Some(Action::FindNext) => command::find(state, true),
        Some(Action::Editor) => return vec![Effect::Edit(state.draft.text())],
        Some(Action::Suspend) => return vec![Effect::Suspend],
        Some(Action::Redraw) => return vec![Effect::Redraw],
        Some(Action::EndOfInput) | None => other(state, key),
    }
    Vec::new()
}

/// A key in the telemetry's pane; whether it was for it.
fn instrument_key(state: &mut State, key: KeyEvent) -> bool {
    let instruments = &mut state.instruments;
    let page = 10;
    match (key.code, &mut instruments.alone) {
        (KeyCode::Char('f'), _) if key.modifiers.is_empty() => command::look_at(state, Look::Hold),
        (KeyCode::Char('r'), _) if key.modifiers.is_empty() => {
            command::look_at(state, Look::SetBack);
        }
        (KeyCode::Char('+' | '='), _) => {
            let span = instruments.span.step(-1);
            command::look_at(state, Look::Span(span));
        }
        (KeyCode::Char('-'), _) => {
            let span = instruments.span.step(1);
            command::look_at(state, Look::Span(span));
        }
        (KeyCode::Enter, None) if key.modifiers.is_empty() => instruments.alone = Some(0),
        (KeyCode::Enter | KeyCode::Esc, Some(_)) => instruments.alone = None,
        (KeyCode::Up, Some(top)) => *top = top.saturating_sub(1),
        (KeyCode::Down, Some(top)) => *top = top.saturating_add(1).min(MOST_ROWS),
        (KeyCode::PageUp, Some(top)) => *top = top.saturating_sub(page),
        (KeyCode::PageDown, Some(top)) => *top = top.saturating_add(page).min(MOST_ROWS),
        (KeyCode::Up, None) => instruments.chosen = instruments.chosen.step(-1),
        (KeyCode::Down, None) => instruments.chosen = instruments.chosen.step(1),
        _ => return false,
    }
    true
}

/// No part of the telemetry has more rows: those of the layers, and some.
const MOST_ROWS: usize = 100;

/// What a key does to what is open over everything.
enum Opened {
    /// It stays, like this.
    Stays(Overlay),
    /// It closes.
    Closes,
    /// It closes, and this conversation was chosen.
    Chosen(PathBuf),
    /// It closes, and this plan was chosen.
    Taken(Command),
    /// It closes, and the key is for what lies below.
    Passes,
}

fn overlay_key(key: KeyEvent, action: Option<Action>, overlay: Overlay) -> Opened {
    match (key.code, action) {
        (KeyCode::Enter, _) => match overlay {
            Overlay::Sessions(kept, at) => match kept.into_iter().nth(at) {
                Some(kept) => Opened::Chosen(kept.path),
                None => Opened::Closes,
            },
            Overlay::Tune(tune) => Opened::Taken(tune.command()),
            Overlay::Help(_) | Overlay::Stats(_) => Opened::Closes,
        },
        (KeyCode::Esc, _) | (_, Some(Action::Help | Action::Interrupt)) => Opened::Closes,
        (KeyCode::Char('q'), None) => Opened::Closes,
        (KeyCode::Left | KeyCode::Right, _) => match overlay {
            Overlay::Tune(mut tune) => {
                let steps = if key.code == KeyCode::Left { -1 } else { 1 };
                tune.slide(steps);
                Opened::Stays(Overlay::Tune(tune))
            }
            _ => Opened::Passes,
        },
        (KeyCode::Up, _) => Opened::Stays(moved(overlay, -1)),
        (KeyCode::Down, _) => Opened::Stays(moved(overlay, 1)),
        (KeyCode::PageUp, _) => Opened::Stays(moved(overlay, -5)),
        (KeyCode::PageDown, _) => Opened::Stays(moved(overlay, 5)),
        _ => Opened::Passes,
    }
}

fn moved(overlay: Overlay, rows: isize) -> Overlay {
    match overlay {
        Overlay::Help(top) => Overlay::Help(top.saturating_add_signed(rows)),
        Overlay::Stats(top) => Overlay::Stats(top.saturating_add_signed(rows)),
        Overlay::Tune(mut tune) => {
            tune.go(rows);
            Overlay::Tune(tune)
        }
        Overlay::Sessions(kept, at) => {
            let last = kept.len().saturating_sub(1);
            Overlay::Sessions(kept, at.saturating_add_signed(rows).min(last))
        }
    }
}

/// The pane that has the keys alone, else the conversation; and both again.
fn alone(state: &mut State) {
    state.panes.alone = match (state.panes.alone, state.focus) {
        (Some(_), _) => None,
        (None, Focus::Think) => Some(Alone::Think),
        (None, Focus::Message | Focus::Response | Focus::Telemetry) => Some(Alone::Response),
    };
}

/// The pane that scrolling keys move.
fn focused(state: &mut State) -> &mut Log {
    match state.focus {
        Focus::Think => &mut state.think,
        Focus::Message | Focus::Response | Focus::Telemetry => &mut state.response,
    }
}

fn follow(state: &mut State) {
    match state.focus {
        Focus::Message | Focus::Telemetry => {
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
        // Messages that were held back when an answer was stopped.
        "" => return sending::next(state),
        // A command may have been typed with a space behind it.
        _ if text.starts_with('/') => commands::parse(text.trim_end()),
        _ => Parsed::Text(text),
    };
    match parsed {
        Parsed::Run(slash, busy) => {
            state.draft = Default::default();
            state.choice = Some(0);
            command::run(state, slash, busy)
        }
        Parsed::Text(text) => sending::text(state, text),
        Parsed::Wrong(why) => {
            if !complete(state) {
                state.hint = Some(why);
            }
            Vec::new()
        }
    }
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
        state.search = None;
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
    let there = |focus: &Focus| {
        state.areas().is_some_and(|areas| match focus {
            Focus::Message => true,
            Focus::Response => areas.response.height > 0,
            Focus::Think => areas.think.height > 0,
            Focus::Telemetry => areas.side,
        })
    };
    const ROUND: [Focus; 4] = [
        Focus::Message,
        Focus::Response,
        Focus::Think,
        Focus::Telemetry,
    ];
    let at = ROUND.iter().position(|focus| *focus == state.focus);
    let others = ROUND.iter().cycle().skip(at.unwrap_or(0) + 1);
    let next = others.take(ROUND.len()).find(|focus| there(focus));
    state.focus = next.copied().unwrap_or_default();
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
        (KeyCode::Up, _) if key.modifiers.is_empty() && state.draft.at_top() => older(state),
        (KeyCode::Down, _) if key.modifiers.is_empty() && state.draft.at_bottom() => {
            if let Some(text) = state.recall.newer() {
                state.draft = super::super::draft::Draft::with(&text);
            }
        }
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

/// The message that waits last, else one that was sent before.
fn older(state: &mut State) {
    if sending::take_back(state) {
        return;
    }
    if let Some(text) = state.recall.older(&state.draft.text()) {
        state.draft = super::super::draft::Draft::with(&sending::written(&text));
    }
}
