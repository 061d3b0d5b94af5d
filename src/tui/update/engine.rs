//! What the engine's events do. They come in the order of the protocol; out of it nothing is lost and nothing breaks.

use super::super::draft::Draft;
use super::super::effect::{Effect, Outcome};
use super::super::figures::{counted, seconds};
use super::super::instruments::Instruments;
use super::super::log::Kind;
use super::super::overlay::Overlay;
use super::super::recall::Recall;
use super::super::state::{Phase, State};
use super::super::tune::{Measured, Tune};
use super::super::turn::Turn;
use super::send;
use std::sync::Arc;

use crate::engine::{Activity, Ended, Event, Reread, Telemetry, TurnFacts};
use crate::text::{Channel, Message as Said};

/// An event.
pub fn on_event(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Ready {
            model,
            messages,
            effort,
            open,
            sampling,
            history,
        } => {
            state.telemetry.positions.1 = model.context;
            state.thinking = Some(effort);
            state.sampling = Some(sampling);
            // Gone over from another model with the same conversation, nothing of it is to be found again.
            let known = state.history.is_some() && state.history == history;
            state.history = history;
            if model.demo {
                state.response.push(Kind::Notice, DEMO);
            }
            state.model = Some(model);
            state.phase = Phase::Idle;
            state.recall = Recall::begin(&messages);
            state.show_history(messages);
            say_open(state, open);
            // Before anything is sent, so that what was written then is not behind what is written now.
            let recover = state.history.clone().filter(|_| !known);
            let recover = recover.map(Effect::Recover);
            return recover.into_iter().chain(send::next(state)).collect();
        }
        Event::Loaded {
            history,
            messages,
            open,
        } => {
            state.history = Some(history);
            let count = messages.len();
            state.recall = Recall::begin(&messages);
            show_anew(state, messages);
            say_open(state, open);
            state.hint = Some(format!("Going on from {}.", counted(count, "message")));
            return state
                .history
                .clone()
                .map(Effect::Recover)
                .into_iter()
                .collect();
        }
        Event::TurnResumed { prompt_tokens } => resumed(state, prompt_tokens),
        Event::Paused => pause(state, true),
        Event::Unpaused => pause(state, false),
        Event::TurnStarted {
            user,
            prompt_tokens,
        } => started(state, user, prompt_tokens),
        Event::Delta { channel, text } => delta(state, channel, &text),
        Event::TurnEnded(facts) => return ended(state, facts),
        Event::Reset { messages } => {
            state.telemetry.positions.0 = 0;
            give_back(state);
            show_anew(state, messages);
            state.hint = Some("The conversation starts anew.".to_owned());
        }
        Event::Conversation {
            messages,
            taken_back,
            cost,
        } => {
            show_anew(state, messages);
            if let Some(text) = taken_back {
                put_back(state, &text);
                state.hint = Some("The message is taken back into the line.".to_owned());
                if std::mem::take(&mut state.edit_next) {
                    return vec![Effect::Edit(state.draft.text())];
                }
            }
            if let Some(cost) = cost {
                state.hint = Some(price(cost));
            }
        }
        Event::Offers(offers) => {
            state.overlay = Some(Overlay::Tune(Box::new(Tune::new(Arc::clone(&offers)))));
            state.hint = None;
            return vec![Effect::Simulate(offers)];
        }
        Event::Planned {
            preset,
            total_bytes,
            trunk_read,
        } => {
            // A token that the change fell into belongs to neither.
            state.token_at = None;
            state.measured.retain(|measured| measured.tokens() > 0);
            state.measured.push(Measured::new(format!(
                "{preset}, {:.2} GB",
                total_bytes as f64 / 1e9
            )));
            state.hint = Some(format!(
                "Preset {preset}: up to {:.2} GB of memory, {:.2} GB of the trunk read a token.",
                total_bytes as f64 / 1e9,
                trunk_read as f64 / 1e9
            ));
        }
        Event::SamplingIs(sampling) => {
            state.sampling = Some(sampling);
            state.hint = Some(format!(
                "From the next answer on: {}.",
                super::command::sampling(sampling)
            ));
        }
        Event::ThinkingIs {
            effort: thinking,
            cost,
        } => {
            state.thinking = Some(thinking);
            state.answers_due = state.answers_due.saturating_sub(1);
            if state.answers_due == 0 {
                state.asked = None;
                let price = cost.map(|cost| format!(" {}", price(cost)));
                state.hint = Some(
                    match thinking {
                        None => "No thinking from the next answer on.".to_owned(),
                        Some(effort) => format!(
                            "Thinking effort {} from the next answer on.",
                            effort.as_str()
                        ),
                    } + &price.unwrap_or_default(),
                );
            }
        }
        Event::Refused(why) => {
            if matches!(state.phase, Phase::Waiting(_)) {
                give_back(state);
                state.phase = Phase::Idle;
            }
            state.asked = None;
            state.answers_due = 0;
            state.edit_next = false;
            // A cancel that came too late is no news to somebody who is leaving.
            if !state.closing {
                state.hint = Some(why);
            }
        }
        Event::Note(note) => state.response.push(Kind::Notice, note),
        Event::Warning(warning) => state.response.push(Kind::Alarm, warning),
        Event::Stopped(_) if !state.closing && state.switching.is_some() => {
            let name = state.switching.take();
            return name
                .map(|name| super::command::open(state, name))
                .into_iter()
                .collect();
        }
        Event::Stopped(None) if state.closing => return vec![Effect::Exit(Outcome::Done)],
        Event::Stopped(reason) => {
            let reason = reason.unwrap_or_else(|| "it gave no reason".to_owned());
            return stopped(state, reason);
        }
    }
    Vec::new()
}

