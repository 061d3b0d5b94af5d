//! What the engine's events do. They come in the order of the protocol; out of it nothing is lost and nothing breaks.

use super::super::draft::Draft;
use super::super::effect::{Effect, Outcome};
use super::super::figures::{counted, seconds};
use super::super::log::Kind;
use super::super::state::{Phase, State};
use super::super::turn::Turn;
use crate::engine::{Activity, Ended, Event, TurnFacts};
use crate::text::Channel;

/// An event.
pub fn on_event(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Ready {
            model,
            messages,
            effort,
        } => {
            state.telemetry.positions.1 = model.context;
            state.thinking = Some(effort);
            if model.demo {
                state.response.push(Kind::Notice, DEMO);
            }
            state.model = Some(model);
            state.phase = Phase::Idle;
            state.show_history(messages);
        }
        Event::TurnStarted {
            user,
            prompt_tokens,
        } => started(state, user, prompt_tokens),
        Event::Delta { channel, text } => delta(state, channel, &text),
        Event::TurnEnded(facts) => ended(state, facts),
        Event::Reset { messages } => {
            state.response.clear();
            state.think.clear();
            state.thought = None;
            state.about.clear();
            state.telemetry.positions.0 = 0;
            give_back(state);
            state.phase = Phase::Idle;
            state.show_history(messages);
            state.hint = Some("The conversation starts anew.".to_owned());
        }
        Event::Planned {
            preset,
            total_bytes,
            trunk_read,
        } => {
            state.hint = Some(format!(
                "Preset {preset}: up to {:.2} GB of memory, {:.2} GB of the trunk read a token.",
                total_bytes as f64 / 1e9,
                trunk_read as f64 / 1e9
            ));
        }
        Event::ThinkingIs(thinking) => {
            state.thinking = Some(thinking);
            state.answers_due = state.answers_due.saturating_sub(1);
            if state.answers_due == 0 {
                state.asked = None;
                state.hint = Some(match thinking {
                    None => "No thinking from the next answer on.".to_owned(),
                    Some(effort) => format!(
                        "Thinking effort {} from the next answer on.",
                        effort.as_str()
                    ),
                });
            }
        }
        Event::Refused(why) => {
            if matches!(state.phase, Phase::Waiting(_)) {
                give_back(state);
                state.phase = Phase::Idle;
            }
            state.asked = None;
            state.answers_due = 0;
            // A cancel that came too late is no news to somebody who is leaving.
            if !state.closing {
                state.hint = Some(why);
            }
        }
        Event::Warning(warning) => state.response.push(Kind::Alarm, warning),
        Event::Stopped(None) if state.closing => return vec![Effect::Exit(Outcome::Done)],
        Event::Stopped(reason) => {
            let reason = reason.unwrap_or_else(|| "it gave no reason".to_owned());
            return stopped(state, reason);
        }
    }
    Vec::new()
}

/// What the demo model is, before anybody takes it for something else.
const DEMO: &str = "This is the demo model: the shape of Kimi K3, but tiny. It shows how the program works and knows next \
    to nothing. For answers, start k3-tui with the folder of a real checkpoint.";

/// The engine's thread ended without a last word: it panicked.
pub fn gone(state: &mut State) -> Vec<Effect> {
    match state.phase {
        // The last word came before.
        Phase::Stopped(_) => Vec::new(),
        _ => stopped(
            state,
            "its thread ended without saying why; what it printed is shown when you leave"
                .to_owned(),
        ),
    }
}

fn started(state: &mut State, user: String, prompt_tokens: usize) {
    // Refused and accepted after all: the message must not stay behind to be sent twice.
    if state.phase == Phase::Idle && state.draft.text() == user {
        state.draft = Draft::default();
    }
    state.show_user(user);
    state.phase = Phase::Turn(Turn::new(state.now, prompt_tokens));
}

fn delta(state: &mut State, channel: Option<Channel>, text: &str) {
    if state.turn().is_none() {
        state.phase = Phase::Turn(Turn::new(state.now, 0));
    }
    let (first_thought, now) = (state.turn().is_some_and(|turn| turn.think == 0), state.now);
    if let Phase::Turn(turn) = &mut state.phase {
        turn.count(channel, now);
    }
    match channel {
        Some(Channel::Think) => {
            if first_thought {
                state.show_heading();
            }
            state.think.extend(Kind::Think, text);
        }
        Some(Channel::Response) => state.response.extend(Kind::Answer, text),
        Some(Channel::Tools) => state.response.extend(Kind::Tools, text),
        None => {}
    }
}

fn ended(state: &mut State, facts: TurnFacts) {
    state.telemetry.positions.0 = facts.positions;
    if let Phase::Turn(turn) = &state.phase {
        state.thought = Some((facts.think_tokens, turn.thinking(state.now)));
    }
    // A message that waits for its own turn goes on waiting.
    if !matches!(state.phase, Phase::Waiting(_) | Phase::Stopped(_)) {
        state.phase = Phase::Idle;
    }
    let figures = format!(
        "{} of thinking, {} of answer; first after {}, all in {}",
        counted(facts.think_tokens, "token"),
        counted(facts.response_tokens, "token"),
        seconds(facts.seconds_prefill),
        seconds(facts.seconds_prefill + facts.seconds_decode),
    );
    match facts.ended {
        Ended::Finished => state.response.push(Kind::Notice, figures),
        Ended::Cancelled => state.response.push(
            Kind::Notice,
            format!("stopped by you, kept so far; {figures}"),
        ),
        Ended::Length => state.response.push(
            Kind::Alarm,
            "cut: the context is full. /reset starts anew; --context plans for more.",
        ),
        Ended::Malformed(what) => state.response.push(
            Kind::Alarm,
            format!("the model lost the form of an answer ({what}); what could be read is kept"),
        ),
        Ended::Failed(why) => state.response.push(
            Kind::Alarm,
            format!("cut: {why}. What came before is kept."),
        ),
    }
}

fn stopped(state: &mut State, reason: String) -> Vec<Effect> {
    give_back(state);
    if state.closing {
        return vec![Effect::Exit(Outcome::EngineFailed(reason))];
    }
    state.response.push(
        Kind::Alarm,
        format!("The engine has stopped: {reason}. The conversation stays readable; /quit leaves."),
    );
    state.telemetry.activity = Activity::Stopped;
    state.phase = Phase::Stopped(reason);
    Vec::new()
}

/// A message that was sent but not taken goes back to where it was written.
fn give_back(state: &mut State) {
    if let Phase::Waiting(text) = &state.phase {
        let written = state.draft.text();
        // What starts with a slash was written with two.
        let slash = if text.starts_with('/') { "/" } else { "" };
        let gap = if written.is_empty() { "" } else { "\n" };
        state.draft = Draft::with(&format!("{slash}{text}{gap}{written}"));
    }
}
