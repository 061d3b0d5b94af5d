//! All that the screen knows. Changed by update alone, read by the views. No terminal, no clock, no channel in here.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use super::backends::Listed;
use super::conversation::Conversation;
use super::draft::Draft;
use super::glyph;
use super::instruments::Instruments;
use super::layout::{self, Areas, Wants};
use super::log::{Kind, Log};
use super::overlay::Overlay;
use super::panes::Panes;
use super::recall::Recall;
use super::search::Search;
use super::theme::Theme;
use super::totals::Totals;
use super::tune::Measured;
use super::turn::Turn;
use super::wrap::Rows;
use crate::chat::Sampling;
use crate::engine::{Activity, ModelFacts, Telemetry};
use crate::text::{Effort, Message as Said, Role};

/// Where the conversation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The model is being opened.
    Loading,
    /// Nothing runs.
    Idle,
    /// This message was sent; the engine has not taken it yet.
    Waiting(String),
    /// The model reads, thinks or answers.
    Turn(Turn),
    /// The engine has ended, for this reason.
    Stopped(String),
}

/// The pane that has the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// The message being written.
    #[default]
    Message,
    /// The response pane.
    Response,
    /// The think pane.
    Think,
    /// The telemetry, where there is room for all of it.
    Telemetry,
}

/// What the screen knows.
#[derive(Clone, Debug)]
pub struct State {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Time since the screen opened.
    pub now: Duration,
    /// The looks.
    pub theme: Theme,
    /// Where the conversation stands.
    pub phase: Phase,
    /// Whether the engine was asked to end.
    pub closing: bool,
    /// The model, once it is open.
    pub model: Option<ModelFacts>,
    /// The thinking in force, once it is known; None inside when it is off.
    pub thinking: Option<Option<Effort>>,
    /// The thinking that was asked for last, while answers are due.
    pub asked: Option<Option<Effort>>,
    /// Answers about the thinking that are due.
    pub answers_due: usize,
    /// What the engine is doing.
    pub telemetry: Telemetry,
    /// How that is looked at.
    pub instruments: Instruments,
    /// The conversation.
    pub response: Log,
    /// The reasoning.
    pub think: Log,
    /// Think tokens and time of the last turn.
    pub thought: Option<(usize, Duration)>,
    /// Response tokens and time of the last turn.
    pub answered: Option<(usize, Duration)>,
    /// The start of the person's last message: what the reasoning is about.
    pub about: String,
    /// The message being written.
    pub draft: Draft,
    /// Which completion is chosen; None when the person closed the list.
    pub choice: Option<usize>,
    /// The pane that has the keys.
    pub focus: Focus,
    /// What the program has to say about the last key.
    pub hint: Option<String>,
    /// Whether the next Ctrl-C leaves.
    pub armed: bool,
    /// What is open over everything else.
    pub overlay: Option<Overlay>,
    /// Messages that wait until the engine is free, oldest first.
    pub queue: VecDeque<String>,
    /// What was sent before.
    pub recall: Recall,
    /// How much of each pane is shown.
    pub panes: Panes,
    /// Where models can be talked to.
    pub backends: Listed,
    /// Where is gone over to, when the engine that is there has ended.
    pub switching: Option<String>,
    /// What is looked for.
    pub search: Option<Search>,
    /// The conversation, for copying and exporting.
    pub conversation: Conversation,
    /// Where it is kept, if it is.
    pub history: Option<PathBuf>,
    /// How tokens are chosen, once it is known.
    pub sampling: Option<Sampling>,
    /// How long tokens took, plan by plan; the last is in force.
    pub measured: Vec<Measured>,
    /// When the last token came, within a turn.
    pub token_at: Option<Duration>,
    /// Counts and times of this session.
    pub totals: Totals,
    /// Whether the message that comes back is to be opened in the editor.
    pub edit_next: bool,
    /// Whether the terminal knows only ASCII, so that the program's own marks keep to it.
    pub ascii: bool,
    /// Whether nothing may move that need not: clocks stand still but for a token.
    pub still: bool,
    /// Whether the screen differs from what was drawn last.
    pub dirty: bool,
}

impl State {
    /// A screen of this size that waits for its engine.
    pub fn new(size: (u16, u16), theme: Theme) -> Self {
        let mut state = Self {
            size,
            now: Duration::ZERO,
            theme,
            phase: Phase::Loading,
            closing: false,
            model: None,
            thinking: None,
            asked: None,
            answers_due: 0,
            telemetry: Telemetry::default(),
            instruments: Instruments::default(),
            response: Log::default(),
            think: Log::default(),
            thought: None,
            answered: None,
            about: String::new(),
            draft: Draft::default(),
            choice: Some(0),
            focus: Focus::default(),
            hint: None,
            armed: false,
            overlay: None,
            queue: VecDeque::new(),
            recall: Recall::default(),
            panes: Panes::default(),
            backends: Listed::default(),
            switching: None,
            search: None,
            conversation: Conversation::default(),
            history: None,
            sampling: None,
            measured: vec![Measured::new("the plan of the start")],
            token_at: None,
            totals: Totals::default(),
            edit_next: false,
            ascii: false,
            still: false,
            dirty: true,
        };
        state.settle();
        state
    }

