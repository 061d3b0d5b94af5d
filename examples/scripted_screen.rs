//! The screen on an engine that plays a script instead of computing: for trying the screen and for its tests in a real
//! terminal. Shows nothing about the model.
//!
//! `cargo run --example scripted_screen [MILLISECONDS A TOKEN]`, then type one of: `long`, `escape`, `drop`, `panic`,
//! `stop`, `hold` (an answer that waits to be stopped), or anything else.

#![allow(clippy::panic)]

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, never};
use k3::chat::Sampling;
use k3::engine::telemetry::{ExpertFigures, SlotState};
use k3::engine::{
    Activity, Command, EVENT_CAPACITY, Ended, Event, Handle, ModelFacts, TelemetryCell, TurnFacts,
};
use k3::text::{Channel, Effort};
use k3::tui;

fn main() -> std::process::ExitCode {
    let argument = std::env::args().nth(1);
    let pace = argument.and_then(|text| text.parse().ok()).unwrap_or(60);
    let (commands, receiver) = bounded(16);
    let (events, screen) = bounded(EVENT_CAPACITY);
    let telemetry = TelemetryCell::default();
    let handle = Handle {
        commands,
        events: screen,
        telemetry: telemetry.clone(),
    };
    let engine = Engine {
        commands: receiver,
        events,
        telemetry,
        pace: Duration::from_millis(pace),
        effort: Some(Effort::Max),
        positions: 0,
    };
    std::thread::spawn(move || engine.run());
    match tui::run(handle, tui::Options::from_environment()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scripted_screen: {error:#}");
            k3::cli::Exit::code(&error).into()
        }
    }
}

/// What a command did to a running turn.
enum Went {
    On,
    Cancelled,
    Reset,
    Quit,
}

struct Engine {
    commands: Receiver<Command>,
    events: Sender<Event>,
    telemetry: TelemetryCell,
    pace: Duration,
    effort: Option<Effort>,
    positions: usize,
}

impl Engine {
    fn run(mut self) {
        self.say(Event::Ready {
            model: ModelFacts {
                name: "scripted".to_owned(),
                demo: true,
                layers: 93,
                context: 8192,
                server: None,
            },
            messages: Vec::new(),
            effort: self.effort,
            open: None,
            sampling: Sampling::Greedy,
            history: None,
        });
        self.telemetry.set(|t| {
            t.activity = Activity::Idle;
            t.positions = (0, 8192);
        });
        while let Ok(command) = self.commands.recv() {
            let went = match command {
                Command::Send(text) => self.turn(text),
                other => self.answer(other, false),
            };
            match went {
                Went::Quit => return self.say(Event::Stopped(None)),
                Went::Reset => self.say(Event::Reset {
                    messages: Vec::new(),
                }),
                Went::On | Went::Cancelled => {}
            }
        }
    }

    fn thinking_is(&self) {
        self.say(Event::ThinkingIs {
            effort: self.effort,
            cost: None,
        });
    }

    fn say(&self, event: Event) {
        // A screen that is gone hears nothing.
        let _ = self.events.send(event);
    }

    fn answer(&mut self, command: Command, busy: bool) -> Went {
        match command {
            Command::Send(_) => self.say(Event::Refused("a turn is running".to_owned())),
            Command::Cancel if busy => return Went::Cancelled,
            Command::Cancel => self.say(Event::Refused("no turn is running".to_owned())),
            Command::Reset => return Went::Reset,
            Command::Quit => return Went::Quit,
            Command::Pause
            | Command::Continue
            | Command::Regenerate
            | Command::Undo
            | Command::System(_)
            | Command::Budget(_)
            | Command::Offers
            | Command::Load(_) => self.say(Event::Refused("not in the script".to_owned())),
            Command::Sampling(sampling) => self.say(Event::SamplingIs(sampling)),
            Command::Preset(preset) => self.say(Event::Planned {
                preset,
                total_bytes: 1_234_000_000,
                trunk_read: 111_000_000_000,
            }),
            Command::Effort(effort) => {
                self.effort = Some(effort);
                self.thinking_is();
            }
            Command::Think(on) => {
                self.effort = on.then_some(self.effort.unwrap_or(Effort::Max));
                self.thinking_is();
            }
        }
        Went::On
    }