/// What the demo model is, before anybody takes it for something else.
const DEMO: &str = "This is the demo model: the shape of Kimi K3, but tiny. It knows this program's manual and small sums, and \
     little else. For real answers, start k3-tui with the folder of a real checkpoint.";

/// Another model is being opened, or cannot be.
pub fn opened(state: &mut State, name: String, opened: Result<(), String>) {
    match opened {
        Ok(()) => {
            state.backends.current = name;
            state.response.clear();
            state.think.clear();
            state.model = None;
            (state.asked, state.answers_due) = (None, 0);
            state.phase = Phase::Loading;
            state.telemetry = Telemetry::default();
            let span = state.instruments.span;
            state.instruments = Instruments::default();
            state.instruments.span = span;
            state.measured = vec![Measured::new("the plan of the start")];
        }
        Err(why) => {
            state.response.push(
                Kind::Alarm,
                format!("{name} cannot be used: {why}. /backend goes over to another one."),
            );
            state.phase = Phase::Stopped(why);
        }
    }
}

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
    state.conversation.user(&user);
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
    state.conversation.answer(channel, text);
    if let (Some(before), Some(measured)) = (state.token_at, state.measured.last_mut()) {
        measured.count(state.now.saturating_sub(before));
    }
    state.token_at = Some(state.now);
    let first_thought = state
        .turn()
        .is_some_and(|turn| turn.think == 0 && !turn.heading);
    let now = state.now;
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

fn ended(state: &mut State, facts: TurnFacts) -> Vec<Effect> {
    state.totals.count(&facts);
    state.token_at = None;
    state.telemetry.positions.0 = facts.positions;
    state.response.close();
    state.think.close();
    if let Phase::Turn(turn) = &state.phase {
        state.thought = Some((facts.think_tokens, turn.thinking(state.now)));
        state.answered = (facts.response_tokens > 0)
            .then(|| (facts.response_tokens, turn.responding(state.now)));
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
    let (kind, how) = ending(&facts.ended, state.is_remote());
    let text = match &facts.ended {
        Ended::Finished => figures,
        ended if ended.is_open() => format!("{how} {figures}. {}", go_on(state)),
        _ => format!("{how} {figures}."),
    };
    state.response.push(kind, text);
    let mut effects = match facts.ended {
        // Whoever stopped it looks at it.
        Ended::Cancelled => Vec::new(),
        // Nobody looks away from a short one.
        _ if facts.seconds_prefill + facts.seconds_decode < LONG => Vec::new(),
        _ => vec![Effect::Bell],
    };
    match facts.ended {
        Ended::Finished | Ended::Limit | Ended::StopId(_) => effects.extend(send::next(state)),
        // After anything else the person decides.
        _ if !state.queue.is_empty() => {
            state.hint = Some(format!(
                "{} not sent yet. Enter on an empty line sends the first. {}",
                counted(state.queue.len(), "message"),
                send::BACK
            ));
        }
        _ => {}
    }
    effects
}

/// Says of the last answer that it can be gone on with.
fn say_open(state: &mut State, open: Option<Ended>) {
    if let Some(ended) = open {
        let how = ending(&ended, state.is_remote()).1;
        let text = format!("The last answer is not finished: {how} {}", go_on(state));
        state.response.push(Kind::Alarm, text);
    }
}

/// Seconds from which on an answer is long.
const LONG: f64 = 10.0;

/// What can be done about an answer that is not finished.
fn go_on(state: &State) -> &'static str {
    match state.is_remote() {
        true => "/regen answers anew, /undo takes the message back.",
        false => "/continue goes on, /regen answers anew, /undo takes the message back.",
    }
}

