//! How much of each pane is shown, as the person chose. Not where it stands.

use serde::Deserialize;

/// How much of the reasoning is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkView {
    /// Its title: tokens and time.
    Line,
    /// Its last rows.
    #[default]
    Rows,
    /// As much as fits.
    All,
}

impl ThinkView {
    /// The next one, round and round.
    pub fn next(self) -> Self {
        match self {
            Self::Line => Self::Rows,
            Self::Rows => Self::All,
            Self::All => Self::Line,
        }
    }
}

/// How much of the telemetry is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TelemetryView {
    /// What fits beside or below the conversation.
    #[default]
    Fits,
    /// Everything, in place of the conversation.
    All,
    /// Nothing.
    Hidden,
}

impl TelemetryView {
    /// The next one, round and round.
    pub fn next(self) -> Self {
        match self {
            Self::Fits => Self::All,
            Self::All => Self::Hidden,
            Self::Hidden => Self::Fits,
        }
    }
}

/// The one pane that has all the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// The reasoning.
    Think,
    /// The conversation.
    Response,
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Panes {
    /// Of the reasoning.
    pub think: ThinkView,
    /// Of the telemetry.
    pub telemetry: TelemetryView,
    /// A pane that was maximised.
    pub alone: Option<Alone>,
}
