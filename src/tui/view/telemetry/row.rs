//! A row of the telemetry: pieces at the left, a figure at the right.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::super::super::glyph::width;
use super::super::super::state::State;
use super::super::super::theme::Role;
use super::super::put;

/// A piece of text and how it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub text: String,
    pub role: Role,
    pub underlined: bool,
}

impl Piece {
    pub fn new(text: impl Into<String>, role: Role) -> Self {
        Self {
            text: text.into(),
            role,
            underlined: false,
        }
    }
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    left: Vec<Piece>,
    right: Option<Piece>,
}

impl Row {
    /// A name at the left, its figure at the right.
    pub fn figure(name: &str, value: impl Into<String>) -> Self {
        Self::alarming(name, value, Role::Plain)
    }

    /// The same, the figure looking so.
    pub fn alarming(name: &str, value: impl Into<String>, role: Role) -> Self {
        Self {
            left: vec![Piece::new(name, Role::Quiet)],
            right: Some(Piece::new(value, role)),
        }
    }

    /// Text alone.
    pub fn text(text: impl Into<String>, role: Role) -> Self {
        Self::pieces(vec![Piece::new(text, role)])
    }

    /// Pieces one behind the other.
    pub fn pieces(left: Vec<Piece>) -> Self {
        Self { left, right: None }
    }

    /// An empty one.
    pub fn gap() -> Self {
        Self::default()
    }

    /// Draws it, a column free at both ends. The figure wins over the name where both do not fit.
    pub fn draw(&self, state: &State, frame: &mut Frame, area: Rect) {
        let inner = Rect {
            x: area.x + 1,
            width: area.width.saturating_sub(2),
            ..area
        };
        let columns = |text: &str| u16::try_from(width(text)).unwrap_or(u16::MAX);
        let mut rest = inner;
        for piece in &self.left {
            put(state, frame, rest, &piece.text, piece.role);
            let used = columns(&piece.text).min(rest.width);
            if piece.underlined {
                for x in rest.x..rest.x + used {
                    if let Some(cell) = frame.buffer_mut().cell_mut((x, rest.y)) {
                        cell.modifier.insert(Modifier::UNDERLINED);
                    }
                }
            }
            rest.x += used;
            rest.width -= used;
        }
        if let Some(right) = &self.right {
            let used = columns(&right.text).min(inner.width);
            let at = Rect {
                x: inner.right() - used,
                width: used,
                ..inner
            };
            put(state, frame, at, &right.text, right.role);
        }
    }
}
