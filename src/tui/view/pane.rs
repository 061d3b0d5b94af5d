//! The two panes that scroll: the reasoning and the conversation.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::figures::{counted, time};
use super::super::glyph::{shown_from, width};
use super::super::layout::body;
use super::super::log::{GUTTER, Kind, Log};
use super::super::markdown::Look;
use super::super::search::places;
use super::super::state::{Focus, Phase, State};
use super::super::theme::Role;
use super::title::{self, Title};

/// The reasoning.
pub fn think(state: &State, frame: &mut Frame, area: Rect) {
    let about = match (state.turn(), state.thought) {
        (Some(turn), _) if turn.think > 0 => figures(turn.think, turn.thinking(state.now)),
        (None, Some((tokens, time))) if tokens > 0 => figures(tokens, time),
        _ => String::new(),
    };
    let empty = match state.thinking {
        Some(None) => "Thinking is off. /think on turns it on.",
        _ => "What the model thinks before it answers.",
    };
    pane(
        state,
        frame,
        area,
        &state.think,
        "Think",
        Focus::Think,
        &about,
        empty,
    );
}

/// The conversation.
pub fn response(state: &State, frame: &mut Frame, area: Rect) {
    let about = match state.turn() {
        Some(turn) if turn.response > 0 => figures(turn.response, turn.responding(state.now)),
        None => state
            .answered
            .map_or(String::new(), |(tokens, time)| figures(tokens, time)),
        _ => String::new(),
    };
    let raw = if state.response.raw() { "raw, " } else { "" };
    let about = format!("{raw}{about}");
    let about = about.trim_end_matches(", ");
    let empty = match state.phase {
        Phase::Loading => "Loading the model.",
        _ => "Type a message and press Enter. /help lists commands and keys.",
    };
    let log = &state.response;
    pane(
        state,
        frame,
        area,
        log,
        "Response",
        Focus::Response,
        about,
        empty,
    );
}

fn figures(tokens: usize, took: std::time::Duration) -> String {
    format!("{}, {}", counted(tokens, "token"), time(took))
}

#[expect(clippy::too_many_arguments, reason = "two callers, side by side above")]
fn pane(
    state: &State,
    frame: &mut Frame,
    area: Rect,
    log: &Log,
    name: &str,
    focus: Focus,
    about: &str,
    empty: &str,
) {
    if area.is_empty() {
        return;
    }
    let badge = match (log.follows(), log.unseen()) {
        (true, _) => "",
        (false, true) => "↓ new below: Ctrl-End",
        (false, false) => "↓ more below: Ctrl-End",
    };
    let title = Title {
        name,
        focus: state.focus == focus,
        about,
        badge,
    };
    title::view(state, frame, area, title);
    let body = body(area);
    if log.blocks().is_empty() {
        super::put(state, frame, indented(body), empty, Role::Quiet);
    }
    for (row, line) in body.rows().zip(log.visible()) {
        let Some(block) = log.blocks().get(line.block) else {
            continue;
        };
        let style = state.theme.block(block.kind);
        let buffer = frame.buffer_mut();
        if line.row == 0 {
            buffer.set_string(row.x, row.y, sign(block.kind), style);
        }
        let text = indented(row);
        let mut column = 0;
        for (span, look) in block.row(line.row) {
            let x = text.x + u16::try_from(column).unwrap_or(u16::MAX).min(text.width);
            let (shown, next) = shown_from(span, column, usize::from(text.width));
            buffer.set_string(x, text.y, shown, state.theme.span(style, look));
            column = next;
        }
        if let Some(search) = &state.search {
            mark(state, buffer, text, &block.row(line.row), &search.needle);
        }
    }
}

/// What stands in front of a block, so that no colour is needed to tell them apart.
fn sign(kind: Kind) -> &'static str {
    match kind {
        Kind::User => ">",
        Kind::Answer | Kind::Think => "",
        Kind::Tools => "*",
        Kind::Heading => "#",
        Kind::Notice => "·",
        Kind::Alarm => "!",
    }
}

fn indented(area: Rect) -> Rect {
    let gutter = u16::try_from(GUTTER).unwrap_or(0).min(area.width);
    Rect {
        x: area.x + gutter,
        width: area.width - gutter,
        ..area
    }
}

/// Makes what is looked for stand out in a row that was drawn.
fn mark(state: &State, buffer: &mut Buffer, row: Rect, spans: &[(&str, Look)], needle: &str) {
    let text: String = spans.iter().map(|(text, _)| *text).collect();
    let columns = |bytes: usize| u16::try_from(width(&text[..bytes])).unwrap_or(u16::MAX);
    for (start, end) in places(&text, needle) {
        let (left, right) = (columns(start).min(row.width), columns(end).min(row.width));
        let found = Rect {
            x: row.x + left,
            width: right - left,
            ..row
        };
        buffer.set_style(found, state.theme.style(Role::Chosen));
    }
}
