//! What is said to somebody who looks away: the window's title, the progress in the bar of tasks. Not how it is sent.

use super::figures::{counted, time};
use super::state::{Phase, State};
use crate::engine::Activity;

/// Progress as terminals show it (OSC 9;4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing goes on.
    #[default]
    None,
    /// So many per cent are done.
    Part(u8),
    /// It goes on, for nobody knows how long.
    Unknown,
    /// It has failed.
    Failed,
    /// It is halted.
    Paused,
}

/// The window's title.
pub fn title(state: &State) -> String {
    let doing = match &state.phase {
        // Seconds would change it once a second for nobody.
        Phase::Turn(turn) => {
            let tokens = turn.think + turn.response;
            let doing = state.doing();
            let word = doing.split(',').next().unwrap_or_default();
            match tokens {
                0 if state.is_remote() => "waiting".to_owned(),
                0 => "reading".to_owned(),
                _ => format!("{word}, {}", counted(tokens, "token")),
            }
        }
        _ => state.doing(),
    };
    format!("k3-tui: {doing}")
}

/// The progress.
pub fn progress(state: &State) -> Progress {
    match &state.phase {
        Phase::Stopped(_) => Progress::Failed,
        Phase::Turn(turn) if turn.paused => Progress::Paused,
        Phase::Turn(_) | Phase::Waiting(_) => match state.telemetry.activity {
            Activity::Prefill { done, of } if of > 0 => {
                let part = 100 * done.min(of) / of;
                Progress::Part(u8::try_from(part).unwrap_or(100))
            }
            _ => Progress::Unknown,
        },
        Phase::Loading => Progress::Unknown,
        Phase::Idle if state.telemetry.drops > 0 => Progress::Failed,
        Phase::Idle => Progress::None,
    }
}

/// What is left on the normal screen when the session has ended; none where nothing was said.
pub fn summary(state: &State) -> Option<String> {
    let totals = &state.totals;
    if totals.turns == 0 {
        return None;
    }
    let mut text = format!(
        "k3-tui: {}, {} of thinking and {} of answer in {}",
        counted(totals.turns, "answer"),
        counted(totals.think, "token"),
        counted(totals.response, "token"),
        time(totals.reading + totals.making),
    );
    if totals.drops > 0 {
        text.push_str(&format!(
            "; {} could not be read",
            counted(
                usize::try_from(totals.drops).unwrap_or(usize::MAX),
                "expert"
            )
        ));
    }
    if let Some(path) = &state.history {
        text.push_str(&format!(
            "\nk3-tui: go on with  k3-tui --history {}",
            path.display()
        ));
    }
    Some(text)
}

/// The bytes that set the title. Control characters would end it early.
pub fn title_bytes(title: &str) -> String {
    let clean: String = title.chars().filter(|c| !c.is_control()).collect();
    format!("\x1b]2;{clean}\x1b\\")
}

/// The bytes that set the progress.
pub fn progress_bytes(progress: Progress) -> String {
    let (state, part) = match progress {
        Progress::None => (0, 0),
        Progress::Part(part) => (1, part),
        Progress::Failed => (2, 100),
        Progress::Unknown => (3, 0),
        Progress::Paused => (4, 0),
    };
    format!("\x1b]9;4;{state};{part}\x1b\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_title_can_end_it() {
        assert_eq!(title_bytes("a\x1b\\b\x07"), "\x1b]2;a\\b\x1b\\");
        assert_eq!(progress_bytes(Progress::Part(41)), "\x1b]9;4;1;41\x1b\\");
        assert_eq!(progress_bytes(Progress::None), "\x1b]9;4;0;0\x1b\\");
    }
}
