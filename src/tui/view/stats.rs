//! Figures of the session, over everything.

use super::super::figures::{UNKNOWN, count, counted, gigabytes, share, taking, time};
use super::super::glyph::fitted_end;
use super::super::state::State;
use super::super::theme::Role;
use super::super::update::sampling;

/// Columns of a name with its blanks.
const NAME: usize = 33;

/// Its rows, for so many columns.
pub fn lines(state: &State, width: u16) -> Vec<(String, Role)> {
    let room = usize::from(width).saturating_sub(NAME);
    let totals = &state.totals;
    let telemetry = &state.telemetry;
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let model = state.model.as_ref();
    let mut rows = vec![
        (
            "model",
            known(model.map(|model| match &model.server {
                Some(server) => format!("{} on {server}", model.name),
                None => format!("{}, {}", model.name, counted(model.layers, "layer")),
            })),
        ),
        ("tokens are chosen by", known(state.sampling.map(sampling))),
        (
            "kept in",
            known(
                state
                    .history
                    .as_ref()
                    .map(|path| fitted_end(&path.display().to_string(), room)),
            ),
        ),
        ("open for", time(state.now)),
        ("answers", count(totals.turns)),
        (
            "positions read",
            format!("{} in {}", count(totals.read), time(totals.reading)),
        ),
        ("tokens of thinking", count(totals.think)),
        ("tokens of answer", count(totals.response)),
        ("made in", time(totals.making)),
        (
            "a token of the last answer",
            known(totals.seconds_a_token().map(taking)),
        ),
    ];
    let number = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX));
    match telemetry.remote {
        Some(remote) => rows.extend([
            ("tokens read, as the server says", number(remote.all.prompt)),
            ("tokens made, as the server says", number(remote.all.made)),
            ("asked again", number(remote.again)),
        ]),
        None => rows.extend([
            ("experts retained", share(telemetry.retained())),
            ("experts that could not be read", number(telemetry.drops)),
        ]),
    }
    rows.extend([
        ("memory now, GB", gigabytes(telemetry.rss_bytes)),
        ("memory at most, GB", gigabytes(telemetry.peak_rss_bytes)),
    ]);
    rows.into_iter()
        .map(|(name, value)| (format!(" {name:0$} {value}", NAME - 2), Role::Plain))
        .collect()
}
