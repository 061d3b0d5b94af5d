//! HTTP with a server: connections, headers, and errors as faults. Nothing is followed, nothing is sent twice, and no connection
//! is kept: an answer takes long enough to be worth its own.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Error, Timeout};

use super::chunk::message_of;
use super::discreet::discreet;
use super::retry::retry_after;
use super::{Fault, Server};
use crate::text::Message;

/// How long a server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until there is a connection, a safe one where it is to be safe.
    pub connect: Duration,
    /// For all of something small, such as the list of models.
    pub small: Duration,
    /// Until the first of an answer: it may have to wait for others, and a long prompt takes its time.
    pub first: Duration,
    /// From one part of an answer to the next.
    pub between: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            small: Duration::from_secs(20),
            first: Duration::from_secs(1800),
            between: Duration::from_secs(180),
        }
    }
}

/// Bytes of an error's body that are looked at.
const ERROR_BODY: u64 = 64 << 10;

/// Bytes of anything else that does not come as a stream.
const WHOLE_BODY: u64 = 16 << 20;

/// One who speaks with a server.
#[derive(Clone, Debug)]
pub(super) struct Client {
    server: Server,
    patience: Patience,
}

/// A status that is no success, and which field it is about, if the server says that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub fault: Fault,
    pub field: Option<String>,
    /// What the server said, with what it quotes. Not to be shown.
    pub words: String,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            field: None,
            words: String::new(),
        }
    }
}

impl Client {
    /// For this server.
    pub fn new(server: Server, patience: Patience) -> Self {
        Self { server, patience }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// How long it is waited for.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// Who makes one request, and can be shut down in the middle of it.
    pub fn agent(&self) -> Agent {
        let tls = TlsConfig::builder();
        let tls = match self.server.roots() {
            Some(roots) => tls.root_certs(RootCerts::Specific(Arc::clone(roots))),
            None => tls,
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            .timeout_resolve(Some(self.patience.connect))
            .timeout_connect(Some(self.patience.connect))
            .user_agent(concat!("k3-tui/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build());
        let config = match self.server.is_here() {
            true => config.proxy(None),
            false => config,
        };
        config.build().new_agent()
    }

    /// The text at an address of the server.
    ///
    /// # Errors
    /// There is none, or it is far too long.
    pub fn fetch(&self, address: &str) -> Result<String, Fault> {
        let agent = self.agent();
        let mut request = agent
            .get(address)
            .config()
            .timeout_global(Some(self.patience.small))
            .build();
        if let Some(key) = self.server.key() {
            request = request.header("Authorization", key.bearer());
        }
        let response = request.call().map_err(|error| self.unanswered(&error))?;
        let response = self.success(response, &[]).map_err(|no| no.fault)?;
        self.whole(response)
    }

    /// Asks for an answer. Gives it as soon as its head is there.
    ///
    /// # Errors
    /// Whatever is not the head of an answer.
    pub fn ask(
        &self,
        agent: &Agent,
        body: &str,
        messages: &[Message],
    ) -> Result<Response<Body>, Refusal> {
        let mut request = agent
            .post(self.server.api("/chat/completions"))
            .content_type("application/json")
            .header("Accept", "text/event-stream");
        if let Some(key) = self.server.key() {
            request = request.header("Authorization", key.bearer());
        }
        let response = request
            .send(body)
            .map_err(|error| self.unanswered(&error))?;
        self.success(response, messages)
    }

    /// All of a body that does not come as a stream.
    ///
    /// # Errors
    /// It is far too long, or does not come to its end.
    pub fn whole(&self, response: Response<Body>) -> Result<String, Fault> {
        let body = response.into_body().into_with_config();
        match body.limit(WHOLE_BODY).lossy_utf8(true).read_to_string() {
            Ok(text) => Ok(text),
            Err(Error::BodyExceedsLimit(most)) => {
                Err(self.garbled(&format!("more than {most} bytes")))
            }
            Err(error) => Err(self.broken(&error.to_string())),
        }
    }

    /// The response, if it is a success.
    fn success(
        &self,
        response: Response<Body>,
        messages: &[Message],
    ) -> Result<Response<Body>, Refusal> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let host = self.host();
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        if status.is_redirection() {
            let to = header("Location").unwrap_or("another address");
            // Its path may hold anything.
            let to = to.split(['?', '#']).next().unwrap_or_default();
            let to = discreet(to, self.server.key(), messages);
            return Err(Fault::Redirected { host, to }.into());
        }
        let retry_after =
            header("Retry-After").and_then(|text| retry_after(text, SystemTime::now()));
        let body = response.into_body().into_with_config();
        let body = body.limit(ERROR_BODY).lossy_utf8(true).read_to_string();
        let body = body.unwrap_or_default();
        let json: Option<Value> = serde_json::from_str(&body).ok();
        let words = match &json {
            Some(json) => message_of(json),
            // A page for people is of no use in a line.
            None if body.trim_start().starts_with('<') => String::new(),
            None => body,
        };
        let field = json.as_ref().and_then(super::chunk::field_of);
        Err(Refusal {
            field: field.map(str::to_owned),
            fault: Fault::Status {
                host,
                status: status.as_u16(),
                message: discreet(&words, self.server.key(), messages),
                retry_after,
            },
            words,
        })
    }

    /// What an error is before there was an answer.
    fn unanswered(&self, error: &Error) -> Fault {
        let host = self.host();
        let unsafe_ = |why: String| Fault::Unsafe {
            host: host.clone(),
            why,
        };
        let why = match error {
            Error::Rustls(error) => return unsafe_(error.to_string()),
            Error::Tls(why) => return unsafe_((*why).to_owned()),
            Error::Pem(error) => return unsafe_(error.to_string()),
            // What the encryption has to say about the other end comes as this kind.
            Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return unsafe_(error.to_string());
            }
            Error::Io(error) => error.to_string(),
            Error::HostNotFound => "there is no such host".to_owned(),
            Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                format!("no connection within {} s", self.patience.connect.as_secs())
            }
            Error::Timeout(_) => {
                return Fault::Silent {
                    host,
                    after: self.patience.small,
                };
            }
            Error::Protocol(_) | Error::Http(_) | Error::LargeResponseHeader(..) => {
                return self.garbled("it does not speak HTTP as it should");
            }
            other => other.to_string(),
        };
        Fault::Unreachable {
            host,
            why: discreet(&why, self.server.key(), &[]),
        }
    }

    /// What came is no answer.
    pub fn garbled(&self, why: &str) -> Fault {
        Fault::Garbled {
            host: self.host(),
            why: why.to_owned(),
        }
    }

    /// The connection ended early.
    pub fn broken(&self, why: &str) -> Fault {
        Fault::Broken {
            host: self.host(),
            why: discreet(why, self.server.key(), &[]),
        }
    }

    /// Whom faults name.
    pub fn host(&self) -> String {
        self.server.host().to_owned()
    }
}