    /// Waits for a token's time, and answers what is asked meanwhile.
    fn token(&mut self, layer: usize) -> Went {
        self.positions += 1;
        let positions = self.positions;
        self.telemetry.set(|t| {
            t.layer = Some((layer % 93 + 1, 93));
            t.trunk.second = Some(3.0 + (layer % 7) as f64 / 10.0);
            t.trunk.ten = Some(3.3);
            t.slots = (0..4_usize)
                .map(|slot| match (slot + layer) % 4 {
                    0 => SlotState::Computing,
                    1 => SlotState::Ready,
                    2 => SlotState::Empty,
                    _ => SlotState::Reading {
                        percent: (layer % 101) as u8,
                    },
                })
                .collect();
            let kept = (layer % 50) as u64;
            t.expert_figures = Some(ExpertFigures {
                requested: (100, 100_000),
                retained: (25 + kept, 1000 * (25 + kept)),
                read: (75 - kept, 1000 * (75 - kept)),
            });
            t.positions = (positions, 8192);
            t.tokens_per_minute = Some(984.0);
            t.rss_bytes = Some(1_234_000_000);
        });
        loop {
            match self.commands.recv_timeout(self.pace) {
                Ok(command) => match self.answer(command, true) {
                    Went::On => {}
                    went => return went,
                },
                Err(RecvTimeoutError::Timeout) => return Went::On,
                Err(RecvTimeoutError::Disconnected) => return Went::Quit,
            }
        }
    }

    fn turn(&mut self, user: String) -> Went {
        let prompt = user.split_whitespace().count() + 4;
        self.say(Event::TurnStarted {
            user: user.clone(),
            prompt_tokens: prompt,
        });
        let mut tokens = [0, 0];
        let mut went = Went::On;
        for done in 0..prompt {
            self.telemetry.set(|t| {
                t.activity = Activity::Prefill { done, of: prompt };
            });
            went = self.token(done);
            if !matches!(went, Went::On) {
                break;
            }
        }
        self.telemetry.set(|t| t.activity = Activity::Decode);
        let mut ended = Ended::Finished;
        let script = script(&user, self.effort.is_some());
        let mut script = script.iter().enumerate();
        while let (Went::On, Some((index, (channel, text)))) = (&went, script.next()) {
            went = self.token(index);
            tokens[usize::from(*channel == Channel::Response)] += 1;
            self.say(Event::Delta {
                channel: Some(*channel),
                text: text.clone(),
            });
        }
        match (user.as_str(), &went) {
            ("panic", Went::On) => panic!("planted in the engine's thread"),
            ("stop", Went::On) => {
                self.say(Event::Stopped(Some("the script says so".to_owned())));
                // The thread lives on, so that nothing but its word is told.
                let _ = never::<()>().recv();
            }
            ("hold", Went::On) => {
                while let Went::On = went {
                    went = self.token(0);
                }
            }
            ("drop", Went::On) => {
                self.telemetry.set(|t| t.drops += 1);
                ended = Ended::Failed("an expert of layer 47 could not be read".to_owned());
            }
            _ => {}
        }
        if !matches!(went, Went::On) {
            ended = Ended::Cancelled;
        }
        self.telemetry.set(|t| t.activity = Activity::Idle);
        self.say(Event::TurnEnded(TurnFacts {
            think_tokens: tokens[0],
            response_tokens: tokens[1],
            seconds_prefill: 0.5,
            seconds_decode: 2.0,
            positions: self.positions,
            ..TurnFacts::nothing(ended)
        }));
        went
    }
}

/// The tokens of an answer.
fn script(user: &str, think: bool) -> Vec<(Channel, String)> {
    let reasoning =
        "The person wrote something. A short answer will do, and it should say what was asked.";
    let answer = match user {
        "long" => (1..80)
            .map(|line| {
                format!(
                    "{line}: streaming 漢字 and café 👩‍🚀 from disk, one segment after the other.\n"
                )
            })
            .collect(),
        "escape" => "before \u{1b}[2J\u{1b}[31m\u{7} \u{1b}]0;title\u{7} after\ttab".to_owned(),
        "hold" => "Waiting.".to_owned(),
        _ => format!("You wrote: {user}. This answer comes from a script, word by word."),
    };
    let mut tokens = Vec::new();
    if think {
        tokens.extend(words(Channel::Think, reasoning));
    }
    tokens.extend(words(Channel::Response, &answer));
    tokens
}

fn words(channel: Channel, text: &str) -> impl Iterator<Item = (Channel, String)> {
    text.split_inclusive(' ')
        .map(move |word| (channel, word.to_owned()))
}
