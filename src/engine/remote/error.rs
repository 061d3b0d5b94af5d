//! What can go wrong with a server. Every message says what to do, and none holds a key or what a person wrote.

use std::time::Duration;

use super::events::TooLong;

/// A fault of a server, or on the way to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No connection, or one that ended before anything came.
    #[error("{host} cannot be reached: {why}; is the server running, and the address right?")]
    Unreachable {
        /// Whom.
        host: String,
        /// What the system said.
        why: String,
    },
    /// Its certificate is not to be trusted, or the encryption failed.
    #[error(
        "{host}: no safe connection: {why}; nothing was sent. For a certificate of your own, name its file as ca_file in the settings"
    )]
    Unsafe {
        /// Whose.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// It answered with a status that is no success.
    #[error("{host} answered {status}{}{}", said(message), advice(*status))]
    Status {
        /// Who.
        host: String,
        /// The status.
        status: u16,
        /// What it said, without what was sent to it.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// It sends elsewhere, which is not followed: a key is for one server.
    #[error(
        "{host} sends on to {to}, which is not followed; if that is the server, give its address"
    )]
    Redirected {
        /// Who.
        host: String,
        /// Where to.
        to: String,
    },
    /// It said nothing for too long.
    #[error("{host} said nothing for {} s", after.as_secs())]
    Silent {
        /// Who.
        host: String,
        /// For how long.
        after: Duration,
    },
    /// The connection ended before the answer did.
    #[error(
        "the connection to {host} ended in the middle of the answer{}",
        said(why)
    )]
    Broken {
        /// Whom.
        host: String,
        /// What the system said; empty if it said nothing.
        why: String,
    },
    /// What came is not what the protocol says.
    #[error("{host} sent something that is no answer: {why}")]
    Garbled {
        /// Who.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// It says itself that it failed.
    #[error("{host} failed: {message}")]
    Failed {
        /// Who.
        host: String,
        /// What it said, without what was sent to it.
        message: String,
    },
    /// None of its models, or not which of them, can be meant.
    #[error("{host}: {why}")]
    Model {
        /// Who.
        host: String,
        /// What is wrong, and what there is.
        why: String,
    },
}

/// A server's words behind a colon, if it said any.
fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

/// What to do about a status.
fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => {
            "; it wants another key: K3_API_KEY for --remote, key_env or key_file in the settings for a server that is named there"
        }
        404 => "; is the address that of an OpenAI-compatible API, and the model's name right?",
        429 => "; it has too much to do, try again later",
        500.. => "; look into the server's log",
        _ => "",
    }
}

impl Fault {
    /// Too long a line, of this server.
    pub(super) fn too_long(host: &str, long: &TooLong) -> Self {
        Self::Garbled {
            host: host.to_owned(),
            why: long.to_string(),
        }
    }

    /// Whether asking again may help: it was not reached, or had too much to do, or failed before it said anything.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// How long it asks to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_who_what_and_what_to_do() {
        let fault = Fault::Status {
            host: "box:8000".into(),
            status: 401,
            message: "Unauthorized".into(),
            retry_after: None,
        };
        let text = fault.to_string();
        assert!(text.starts_with("box:8000 answered 401: Unauthorized; it wants another key"));
        assert!(!fault.may_pass());
        let fault = Fault::Status {
            host: "box".into(),
            status: 503,
            message: String::new(),
            retry_after: Some(Duration::from_secs(3)),
        };
        assert_eq!(
            fault.to_string(),
            "box answered 503; look into the server's log"
        );
        assert!(fault.may_pass() && fault.retry_after() == Some(Duration::from_secs(3)));
    }
}
