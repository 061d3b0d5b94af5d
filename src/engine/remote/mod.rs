//! A model that runs on a server, for people who have outgrown one computer: the engine's protocol over an OpenAI-compatible
//! API (vLLM, SGLang). Conversation, history and screen are those of the model on this computer; nothing is computed here.
//!
//! A [`Server`] is an address with a [`Key`]. The [`client`] speaks HTTP; a [`call`] is one answer under way, whose bytes
//! [`events`] cuts into server-sent events and [`chunk`] reads. [`request`] says what is asked, [`channels`] separates
//! reasoning from answer where the server does not, [`answer`] puts both together. [`thread`] is the engine; [`retry`] says
//! when it asks again, and [`poll`] looks at the server's [`metrics`] beside it.

mod answer;
mod call;
mod channels;
mod chunk;
mod client;
mod discreet;
mod error;
mod events;
pub mod figures;
mod key;
mod metrics;
mod models;
mod poll;
mod request;
mod retry;
mod server;
mod thread;

pub use client::Patience;
pub use error::Fault;
pub use events::{Events, ServerEvent, TooLong};
pub use key::{Key, KeyError};
pub use retry::Retry;
pub use server::{AddressError, Server};
pub use thread::{Opening, start};
