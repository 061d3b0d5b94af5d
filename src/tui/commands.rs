//! The slash commands: one table, from which parsing, completion, help and documentation come. Not what they do.

use super::samples::Span;
use super::theme::Theme;
use crate::chat::Change;
use crate::stream::Preset;
use crate::text::Effort;

/// What a person can ask for with a slash. An argument that may be left out then asks what is in force.
#[derive(Clone, Debug, PartialEq)]
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
    /// The same, and write it anew in the editor.
    Edit,
    /// How much to think.
    Effort(Option<Effort>),
    /// Whether to think.
    Think(Option<bool>),
    /// Which memory plan to use.
    Preset(Option<Preset>),
    /// Memory plans to choose from.
    Tune,
    /// A part of the memory plan.
    Budget(Change),
    /// Where the model is that is talked to.
    Backend(Option<String>),
    /// What holds for the whole conversation; none inside removes it.
    System(Option<Option<String>>),
    /// The temperature; 0 chooses the most probable token.
    Temperature(Option<f64>),
    /// The share of probability to draw from.
    TopP(Option<f64>),
    /// Where drawing begins.
    Seed(Option<u64>),
    /// Look for a text.
    Search(Option<String>),
    /// Copy the last answer, or one of its blocks of code.
    Copy(Copied),
    /// Write the conversation to a file, to be read.
    Export(String),
    /// Write the conversation to a file, to be loaded.
    Save(String),
    /// Go over to another conversation.
    Load(String),
    /// The conversations that are kept.
    Sessions,
    /// Give the conversation a name.
    Rename(String),
    /// Go on in a copy of the conversation.
    Fork,
    /// Figures of the session.
    Stats,
    /// How the telemetry is looked at.
    Telemetry(Option<Look>),
    /// Write the telemetry of the last hour to a file.
    Record(String),
    /// The looks.
    Theme(Option<Theme>),
    /// Answers as they came, or as markdown.
    Raw,
    /// The settings file in the editor.
    Settings,
    /// Leave.
    Quit,
}

/// What is done with the telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Hold it still, or let it go on.
    Hold,
    /// Count from now on.
    SetBack,
    /// How far back charts go.
    Span(Span),
}

impl std::str::FromStr for Look {
    type Err = ();
    fn from_str(word: &str) -> Result<Self, ()> {
        let span = || Span::ALL.into_iter().find(|span| span.name() == word);
        match word {
            "hold" => Ok(Self::Hold),
            "reset" => Ok(Self::SetBack),
            _ => span().map(Self::Span).ok_or(()),
        }
    }
}

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The last answer.
    Answer,
    /// The reasoning of the last answer.
    Think,
    /// The block of code with this number, from 1.
    Code(usize),
    /// The whole conversation.
    All,
}

impl std::str::FromStr for Copied {
    type Err = ();
    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "answer" => Ok(Self::Answer),
            "think" => Ok(Self::Think),
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(number @ 1..) => Ok(Self::Code(number)),
                _ => Err(()),
            },
        }
    }
}

/// What may follow a command's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// One of these words, or nothing.
    Words(&'static [&'static str]),
    /// Something of the person's, called this; the rest of the line.
    Text(&'static str),
}

/// Whether a command runs while the model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// At once.
    Runs,
    /// It does not: the answer must have ended.
    Waits,
}

/// One row of the table.
#[derive(Debug)]
pub struct Entry {
    /// With its slash.
    pub name: &'static str,
    /// What may follow.
    pub argument: Argument,
    /// What it does and what it costs, in one short sentence.
    pub help: &'static str,
    /// Another name for another entry: completed only when nothing else fits.
    pub alias: bool,
    /// Whether it runs while the model answers.
    pub busy: Busy,
    make: fn(Option<&str>) -> Option<Slash>,
}

const fn entry(
    name: &'static str,
    argument: Argument,
    busy: Busy,
    help: &'static str,
    make: fn(Option<&str>) -> Option<Slash>,
) -> Entry {
    Entry {
        name,
        argument,
        help,
        alias: false,
        busy,
        make,
    }
}

