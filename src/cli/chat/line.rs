//! A line that was typed: a command, or something to say. Nothing is carried out here.

use crate::chat::{Draw, Sampling};
use crate::cli::sampling::{clock, seed, temperature};
use crate::engine::Command;
use crate::text::Effort;

/// All commands.
pub(super) const HELP: &str = "Commands of a chat, a line each; every other line is said as it is:
/help        this list
/reset       forget the conversation
/continue    go on with an answer that was stopped or cut
/regen       answer the last message anew
/undo        take the last message and its answer back
/effort E    think low, high or max
/think on    think before answering; `/think off` answers at once
/system TEXT what holds for the whole conversation; without TEXT nothing does
/temp X      draw tokens with this temperature; 0 takes the most probable
/seed N      draw tokens from this seed
/preset P    take the memory of another preset
/exit        end, as the end of the input does; Ctrl-C stops an answer";

/// What a line asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Nothing,
    Exit,
    /// Something to tell the person.
    Say(String),
    Ask(Command),
}

/// Reads a line. `sampling` is what is in force, for commands that change a part of it.
pub(super) fn parse(line: &str, sampling: Sampling) -> Line {
    if let Some(text) = line.strip_prefix("/system")
        && (text.is_empty() || text.starts_with([' ', '\t']))
    {
        let text = text.trim();
        return Line::Ask(Command::System((!text.is_empty()).then(|| text.into())));
    }
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Line::Nothing,
        (Some("/exit" | "/quit"), None, _) => Line::Exit,
        (Some("/continue"), None, _) => Line::Ask(Command::Continue),
        (Some("/regen"), None, _) => Line::Ask(Command::Regenerate),
        (Some("/undo"), None, _) => Line::Ask(Command::Undo),
        (Some("/help"), None, _) => Line::Say(HELP.into()),
        (Some("/reset"), None, _) => Line::Ask(Command::Reset),
        (Some("/effort"), Some(word), None) => asked(word.parse::<Effort>(), Command::Effort),
        (Some("/preset"), Some(word), None) => asked(word.parse(), Command::Preset),
        (Some("/think"), Some("on"), None) => Line::Ask(Command::Think(true)),
        (Some("/think"), Some("off"), None) => Line::Ask(Command::Think(false)),
        (Some("/temp"), Some("0"), None) => Line::Ask(Command::Sampling(Sampling::Greedy)),
        (Some("/temp"), Some(word), None) => asked(temperature(word), |temperature| {
            let draw = draw(sampling).unwrap_or_else(|| Draw::new(clock()));
            drawing(Draw {
                temperature,
                ..draw
            })
        }),
        (Some("/seed"), Some(word), None) => asked(seed(word), |seed| {
            let draw = draw(sampling).unwrap_or_else(|| Draw::new(seed));
            drawing(Draw { seed, ..draw })
        }),
        (Some("/effort" | "/think" | "/preset" | "/temp" | "/seed"), ..) => Line::Say(HELP.into()),
        // As in the C engine, any other line is what it says, a leading slash or not.
        _ => Line::Ask(Command::Send(line.to_owned())),
    }
}

/// A command with a value, or what is wrong with it.
fn asked<T>(value: Result<T, String>, command: impl FnOnce(T) -> Command) -> Line {
    match value {
        Ok(value) => Line::Ask(command(value)),
        Err(why) => Line::Say(why),
    }
}

fn draw(sampling: Sampling) -> Option<Draw> {
    match sampling {
        Sampling::Greedy => None,
        Sampling::Draw(draw) => Some(draw),
    }
}

fn drawing(draw: Draw) -> Command {
    Command::Sampling(Sampling::Draw(draw))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Line {
        parse(line, Sampling::Greedy)
    }

    #[test]
    fn every_command_of_the_list_is_one() {
        let listed: Vec<&str> = HELP
            .lines()
            .filter_map(|line| line.split(' ').next())
            .filter(|word| word.starts_with('/'))
            .collect();
        assert_eq!(listed.len(), 12, "{listed:?}");
        for command in listed {
            // With a value where one is needed; the first that fits.
            let with =
                ["", " low", " off", " 1", " ultra"].map(|value| format!("{command}{value}"));
            let means_something = |line: &String| {
                let said = Line::Ask(Command::Send(line.clone()));
                let shrug = command != "/help" && read(line) == Line::Say(HELP.into());
                read(line) != said && !shrug
            };
            assert!(with.iter().any(means_something), "{command}");
        }
    }

    #[test]
    fn everything_else_is_said_as_it_is() {
        for line in [
            "hello",
            " /exit now",
            "/exit now",
            "/systematic",
            "/",
            "/nope",
        ] {
            assert_eq!(read(line), Line::Ask(Command::Send(line.into())));
        }
        assert_eq!(read(" \t"), Line::Nothing);
    }

    #[test]
    fn the_system_message_is_set_and_removed() {
        let system = |text: &str| Line::Ask(Command::System(Some(text.into())));
        assert_eq!(read("/system Be  kind. "), system("Be  kind."));
        assert_eq!(read("/system "), Line::Ask(Command::System(None)));
        assert_eq!(read("/system"), Line::Ask(Command::System(None)));
    }

    #[test]
    fn a_part_of_the_sampling_is_changed_and_the_rest_stays() {
        let Line::Ask(Command::Sampling(Sampling::Draw(drawn))) = read("/seed 7") else {
            panic!("not drawn");
        };
        assert_eq!(drawn, Draw::new(7));
        let warm = Draw {
            temperature: 0.5,
            ..drawn
        };
        let asked = |draw| Line::Ask(Command::Sampling(Sampling::Draw(draw)));
        assert_eq!(parse("/temp 0.5", Sampling::Draw(drawn)), asked(warm));
        let other = Draw { seed: 8, ..warm };
        assert_eq!(parse("/seed 8", Sampling::Draw(warm)), asked(other));
        let greedy = Line::Ask(Command::Sampling(Sampling::Greedy));
        assert_eq!(parse("/temp 0", Sampling::Draw(warm)), greedy);
        for wrong in ["/temp -1", "/temp x", "/seed 1.5", "/effort medium"] {
            assert!(matches!(read(wrong), Line::Say(_)), "{wrong}");
        }
    }
}
