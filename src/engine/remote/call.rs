//! An answer under way: a thread that reads it, and a channel that what it says comes through. Closing it ends the connection at
//! once, wherever it is.

use std::io::Read;

use crossbeam_channel::{Receiver, Sender, bounded};
use ureq::http::Response;
use ureq::{Agent, Body};

use super::chunk::{self, Piece};
use super::client::{Client, Refusal};
use super::discreet::discreet;
use super::{Events, Fault};
use crate::text::Message;

/// What is read and not taken yet. A reader that takes none holds the server up.
const WAITING: usize = 256;

/// Bytes that are read at a time.
const READ: usize = 16 << 10;

/// What ends a stream of chunks.
const DONE: &str = "[DONE]";

/// What comes of an answer, in order; one of the last two is the last.
#[derive(Debug)]
pub(super) enum Heard {
    /// Something came that says nothing: the head, a comment.
    Alive,
    /// What a chunk says.
    Pieces(Vec<Piece>),
    /// There is no answer.
    Refused(Refusal),
    /// The answer has ended, or was broken off.
    Ended(Result<(), Fault>),
}

/// An answer under way.
#[derive(Debug)]
pub(super) struct Call {
    agent: Agent,
    /// What it says.
    pub heard: Receiver<Heard>,
}

impl Call {
    /// Asks for an answer to these messages with this body.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn start(client: &Client, body: String, messages: Vec<Message>) -> std::io::Result<Self> {
        let agent = client.agent();
        let (told, heard) = bounded(WAITING);
        let call = Self {
            agent: agent.clone(),
            heard,
        };
        let client = client.clone();
        std::thread::Builder::new()
            .name("k3-answer".into())
            .spawn(move || {
                let reading = Reading {
                    client: &client,
                    messages: &messages,
                    told: &told,
                };
                let last = match client.ask(&agent, &body, &messages) {
                    Ok(response) => Heard::Ended(reading.read(response)),
                    Err(refusal) => Heard::Refused(refusal),
                };
                // Whoever closed the call does not listen any more.
                let _ = told.send(last);
            })?;
        Ok(call)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.agent.clone().shutdown();
    }
}

/// The thread's side.
struct Reading<'a> {
    client: &'a Client,
    messages: &'a [Message],
    told: &'a Sender<Heard>,
}

impl Reading<'_> {
    fn read(&self, response: Response<Body>) -> Result<(), Fault> {
        let kind = response.headers().get("Content-Type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "text/event-stream" | "" => self.stream(response),
            // A server that does not stream: all at once.
            "application/json" => {
                let text = self.client.whole(response)?;
                self.chunk(&text).map(drop)
            }
            other => Err(self.client.garbled(&format!(
                "{:?} instead of a stream of events",
                discreet(other, None, &[])
            ))),
        }
    }

    fn stream(&self, response: Response<Body>) -> Result<(), Fault> {
        self.tell(Heard::Alive);
        let mut body = response.into_body().into_reader();
        let (mut events, mut bytes) = (Events::default(), [0; READ]);
        let mut finished = false;
        loop {
            let count = match body.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                // Whole as far as the chat goes: only what says so is missing.
                Err(_) if finished => break,
                Err(error) => return Err(self.client.broken(&error.to_string())),
            };
            let host = self.client.host();
            let came = events
                .push(&bytes[..count])
                .map_err(|long| Fault::too_long(&host, &long))?;
            if came.is_empty() {
                self.tell(Heard::Alive);
            }
            for event in came {
                if event.data.trim() == DONE {
                    return Ok(());
                }
                finished |= self.chunk(&event.data)?;
            }
        }
        match finished {
            true => Ok(()),
            false => Err(self.client.broken("")),
        }
    }

    /// Tells what a chunk says; whether it ends the answer.
    fn chunk(&self, json: &str) -> Result<bool, Fault> {
        let pieces = chunk::read(json).map_err(|why| self.client.garbled(&why))?;
        let mut finished = false;
        for piece in &pieces {
            match piece {
                Piece::Failed(words) => {
                    let message = discreet(words, self.client.server().key(), self.messages);
                    return Err(Fault::Failed {
                        host: self.client.host(),
                        message: match message.as_str() {
                            "" => "it does not say why".to_owned(),
                            _ => message,
                        },
                    });
                }
                Piece::Finish(_) => finished = true,
                _ => {}
            }
        }
        self.tell(Heard::Pieces(pieces));
        Ok(finished)
    }

    fn tell(&self, heard: Heard) {
        // A call that was closed ends at its next read.
        let _ = self.told.send(heard);
    }
}