/// An argument that may be left out.
fn optional<T: std::str::FromStr>(word: Option<&str>) -> Option<Option<T>> {
    match word {
        None => Some(None),
        Some(word) => word.parse().ok().map(Some),
    }
}

/// Bytes from a number of GB above nothing.
fn gigabytes(word: Option<&str>) -> Option<u64> {
    let number: f64 = word?.parse().ok()?;
    // Whole bytes, of which a f64 counts far more than any machine has.
    (number.is_finite() && number >= 0.0).then_some((number * 1e9) as u64)
}

use Argument::{None as Nothing, Text, Words};
use Busy::{Runs, Waits};

/// All commands.
pub const TABLE: &[Entry] = &[
    entry("/help", Nothing, Runs, "commands and keys", |_| {
        Some(Slash::Help)
    }),
    entry(
        "/reset",
        Nothing,
        Runs,
        "forget the conversation; stops a running answer first",
        |_| Some(Slash::Reset),
    ),
    entry(
        "/pause",
        Nothing,
        Runs,
        "halt the running answer between two layers; /continue goes on",
        |_| Some(Slash::Pause),
    ),
    entry(
        "/continue",
        Nothing,
        Runs,
        "go on with an answer that was halted, stopped or cut",
        |_| Some(Slash::Continue),
    ),
    entry(
        "/regen",
        Nothing,
        Waits,
        "answer the last message anew",
        |_| Some(Slash::Regenerate),
    ),
    entry(
        "/undo",
        Nothing,
        Waits,
        "take the last message back into the line",
        |_| Some(Slash::Undo),
    ),
    entry(
        "/edit",
        Nothing,
        Waits,
        "take the last message back into the editor",
        |_| Some(Slash::Edit),
    ),
    entry(
        "/effort",
        Words(&["low", "high", "max"]),
        Runs,
        "how much to think, from the next answer on",
        |word| optional(word).map(Slash::Effort),
    ),
    entry(
        "/think",
        Words(&["on", "off"]),
        Runs,
        "whether to think at all, from the next answer on",
        |word| match word {
            None => Some(Slash::Think(None)),
            Some("on") => Some(Slash::Think(Some(true))),
            Some("off") => Some(Slash::Think(Some(false))),
            Some(_) => None,
        },
    ),
    entry(
        "/preset",
        Words(&[
            "auto",
            "ultra",
            "laptop",
            "desktop",
            "workstation",
            "server",
            "max",
        ]),
        Runs,
        "how much memory to take; the conversation stays",
        |word| optional(word).map(Slash::Preset),
    ),
    entry(
        "/tune",
        Nothing,
        Runs,
        "memory plans: what they take, cost, and did cost; Enter takes one",
        |_| Some(Slash::Tune),
    ),
    entry(
        "/trunk",
        Text("GB"),
        Runs,
        "memory for the trunk, pins and ring together",
        |word| gigabytes(word).map(|bytes| Slash::Budget(Change::Trunk(bytes))),
    ),
    entry("/cache", Text("GB"), Runs, "memory for experts", |word| {
        gigabytes(word).map(|bytes| Slash::Budget(Change::Cache(bytes)))
    }),
    entry("/ring", Text("N"), Runs, "slots of the ring", |word| {
        let slots = word?.parse().ok().filter(|slots| *slots > 0)?;
        Some(Slash::Budget(Change::Ring(slots)))
    }),
    entry(
        "/backend",
        Text("NAME"),
        Waits,
        "where models can be talked to; goes over to one, the conversation stays",
        |name| Some(Slash::Backend(name.map(str::to_owned))),
    ),
    entry(
        "/system",
        Text("TEXT"),
        Waits,
        "what holds for the whole conversation; off removes it; all is read anew",
        |text| {
            Some(Slash::System(
                text.map(|text| (text != "off").then(|| text.to_owned())),
            ))
        },
    ),
    entry(
        "/temp",
        Text("X"),
        Runs,
        "temperature of the next answers; 0: the most probable token",
        |word| optional(word).map(Slash::Temperature),
    ),
    entry(
        "/top-p",
        Text("P"),
        Runs,
        "draw from the most probable tokens that reach this share",
        |word| optional(word).map(Slash::TopP),
    ),
    entry(
        "/seed",
        Text("N"),
        Runs,
        "where drawing begins: the same seed, the same answer",
        |word| optional(word).map(Slash::Seed),
    ),
    entry(
        "/search",
        Text("TEXT"),
        Runs,
        "find a text; F7 goes to the one before, F8 to the next",
        |text| Some(Slash::Search(text.map(str::to_owned))),
    ),
    entry(
        "/copy",
        Text("answer|think|all|N"),
        Runs,
        "copy the last answer, or its code block N",
        |word| {
            word.map_or(Some(Copied::Answer), |word| word.parse().ok())
                .map(Slash::Copy)
        },
    ),
    entry(
        "/export",
        Text("FILE"),
        Runs,
        "write the conversation to a file, as markdown",
        |file| file.map(|file| Slash::Export(file.to_owned())),
    ),
    entry(
        "/save",
        Text("FILE"),
        Runs,
        "write the conversation to a file, as /load reads it",
        |file| file.map(|file| Slash::Save(file.to_owned())),
    ),
    entry(
        "/load",
        Text("FILE"),
        Waits,
        "go over to the conversation in a file; all of it is read",
        |file| file.map(|file| Slash::Load(file.to_owned())),
    ),
    entry(
        "/sessions",
        Nothing,
        Waits,
        "conversations that are kept: Enter goes over to one",
        |_| Some(Slash::Sessions),
    ),
    entry(
        "/rename",
        Text("NAME"),
        Runs,
        "give this conversation a name",
        |name| name.map(|name| Slash::Rename(name.to_owned())),
    ),
    entry(
        "/fork",
        Nothing,
        Waits,
        "go on in a copy of this conversation",
        |_| Some(Slash::Fork),
    ),
    entry("/stats", Nothing, Runs, "figures of this session", |_| {
        Some(Slash::Stats)
    }),
    entry(
        "/telemetry",
        Words(&["hold", "reset", "1s", "10s", "60s", "5min"]),
        Runs,
        "hold it still or let it go on; count from now; how far back charts go",
        |word| optional(word).map(Slash::Telemetry),
    ),
    entry(
        "/record",
        Text("FILE"),
        Runs,
        "write the telemetry of the last hour to a file: CSV, or lines of JSON for .jsonl",
        |file| file.map(|file| Slash::Record(file.to_owned())),
    ),
    entry(
        "/theme",
        Words(&["auto", "dark", "light", "contrast", "mono"]),
        Runs,
        "the looks",
        |word| optional(word).map(Slash::Theme),
    ),
    entry(
        "/raw",
        Nothing,
        Runs,
        "answers as they came, or as markdown again",
        |_| Some(Slash::Raw),
    ),
    entry(
        "/settings",
        Nothing,
        Runs,
        "the settings file in the editor; holds from the next start",
        |_| Some(Slash::Settings),
    ),
    entry(
        "/quit",
        Nothing,
        Runs,
        "leave; what was answered so far is kept",
        |_| Some(Slash::Quit),
    ),
    Entry {
        alias: true,
        ..entry("/exit", Nothing, Runs, "the same as /quit", |_| {
            Some(Slash::Quit)
        })
    },
];

