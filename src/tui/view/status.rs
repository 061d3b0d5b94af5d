//! The last row: what goes on, which model, how much it thinks, how much of the context is used.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::figures::{UNKNOWN, count};
use super::super::glyph::width;
use super::super::state::{Phase, State};
use super::super::theme::Role;
use crate::engine::ModelFacts;

/// Draws the status line. What does not fit is left out from the right.
pub fn view(state: &State, frame: &mut Frame, area: Rect) {
    let mut left = area;
    for (index, (text, role)) in parts(state).into_iter().enumerate() {
        let gap = if index == 0 { " " } else { " │ " };
        let need = width(gap) + width(&text);
        if index > 1 && need > usize::from(left.width) {
            break;
        }
        for (text, role) in [(gap, Role::Quiet), (&text, role)] {
            super::put(state, frame, left, text, role);
            let used = u16::try_from(width(text))
                .unwrap_or(u16::MAX)
                .min(left.width);
            left.x += used;
            left.width -= used;
        }
    }
}

fn parts(state: &State) -> Vec<(String, Role)> {
    let doing = match state.phase {
        Phase::Stopped(_) => Role::Alarm,
        _ => Role::Strong,
    };
    let thinking = match state.thinking {
        None => format!("effort {UNKNOWN}"),
        Some(None) => "thinking off".to_owned(),
        Some(Some(effort)) => format!("effort {}", effort.as_str()),
    };
    let (used, planned) = state.telemetry.positions;
    let positions = match planned {
        0 if used > 0 => format!("{} positions", count(used)),
        0 => format!("{UNKNOWN} positions"),
        planned => format!("{} of {} positions", count(used), count(planned)),
    };
    let mut parts = vec![(state.doing(), doing)];
    if let Some(model) = &state.model {
        parts.push((name(model), Role::Plain));
    }
    parts.push((thinking, Role::Plain));
    parts.push((positions, Role::Plain));
    parts.push(("F1 help".to_owned(), Role::Quiet));
    parts
}

/// The model's name, in which the demo model never goes as another one.
fn name(model: &ModelFacts) -> String {
    match (&model.server, model.demo) {
        (Some(server), _) => format!("{} on {server}", model.name),
        (None, true) if !model.name.to_lowercase().contains("demo") => {
            format!("demo: {}", model.name)
        }
        (None, _) => model.name.clone(),
    }
}