    /// Whether the model runs on a server.
    pub fn is_remote(&self) -> bool {
        let model = self.model.as_ref();
        model.is_some_and(|model| model.server.is_some())
    }

    /// The running turn.
    pub fn turn(&self) -> Option<&Turn> {
        match &self.phase {
            Phase::Turn(turn) => Some(turn),
            _ => None,
        }
    }

    /// Whether the engine answers, or is about to.
    pub fn busy(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_) | Phase::Turn(_))
    }

    /// Where everything is; None if the terminal is too small.
    pub fn areas(&self) -> Option<Areas> {
        let width = usize::from(layout::main_width(self.size, self.panes));
        let hint = self.hint.as_deref().unwrap_or_default();
        let wants = Wants {
            alarm: self.telemetry.drops > 0,
            hint: match hint {
                "" => 0,
                hint => Rows::default().of(hint, width).len(),
            },
            message: self
                .draft
                .height(width.saturating_sub(layout::PROMPT), layout::MESSAGE_ROWS),
            panes: self.panes,
        };
        layout::areas(self.size, wants)
    }

    /// Brings what is visible up to date, after a change.
    pub fn settle(&mut self) {
        let Some(areas) = self.areas() else {
            return;
        };
        if self.focus == Focus::Telemetry && !areas.side {
            self.focus = Focus::Message;
        }
        for (log, area) in [
            (&mut self.response, areas.response),
            (&mut self.think, areas.think),
        ] {
            let body = layout::body(area);
            log.settle(usize::from(body.width), usize::from(body.height));
        }
    }

    /// The state in a word or two, for the status line.
    pub fn doing(&self) -> String {
        use super::figures::{count, time};
        if self.closing {
            return "closing".to_owned();
        }
        match &self.phase {
            Phase::Loading => "loading the model".to_owned(),
            Phase::Idle => "idle".to_owned(),
            Phase::Stopped(_) => "engine stopped".to_owned(),
            Phase::Waiting(_) => "sending".to_owned(),
            Phase::Turn(turn) => {
                let elapsed = time(self.now.saturating_sub(turn.began));
                let doing = match (turn, self.telemetry.activity) {
                    (turn, _) if turn.cancelling => "cancelling".to_owned(),
                    (turn, _) if turn.paused => "halted".to_owned(),
                    (turn, _) if turn.answering.is_some() => "answering".to_owned(),
                    (turn, _) if turn.think > 0 => "thinking".to_owned(),
                    (_, Activity::Waiting) => "waiting for the server".to_owned(),
                    (_, Activity::Prefill { done, of }) => {
                        format!("reading the prompt {} of {}", count(done), count(of))
                    }
                    (turn, _) if turn.first.is_none() => {
                        format!(
                            "reading the prompt {} of {}",
                            super::figures::UNKNOWN,
                            count(turn.prompt)
                        )
                    }
                    _ => "starting".to_owned(),
                };
                format!("{doing}, {elapsed}")
            }
        }
    }

    /// Puts the messages of a conversation in both panes.
    pub fn show_history(&mut self, messages: Vec<Said>) {
        self.conversation = Conversation::new(messages.clone());
        for message in messages {
            match message.role {
                Role::System => {
                    let text = format!("system message: {}", message.content);
                    self.response.push(Kind::Notice, text);
                }
                Role::User => self.put_user(message.content),
                Role::Assistant => {
                    if let Some(reasoning) = message.reasoning_content.filter(|r| !r.is_empty()) {
                        self.show_heading();
                        self.think.push(Kind::Think, reasoning);
                    }
                    self.response.push(Kind::Answer, message.content);
                }
            }
        }
    }

    /// Shows a message of the person's.
    pub fn show_user(&mut self, text: String) {
        self.recall.said(&text);
        self.put_user(text);
    }

    fn put_user(&mut self, text: String) {
        let line = text.lines().find(|line| !line.trim().is_empty());
        let line = line.unwrap_or_default();
        self.about = glyph::fitted(line, 60);
        self.response.push(Kind::User, text);
    }

    /// Says in the think pane what the coming reasoning is about.
    pub fn show_heading(&mut self) {
        let about = match self.about.as_str() {
            "" => "(no message)",
            about => about,
        };
        self.think.push(Kind::Heading, format!("on: {about}"));
    }
}
