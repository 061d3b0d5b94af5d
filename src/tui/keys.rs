//! The keys: one table, from which the actions and the help come. What is not in it goes to the message being written.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the message, or run the command.
    Send,
    /// A new line in the message.
    Newline,
    /// Stop what is going on, one thing at a time.
    Stop,
    /// As Stop; with nothing to stop it clears the message, and then leaves when pressed twice.
    Interrupt,
    /// Leave, if the message is empty.
    EndOfInput,
    /// The next effort.
    CycleEffort,
    /// Complete a command, else go to the next pane.
    Next,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// Go to the end and stay there.
    Follow,
    /// Commands and keys.
    Help,
    /// More or less of the reasoning.
    ThinkView,
    /// One pane alone, and both again.
    Alone,
    /// More or less of the telemetry.
    TelemetryView,
    /// Answers as they came, or as markdown.
    Raw,
    /// The match before.
    FindBefore,
    /// The next match.
    FindNext,
    /// The message in an editor.
    Editor,
    /// Put the program to sleep, back to the shell.
    Suspend,
    /// Draw everything anew.
    Redraw,
}

/// One row of the table.
#[derive(Debug)]
pub struct Binding {
    /// The keys as a person reads them.
    pub label: &'static str,
    /// What they do.
    pub help: &'static str,
    /// The keys themselves, and what each of them asks for.
    pub keys: &'static [(KeyCode, KeyModifiers, Action)],
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const ALT: KeyModifiers = KeyModifiers::ALT;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

/// All keys. Each is one that every terminal sends; those that only some send have a second one beside them.
pub const TABLE: &[Binding] = &[
    Binding {
        label: "Enter",
        help: "send the message, run the command; while an answer runs it waits",
        keys: &[(KeyCode::Enter, NONE, Action::Send)],
    },
    Binding {
        label: "Alt-Enter, Ctrl-J",
        help: "new line in the message",
        keys: &[
            (KeyCode::Enter, ALT, Action::Newline),
            (KeyCode::Enter, SHIFT, Action::Newline),
            (KeyCode::Char('j'), CTRL, Action::Newline),
        ],
    },
    Binding {
        label: "Esc",
        help: "stop the answer; what is there is kept",
        keys: &[(KeyCode::Esc, NONE, Action::Stop)],
    },
    Binding {
        label: "Ctrl-C",
        help: "stop the answer; else clear the message; twice: leave",
        keys: &[(KeyCode::Char('c'), CTRL, Action::Interrupt)],
    },
    Binding {
        label: "Ctrl-D",
        help: "leave, when the message is empty",
        keys: &[(KeyCode::Char('d'), CTRL, Action::EndOfInput)],
    },
    Binding {
        label: "Ctrl-T",
        help: "thinking: off, low, high, max",
        keys: &[(KeyCode::Char('t'), CTRL, Action::CycleEffort)],
    },
    Binding {
        label: "Tab",
        help: "complete a command; else the next pane",
        keys: &[(KeyCode::Tab, NONE, Action::Next)],
    },
    Binding {
        label: "PageUp, PageDown",
        help: "read back; in a pane also Up, Down, Home",
        keys: &[
            (KeyCode::PageUp, NONE, Action::PageUp),
            (KeyCode::PageDown, NONE, Action::PageDown),
        ],
    },
    Binding {
        label: "End, Ctrl-End",
        help: "follow the end again; End where it moves no caret",
        keys: &[(KeyCode::End, CTRL, Action::Follow)],
    },
    Binding {
        label: "F1",
        help: "this help",
        keys: &[(KeyCode::F(1), NONE, Action::Help)],
    },
    Binding {
        label: "F2, F3",
        help: "thinking: a line, last rows, all; one pane alone",
        keys: &[
            (KeyCode::F(2), NONE, Action::ThinkView),
            (KeyCode::F(3), NONE, Action::Alone),
        ],
    },
    Binding {
        label: "F4",
        help: "telemetry: what fits, everything, nothing",
        keys: &[(KeyCode::F(4), NONE, Action::TelemetryView)],
    },
    Binding {
        label: "F5",
        help: "answers as they came, or as markdown again",
        keys: &[(KeyCode::F(5), NONE, Action::Raw)],
    },
    Binding {
        label: "F7, F8",
        help: "what /search looks for: the one before, the next",
        keys: &[
            (KeyCode::F(7), NONE, Action::FindBefore),
            (KeyCode::F(8), NONE, Action::FindNext),
        ],
    },
    Binding {
        label: "Up, Down",
        help: "the message that waits last, else messages sent before",
        keys: &[],
    },
    Binding {
        label: "Ctrl-G",
        help: "the message in the editor that EDITOR names",
        keys: &[(KeyCode::Char('g'), CTRL, Action::Editor)],
    },
    Binding {
        label: "Ctrl-U, Ctrl-R",
        help: "undo and redo in the message",
        keys: &[],
    },
    Binding {
        label: "Ctrl-Z",
        help: "back to the shell; fg returns",
        keys: &[(KeyCode::Char('z'), CTRL, Action::Suspend)],
    },
    Binding {
        label: "Ctrl-L",
        help: "draw the screen anew",
        keys: &[(KeyCode::Char('l'), CTRL, Action::Redraw)],
    },
];

/// What a key asks for, if it is in the table.
pub fn action(key: KeyEvent) -> Option<Action> {
    TABLE
        .iter()
        .flat_map(|binding| binding.keys)
        .find(|(code, modifiers, _)| key.code == *code && key.modifiers == *modifiers)
        .map(|&(_, _, action)| action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings() {
        let keys: Vec<_> = TABLE.iter().flat_map(|binding| binding.keys).collect();
        for (index, (code, modifiers, _)) in keys.iter().enumerate() {
            let mut others = keys[..index].iter();
            assert!(
                others.all(|other| (&other.0, &other.1) != (code, modifiers)),
                "{code:?}"
            );
        }
    }

    #[test]
    fn modifiers_count() {
        let act = |code, modifiers| action(KeyEvent::new(code, modifiers));
        assert_eq!(act(KeyCode::Enter, NONE), Some(Action::Send));
        assert_eq!(act(KeyCode::Enter, ALT), Some(Action::Newline));
        assert_eq!(act(KeyCode::Char('c'), NONE), None);
        assert_eq!(act(KeyCode::Char('c'), CTRL), Some(Action::Interrupt));
    }
}
