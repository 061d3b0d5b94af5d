//! The slash commands: one table, from which parsing, completion and help come. Not what they do.

use crate::stream::Preset;
use crate::text::Effort;

/// What a person can ask for with a slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slash {
    /// Show commands and keys.
    Help,
    /// Forget the conversation.
    Reset,
    /// Halt the running answer.
    Pause,
    /// Go on with an answer that was halted, stopped or cut.
    Continue,
    /// Answer the last message anew.
    Regenerate,
    /// Take the last message and its answer back.
    Undo,
    /// How much to think; None asks what is in force.
    Effort(Option<Effort>),
    /// Whether to think; None asks what is in force.
    Think(Option<bool>),
    /// Which memory plan to use; None asks which there are.
    Preset(Option<Preset>),
    /// Leave.
    Quit,
}

/// One row of the table.
#[derive(Debug)]
pub struct Entry {
    /// With its slash.
    pub name: &'static str,
    /// Words that may follow; nothing may follow where there are none.
    pub arguments: &'static [&'static str],
    /// What it does, in one short sentence.
    pub help: &'static str,
    /// Another name for another entry: completed only when nothing else fits.
    pub alias: bool,
    make: fn(Option<&str>) -> Option<Slash>,
}

/// All commands. Those that do not run while the model is busy say so.
pub const TABLE: &[Entry] = &[
    Entry {
        name: "/help",
        arguments: &[],
        help: "commands and keys",
        alias: false,
        make: |_| Some(Slash::Help),
    },
    Entry {
        name: "/reset",
        arguments: &[],
        help: "forget the conversation; stops a running answer first",
        alias: false,
        make: |_| Some(Slash::Reset),
    },
    Entry {
        name: "/pause",
        arguments: &[],
        help: "halt the running answer between two layers; /continue goes on",
        alias: false,
        make: |_| Some(Slash::Pause),
    },
    Entry {
        name: "/continue",
        arguments: &[],
        help: "go on with an answer that was halted, stopped or cut",
        alias: false,
        make: |_| Some(Slash::Continue),
    },
    Entry {
        name: "/regen",
        arguments: &[],
        help: "answer the last message anew; not while an answer runs",
        alias: false,
        make: |_| Some(Slash::Regenerate),
    },
    Entry {
        name: "/undo",
        arguments: &[],
        help: "take the last message back into the line; not while an answer runs",
        alias: false,
        make: |_| Some(Slash::Undo),
    },
    Entry {
        name: "/effort",
        arguments: &["low", "high", "max"],
        help: "how much to think, from the next answer on",
        alias: false,
        make: |word| match word {
            None => Some(Slash::Effort(None)),
            Some(word) => word.parse().ok().map(|effort| Slash::Effort(Some(effort))),
        },
    },
    Entry {
        name: "/think",
        arguments: &["on", "off"],
        help: "whether to think at all, from the next answer on",
        alias: false,
        make: |word| match word {
            None => Some(Slash::Think(None)),
            Some("on") => Some(Slash::Think(Some(true))),
            Some("off") => Some(Slash::Think(Some(false))),
            Some(_) => None,
        },
    },
    Entry {
        name: "/preset",
        arguments: &[
            "auto",
            "ultra",
            "laptop",
            "desktop",
            "workstation",
            "server",
            "max",
        ],
        help: "how much memory to take; the conversation stays",
        alias: false,
        make: |word| match word {
            None => Some(Slash::Preset(None)),
            Some(word) => word.parse().ok().map(|preset| Slash::Preset(Some(preset))),
        },
    },
    Entry {
        name: "/quit",
        arguments: &[],
        help: "leave; what was answered so far is kept",
        alias: false,
        make: |_| Some(Slash::Quit),
    },
    Entry {
        name: "/exit",
        arguments: &[],
        help: "the same as /quit",
        alias: true,
        make: |_| Some(Slash::Quit),
    },
];

/// With more words than this, a list of commands shows that there are some and not which.
const MANY: usize = 3;

impl Entry {
    /// How it is typed, with its arguments.
    pub fn usage(&self) -> String {
        match self.arguments {
            [] => self.name.to_owned(),
            words if words.len() > MANY => format!("{} NAME", self.name),
            words => format!("{} {}", self.name, words.join("|")),
        }
    }
}

/// What a draft asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A message for the model.
    Text(String),
    /// A command.
    Run(Slash),
    /// Neither; what is wrong and what to do.
    Wrong(String),
}

