//! Memory plans to choose from, over everything: what they take, what they would cost, what was measured.

use super::super::figures::{UNKNOWN, brief, counted, gigabytes, seconds};
use super::super::state::State;
use super::super::theme::Role;
use super::super::tune::Pace;
use crate::engine::Offer;

/// A row for each plan, then what was measured.
pub fn lines(state: &State, offers: &[Offer], chosen: usize) -> Vec<(String, Role)> {
    let any = offers.iter().find_map(|offer| offer.plan.as_ref().ok());
    let pace = any.and_then(|&(_, token)| Pace::measured(&state.telemetry, token));
    let head = "  preset        memory GB   read GB a token   s a token, about".to_owned();
    let mut lines = vec![(head, Role::Quiet)];
    for (index, offer) in offers.iter().enumerate() {
        let (sign, role) = match index == chosen {
            true => ("▸", Role::Chosen),
            false => (" ", Role::Plain),
        };
        let name = offer.preset.name();
        let text = match &offer.plan {
            Ok((total, token)) => {
                let about = pace.map(|pace| seconds(pace.seconds(*token)));
                let about = about.unwrap_or_else(|| UNKNOWN.to_owned());
                let (memory, read) = (gigabytes(Some(*total)), gigabytes(Some(token.read())));
                format!("{sign} {name:12} {memory:>10} {read:>17} {about:>18}")
            }
            Err(why) => format!("{sign} {name:12} {why}"),
        };
        lines.push((text, role));
    }
    let reason = match pace {
        Some(_) => "Predicted by the rates of the last seconds and the experts retained until now.",
        None => "Predicted once a token was made while something streams.",
    };
    lines.extend([
        (String::new(), Role::Plain),
        (format!("  {reason}"), Role::Quiet),
    ]);
    lines.extend(measured(state));
    lines
}

/// The middle of the times of each plan, with the quarter and three quarters; and what can be said about them.
fn measured(state: &State) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    for measured in &state.measured {
        let tokens = counted(measured.tokens(), "token");
        let times = match measured.quartiles() {
            Some([low, middle, high]) => {
                let [low, middle, high] = [low, middle, high].map(brief);
                format!("{middle} a token, half within {low} to {high}")
            }
            None => "too few to say".to_owned(),
        };
        lines.push((
            format!("  {}: {times} ({tokens})", measured.plan),
            Role::Plain,
        ));
    }
    if let [.., before, now] = state.measured.as_slice() {
        let verdict = match now.faster_than(before) {
            Some(true) => format!("{} is faster than {}.", now.plan, before.plan),
            Some(false) => format!("{} is slower than {}.", now.plan, before.plan),
            None => "No difference beyond the noise yet.".to_owned(),
        };
        lines.push((format!("  {verdict}"), Role::Strong));
    }
    lines
}
