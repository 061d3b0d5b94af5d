//! The telemetry of a model that runs on a server: how its answers come, what it counted, and what it says about itself. In place
//! of disk, ring and experts, which are its own affair.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::super::figures::{UNKNOWN, brief, count, gigabytes, pace, share};
use super::super::super::layout::Areas;
use super::super::super::samples::Flow;
use super::super::super::state::State;
use super::super::super::theme::{Role, Theme};
use super::super::put;
use super::chart::{self, Ink};
use super::row::Row;
use super::side::pane;
use super::two_rows;
use crate::engine::Telemetry;
use crate::engine::telemetry::{Counted, Metrics, RemoteFigures, ServerFigures};

/// Draws it in the form that fits.
pub fn view(
    state: &State,
    frame: &mut Frame,
    areas: &Areas,
    shown: &Telemetry,
    figures: &RemoteFigures,
) {
    let area = areas.telemetry;
    match (areas.side, area.height) {
        (true, _) => side(state, frame, area, shown, figures),
        (_, 2..) => two_rows(state, frame, area, cells(figures)),
        _ => one_row(state, frame, area, figures),
    }
}

/// What a server says about itself, if it does.
fn server(figures: &RemoteFigures) -> ServerFigures {
    match figures.metrics {
        Metrics::Known(server) => server,
        Metrics::Unasked | Metrics::NotOffered => ServerFigures::default(),
    }
}

fn number(n: Option<u64>) -> String {
    let count = |n| count(usize::try_from(n).unwrap_or(usize::MAX));
    n.map_or(UNKNOWN.to_owned(), count)
}

fn time(time: Option<std::time::Duration>) -> String {
    time.map_or(UNKNOWN.to_owned(), brief)
}

fn cells(figures: &RemoteFigures) -> [[(String, Role); 3]; 2] {
    let (server, last) = (server(figures), figures.last);
    let plain = |text: String| (text, Role::Plain);
    [
        [
            plain(format!("tokens/s {}", pace(figures.pace))),
            plain(format!("first token after {}", time(figures.first_token))),
            plain(format!("cache used {}", share(server.cache))),
        ],
        [
            plain(format!(
                "requests {}, waiting {}",
                number(server.running),
                number(server.waiting)
            )),
            plain(format!(
                "tokens read {} made {}",
                number(last.map(|l| l.prompt)),
                number(last.map(|l| l.made))
            )),
            plain(format!("asked again {}", number(Some(figures.again)))),
        ],
    ]
}

fn one_row(state: &State, frame: &mut Frame, area: Rect, figures: &RemoteFigures) {
    let server = server(figures);
    let text = format!(
        " tokens/s {} first {} waiting {}",
        pace(figures.pace),
        time(figures.first_token),
        number(server.waiting)
    );
    put(state, frame, area, &text, Role::Plain);
}

/// Rows of the chart.
const CHART: usize = 4;

fn side(state: &State, frame: &mut Frame, area: Rect, shown: &Telemetry, figures: &RemoteFigures) {
    let inner = pane(state, frame, area, "f + - r");
    let columns = usize::from(inner.width.saturating_sub(2));
    let rows = [
        answer(state, figures, columns),
        counts("last answer, tokens", figures.last),
        about_server(state, figures),
        session(state, shown, figures),
    ];
    let rows = rows.join(&Row::gap());
    for (area, row) in inner.rows().zip(&rows) {
        row.draw(state, frame, area);
    }
}

fn answer(state: &State, figures: &RemoteFigures, columns: usize) -> Vec<Row> {
    let instruments = &state.instruments;
    let (span, until) = (instruments.span, instruments.until());
    let rates = instruments
        .samples
        .rates(Flow::Tokens, span, until, columns);
    let most = rates.iter().flatten().copied().fold(0.0, f64::max);
    let ink = match state.ascii || state.theme == Theme::Mono {
        true => Ink::Digits,
        false => Ink::Blocks,
    };
    let mut rows = vec![Row::figure("tokens a second", pace(figures.pace))];
    rows.extend(chart::tall(&rates, most, ink, CHART));
    rows.extend([
        Row::figure("most in a column", pace((most > 0.0).then_some(most))),
        Row::figure("first token after", time(figures.first_token)),
        Row::figure("longest between two", time(figures.longest_gap)),
    ]);
    rows
}

fn counts(name: &str, counted: Option<Counted>) -> Vec<Row> {
    let of = |pick: fn(Counted) -> Option<u64>| number(counted.and_then(pick));
    vec![
        Row::text(name, Role::Quiet),
        Row::figure("  read", of(|c| Some(c.prompt))),
        Row::figure("    of them cached", of(|c| c.cached)),
        Row::figure("  made", of(|c| Some(c.made))),
        Row::figure("    of them reasoning", of(|c| c.reasoning)),
    ]
}

fn about_server(state: &State, figures: &RemoteFigures) -> Vec<Row> {
    let host = state.model.as_ref().and_then(|model| model.server.clone());
    let host = host.unwrap_or_else(|| UNKNOWN.to_owned());
    let head = |engine: &str| Row::figure(engine, host.clone());
    let server = match figures.metrics {
        Metrics::Known(server) => server,
        Metrics::Unasked => return vec![head("server")],
        Metrics::NotOffered => {
            return vec![
                head("server"),
                Row::text("  it says nothing about itself", Role::Quiet),
                Row::text("  (no figures under /metrics)", Role::Quiet),
            ];
        }
    };
    vec![
        head(server.engine),
        Row::figure("  requests it works on", number(server.running)),
        Row::figure("  requests that wait", number(server.waiting)),
        Row::figure("  cache used", share(server.cache)),
        Row::figure("  tokens a second, for all", pace(server.pace)),
    ]
}

fn session(state: &State, shown: &Telemetry, figures: &RemoteFigures) -> Vec<Row> {
    let since = match state.instruments.since() {
        Some(then) => {
            let ago = state.now.saturating_sub(then);
            format!(
                "since {} ago, tokens",
                super::super::super::figures::time(ago)
            )
        }
        None => "since the start, tokens".to_owned(),
    };
    // A server that counts nothing has not counted nought.
    let all = (figures.all != Counted::default()).then_some(figures.all);
    let mut rows = counts(&since, all);
    rows.push(Row::figure("asked again", number(Some(figures.again))));
    rows.push(Row::figure("memory here GB", gigabytes(shown.rss_bytes)));
    rows
}