/// Reads a draft. What starts with a slash is a command; with two slashes it is text that starts with one.
pub fn parse(draft: &str) -> Parsed {
    let Some(rest) = draft.strip_prefix('/') else {
        return Parsed::Text(draft.to_owned());
    };
    if rest.starts_with('/') {
        return Parsed::Text(rest.to_owned());
    }
    let mut words = draft.split_whitespace();
    let name = words.next().unwrap_or("/");
    let Some(entry) = TABLE.iter().find(|entry| entry.name == name) else {
        return Parsed::Wrong(format!(
            "{name} is no command; /help lists them. To send it as text, start with two slashes: /{name}"
        ));
    };
    let argument = words.next();
    let slash = match (entry.arguments, argument, words.next()) {
        ([], Some(_), _) => return Parsed::Wrong(format!("{name} takes nothing after it.")),
        (_, _, None) => (entry.make)(argument),
        (_, _, Some(_)) => None,
    };
    match slash {
        Some(slash) => Parsed::Run(slash),
        None => Parsed::Wrong(format!("Type {name} {}.", entry.arguments.join(" or "))),
    }
}

/// A way to go on with a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The whole draft then.
    pub draft: String,
    /// How it is listed.
    pub label: String,
    /// What it is.
    pub help: &'static str,
}

/// The ways to go on with a draft that starts a command. None for a draft that is text, or several lines.
pub fn completions(draft: &str) -> Vec<Completion> {
    if !draft.starts_with('/') || draft.contains('\n') {
        return Vec::new();
    }
    if let Some((name, start)) = draft.split_once(' ') {
        let entries = TABLE.iter().filter(|entry| entry.name == name);
        let start = start.trim_start();
        return entries
            .flat_map(|entry| entry.arguments.iter().map(move |word| (entry, word)))
            .filter(|(_, word)| word.starts_with(start))
            .map(|(entry, word)| Completion {
                draft: format!("{name} {word}"),
                label: (*word).to_owned(),
                help: entry.help,
            })
            .collect();
    }
    let fitting = |alias| {
        TABLE
            .iter()
            .filter(move |entry| entry.alias == alias && entry.name.starts_with(draft))
    };
    let entries: Vec<_> = match fitting(false).next() {
        Some(_) => fitting(false).collect(),
        None => fitting(true).collect(),
    };
    let complete = |entry: &&Entry| Completion {
        draft: match entry.arguments {
            [] => entry.name.to_owned(),
            _ => format!("{} ", entry.name),
        },
        label: entry.usage(),
        help: entry.help,
    };
    entries.iter().map(complete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_table_is_understood_as_it_is_listed() {
        for entry in TABLE {
            assert!(
                matches!(parse(entry.name), Parsed::Run(_)),
                "{}",
                entry.name
            );
            for word in entry.arguments {
                let typed = format!("{} {word} ", entry.name);
                assert!(matches!(parse(&typed), Parsed::Run(_)), "{typed}");
            }
            assert!(matches!(
                parse(&format!("{} x", entry.name)),
                Parsed::Wrong(_)
            ));
            assert_ne!(completions(entry.name), []);
        }
        let effort = Parsed::Run(Slash::Effort(Some(Effort::High)));
        assert_eq!(parse("/effort high"), effort);
        assert_eq!(parse("/exit"), Parsed::Run(Slash::Quit));
    }

    #[test]
    fn what_is_no_command_is_explained() {
        let Parsed::Wrong(why) = parse("/usr/bin is a folder") else {
            panic!("sent");
        };
        assert!(
            why.contains("/usr/bin is no command") && why.contains("//usr/bin"),
            "{why}"
        );
        assert_eq!(
            parse("/effort medium"),
            Parsed::Wrong("Type /effort low or high or max.".to_owned())
        );
        assert_eq!(parse("/effort low now"), parse("/effort medium"));
        assert_eq!(parse("//etc"), Parsed::Text("/etc".to_owned()));
        assert_eq!(parse(" /help"), Parsed::Text(" /help".to_owned()));
        assert!(matches!(parse("/"), Parsed::Wrong(_)));
    }

    #[test]
    fn completion_offers_commands_then_their_words() {
        let drafts = |text| {
            completions(text)
                .into_iter()
                .map(|c| c.draft)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            drafts("/"),
            [
                "/help",
                "/reset",
                "/pause",
                "/continue",
                "/regen",
                "/undo",
                "/effort ",
                "/think ",
                "/preset ",
                "/quit"
            ]
        );
        assert_eq!(drafts("/e"), ["/effort "]);
        assert_eq!(drafts("/ex"), ["/exit"]);
        assert_eq!(
            drafts("/effort "),
            ["/effort low", "/effort high", "/effort max"]
        );
        assert_eq!(drafts("/effort m"), ["/effort max"]);
        for text in ["", "text", "//", "/nothing", "/help ", "/e\n"] {
            assert_eq!(completions(text), [], "{text:?}");
        }
    }
}