/// How an answer ended, in a sentence, and how loud that is to be said.
fn ending(ended: &Ended, remote: bool) -> (Kind, String) {
    let (kind, how) = match ended {
        Ended::Finished => (Kind::Notice, "finished.".to_owned()),
        Ended::Cancelled => (Kind::Notice, "stopped by you, kept so far.".to_owned()),
        Ended::Limit => (
            Kind::Notice,
            "it has as many tokens as --gen allows.".to_owned(),
        ),
        Ended::StopId(id) => (Kind::Notice, format!("stopped at id {id}.")),
        Ended::Length if remote => (
            Kind::Alarm,
            "cut: the context that the server gives, or its limit of tokens, is full.".to_owned(),
        ),
        Ended::Length => (
            Kind::Alarm,
            "cut: the context is full. /reset starts anew; --context plans for more.".to_owned(),
        ),
        Ended::Malformed(what) => (
            Kind::Alarm,
            format!("the model lost the form of an answer ({what}); what could be read is kept."),
        ),
        Ended::Failed(why) => (
            Kind::Alarm,
            format!("cut: {why}. What came before is kept."),
        ),
        Ended::Killed => (
            Kind::Alarm,
            "the program ended in the middle of it; what was written down is kept.".to_owned(),
        ),
    };
    (kind, how)
}

/// What is to be read again, and about how long that takes.
fn price(cost: Reread) -> String {
    let about = cost.seconds.map(|s| format!(", about {}", seconds(s)));
    format!(
        "The next answer reads {} again{}.",
        counted(cost.tokens, "token"),
        about.unwrap_or_default()
    )
}

/// Shows a conversation in place of what was shown.
fn show_anew(state: &mut State, messages: Vec<Said>) {
    state.response.clear();
    state.think.clear();
    state.thought = None;
    state.answered = None;
    state.about.clear();
    state.phase = Phase::Idle;
    state.show_history(messages);
}

/// The last answer goes on: its last blocks are appended to.
fn resumed(state: &mut State, prompt_tokens: usize) {
    state.response.drop_notices();
    state.phase = Phase::Turn(Turn {
        heading: true,
        ..Turn::new(state.now, prompt_tokens)
    });
}

fn pause(state: &mut State, paused: bool) {
    if let Phase::Turn(turn) = &mut state.phase {
        turn.paused = paused;
    }
    // The token in the making took a rest.
    state.token_at = None;
    state.hint = paused.then(|| "Halted. /continue goes on, Esc stops the answer.".to_owned());
}

fn stopped(state: &mut State, reason: String) -> Vec<Effect> {
    give_back(state);
    if state.closing {
        return vec![Effect::Exit(Outcome::EngineFailed(reason))];
    }
    state.response.push(
        Kind::Alarm,
        format!(
            "The engine has stopped: {reason}. The conversation stays readable; {}/quit leaves.",
            match state.backends.names.len() {
                0 | 1 => "",
                _ => "/backend NAME starts one again, ",
            }
        ),
    );
    state.telemetry.activity = Activity::Stopped;
    state.phase = Phase::Stopped(reason);
    Vec::new()
}

/// A message that was sent but not taken goes back to where it was written.
fn give_back(state: &mut State) {
    if let Phase::Waiting(text) = &state.phase {
        let text = text.clone();
        put_back(state, &text);
    }
}

/// A message becomes a draft again, before what has been written since.
fn put_back(state: &mut State, text: &str) {
    let since = state.draft.text();
    let gap = if since.is_empty() { "" } else { "\n" };
    state.draft = Draft::with(&format!("{}{gap}{since}", send::written(text)));
}
