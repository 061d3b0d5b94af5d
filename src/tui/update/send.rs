//! Messages on their way: sent, or waiting for their turn.

use super::super::draft::Draft;
use super::super::effect::Effect;
use super::super::figures::counted;
use super::super::state::{Phase, State};
use super::super::unsent::Unsent;
use crate::engine::Command;

/// How a message that waits is had back.
pub const BACK: &str = "Up takes the last one back.";

/// Sends a message, or keeps it until the engine is free. The draft stays where neither is possible.
pub fn text(state: &mut State, text: String) -> Vec<Effect> {
    let obstacle = match &state.phase {
        _ if state.closing => Some("The program is closing."),
        Phase::Stopped(_) => Some(
            "The engine has stopped, so nothing can be sent. /backend starts one again, /quit leaves.",
        ),
        _ => None,
    };
    if let Some(obstacle) = obstacle {
        state.hint = Some(obstacle.to_owned());
        return Vec::new();
    }
    let stashed = state.recall.sent(&text);
    state.draft = Draft::with(&stashed.unwrap_or_default());
    match state.phase {
        // What waits already comes first.
        Phase::Idle if state.queue.is_empty() => now(state, text),
        Phase::Idle => {
            state.queue.push_back(text);
            next(state)
        }
        _ => {
            state.queue.push_back(text);
            state.hint = Some(format!(
                "{} sent when the model is free. {BACK}",
                match state.queue.len() {
                    1 => "It is".to_owned(),
                    n => format!("{} wait, each is", counted(n, "message")),
                }
            ));
            Vec::new()
        }
    }
}

/// Sends the message that has waited longest, if the engine is free.
pub fn next(state: &mut State) -> Vec<Effect> {
    if state.phase != Phase::Idle || state.closing {
        return Vec::new();
    }
    match state.queue.pop_front() {
        Some(text) => {
            // What was said of messages that wait is no longer so.
            state.hint.take_if(|hint| hint.ends_with(BACK));
            now(state, text)
        }
        None => Vec::new(),
    }
}

fn now(state: &mut State, text: String) -> Vec<Effect> {
    state.response.follow();
    state.think.follow();
    state.phase = Phase::Waiting(text.clone());
    vec![Effect::Send(Command::Send(text))]
}

/// What was not sent when the program ended is there again: nothing of it is sent before the person says so.
pub fn recovered(state: &mut State, unsent: Unsent) {
    if unsent.is_empty() {
        return;
    }
    let waiting = match unsent.queue.len() {
        0 => String::new(),
        n => format!(
            " {} not sent yet: Enter on an empty line sends the first. {BACK}",
            counted(n, "message")
        ),
    };
    state.hint = Some(format!(
        "What was written when the program ended is here again.{waiting}"
    ));
    for text in unsent.queue.into_iter().rev() {
        state.queue.push_front(text);
    }
    let since = state.draft.text();
    let gap = if since.is_empty() || unsent.draft.is_empty() {
        ""
    } else {
        "\n"
    };
    state.draft = Draft::with(&format!("{}{gap}{since}", unsent.draft));
}

/// Takes the message that was queued last back into the empty draft.
pub fn take_back(state: &mut State) -> bool {
    if !state.draft.is_empty() {
        return false;
    }
    let Some(text) = state.queue.pop_back() else {
        return false;
    };
    state.draft = Draft::with(&written(&text));
    true
}

/// A message as it is written: what starts with a slash is written with two.
pub fn written(text: &str) -> String {
    let slash = if text.starts_with('/') { "/" } else { "" };
    format!("{slash}{text}")
}