/// With more words than this, a list of commands shows that there are some and not which.
const MANY: usize = 3;

impl Entry {
    /// How it is typed, with its argument.
    pub fn usage(&self) -> String {
        match self.argument {
            Argument::None => self.name.to_owned(),
            Argument::Text(name) => format!("{} {name}", self.name),
            Argument::Words(words) if words.len() > MANY => format!("{} NAME", self.name),
            Argument::Words(words) => format!("{} {}", self.name, words.join("|")),
        }
    }

    /// What it does, and whether it waits for the end of a running answer.
    pub fn explained(&self) -> String {
        match self.busy {
            Busy::Runs => self.help.to_owned(),
            Busy::Waits => format!("{}; not while an answer runs", self.help),
        }
    }

    fn words(&self) -> &'static [&'static str] {
        match self.argument {
            Argument::Words(words) => words,
            Argument::None | Argument::Text(_) => &[],
        }
    }
}

/// What a draft asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// A message for the model.
    Text(String),
    /// A command.
    Run(Slash, Busy),
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
    let (name, argument) = draft.split_once(char::is_whitespace).unwrap_or((draft, ""));
    let Some(entry) = TABLE.iter().find(|entry| entry.name == name) else {
        return Parsed::Wrong(format!(
            "{name} is no command; /help lists them. To send it as text, start with two slashes: /{name}"
        ));
    };
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    let made = match (entry.argument, argument) {
        (Argument::None, Some(_)) => {
            return Parsed::Wrong(format!("{name} takes nothing after it."));
        }
        _ => (entry.make)(argument),
    };
    match (made, entry.argument) {
        (Some(slash), _) => Parsed::Run(slash, entry.busy),
        (None, Argument::Words(words)) => {
            Parsed::Wrong(format!("Type {name} {}.", words.join(" or ")))
        }
        (None, _) => Parsed::Wrong(format!("Type {}.", entry.usage())),
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
            .flat_map(|entry| entry.words().iter().map(move |word| (entry, word)))
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
        draft: match entry.argument {
            Argument::None => entry.name.to_owned(),
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
            let typed = match entry.argument {
                Argument::Text("FILE" | "NAME" | "TEXT") => format!("{} a b", entry.name),
                Argument::Text(_) => format!("{} 1", entry.name),
                Argument::None | Argument::Words(_) => entry.name.to_owned(),
            };
            assert!(
                matches!(parse(&typed), Parsed::Run(_, busy) if busy == entry.busy),
                "{typed}"
            );
            for word in entry.words() {
                let typed = format!("{} {word} ", entry.name);
                assert!(matches!(parse(&typed), Parsed::Run(..)), "{typed}");
            }
            if !matches!(entry.argument, Argument::Text("FILE" | "NAME" | "TEXT")) {
                let wrong = format!("{} x", entry.name);
                assert!(matches!(parse(&wrong), Parsed::Wrong(_)), "{wrong}");
            }
            assert_ne!(completions(entry.name), []);
        }
        let run = |slash| Parsed::Run(slash, Busy::Runs);
        assert_eq!(
            parse("/effort high"),
            run(Slash::Effort(Some(Effort::High)))
        );
        assert_eq!(parse("/exit"), run(Slash::Quit));
        assert_eq!(parse("/temp 0.7"), run(Slash::Temperature(Some(0.7))));
        assert_eq!(parse("/copy 2"), run(Slash::Copy(Copied::Code(2))));
        assert_eq!(
            parse("/search two  words"),
            run(Slash::Search(Some("two  words".to_owned())))
        );
        let system = |text| Parsed::Run(Slash::System(text), Busy::Waits);
        assert_eq!(
            parse("/system Be\nkind."),
            system(Some(Some("Be\nkind.".to_owned())))
        );
        assert_eq!(parse("/system off"), system(Some(None)));
        assert_eq!(parse("/system"), system(None));
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
        assert_eq!(parse("/load"), Parsed::Wrong("Type /load FILE.".to_owned()));
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
        let all = drafts("/");
        assert_eq!(all.len(), TABLE.iter().filter(|entry| !entry.alias).count());
        assert_eq!(all[..2], ["/help", "/reset"]);
        assert_eq!(drafts("/ef"), ["/effort "]);
        assert_eq!(drafts("/exi"), ["/exit"]);
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
