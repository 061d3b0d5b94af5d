//! Which server, and how a chat with it begins: from the flags of `k3-tui` and its settings. Everything is checked before the
//! screen opens; the server itself is spoken to later.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::Exit;
use super::model::ChatArgs;
use crate::chat::{Draw, Limits, Sampling, Store};
use crate::engine::remote::{Key, Opening, Patience, Retry, Server};

/// A server to chat with.
#[derive(Args, Clone, Debug, Default)]
pub struct RemoteArgs {
    /// Use the model of a server with an OpenAI-compatible API, by its address or its name in the settings
    #[arg(long, value_name = "URL")]
    pub remote: Option<String>,
    /// The server's model, where it has several
    #[arg(
        long = "model",
        value_name = "NAME",
        id = "served",
        requires = "remote"
    )]
    pub served: Option<String>,
}

/// A server that a model runs on, as the settings name it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Its address, with or without `/v1`.
    pub url: String,
    /// The model, where it has several.
    pub model: Option<String>,
    /// The variable of the environment that holds its key.
    pub key_env: Option<String>,
    /// The file that holds its key, which its owner alone may read.
    pub key_file: Option<PathBuf>,
    /// The certificates that it is believed by, instead of those of the browsers.
    pub ca_file: Option<PathBuf>,
}

fn refused(error: impl std::fmt::Display) -> Exit {
    Exit::Refused(error.to_string())
}

impl ServerSettings {
    /// The server, with its key. A key in `K3_API_KEY` is not for it: that one is for the address on the command line.
    ///
    /// # Errors
    /// Its address, key or certificates cannot be used.
    pub fn server(&self) -> Result<Server, Exit> {
        let key = match (&self.key_env, &self.key_file) {
            (Some(_), Some(_)) => {
                return Err(refused(format!(
                    "{}: key_env and key_file exclude each other in the settings of a server",
                    self.url
                )));
            }
            (Some(name), None) => Some(Key::from_variable(name).map_err(refused)?),
            (None, Some(path)) => Some(Key::from_file(path).map_err(refused)?),
            (None, None) => None,
        };
        let server = Server::new(&self.url)
            .map_err(refused)?
            .with_key(key)
            .with_model(self.model.clone());
        match &self.ca_file {
            Some(path) => server.with_certificates(path).map_err(refused),
            None => Ok(server),
        }
    }
}

/// The server at an address on the command line. Its key is in `K3_API_KEY`, if it needs one.
///
/// # Errors
/// It is no address, or there is no key in the variable.
pub fn at(address: &str, model: Option<String>) -> Result<Server, Exit> {
    let key = Key::from_environment().map_err(refused)?;
    let server = Server::new(address).map_err(refused)?;
    Ok(server.with_key(key).with_model(model))
}

impl ChatArgs {
    /// A chat with a server instead of a model here. Flags of this computer's memory have no meaning for it.
    ///
    /// # Errors
    /// The history cannot be opened, or a stop id is none.
    pub fn with_server(&self, server: Server) -> anyhow::Result<Opening> {
        let history = self.history.as_deref().map(Store::open).transpose()?;
        Ok(Opening {
            server,
            history,
            system: self.system.clone(),
            effort: (!self.no_think).then_some(self.thinking_effort),
            sampling: self.sampling.sampling(),
            limits: Limits {
                tokens: self.r#gen,
                // How many ids there are, the server knows.
                stop_ids: super::ids::stops(&self.stop_id, u32::MAX as usize)?,
            },
            patience: Patience::default(),
            retry: Retry::default(),
        })
    }

    /// Takes over how tokens are chosen.
    pub fn set_sampling(&mut self, sampling: Sampling) {
        self.sampling = match sampling {
            Sampling::Greedy => super::SamplingArgs {
                greedy: true,
                ..Default::default()
            },
            Sampling::Draw(Draw {
                temperature,
                top_p,
                top_k,
                seed,
            }) => super::SamplingArgs {
                temperature: Some(temperature),
                top_p: Some(top_p),
                top_k,
                seed: Some(seed),
                greedy: false,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_the_settings_is_checked_before_it_is_used() {
        let settings = |url: &str| ServerSettings {
            url: url.to_owned(),
            ..ServerSettings::default()
        };
        let server = settings("http://box:8000/v1").server().unwrap();
        assert_eq!(
            (server.base(), server.host()),
            ("http://box:8000", "box:8000")
        );
        let both = ServerSettings {
            key_env: Some("A".into()),
            key_file: Some("b".into()),
            ..settings("http://box")
        };
        let absent = ServerSettings {
            key_env: Some("K3_TEST_NO_SUCH_VARIABLE".into()),
            ..settings("http://box")
        };
        let missing = ServerSettings {
            key_file: Some("/nonexistent/key".into()),
            ..settings("http://box")
        };
        for (settings, part) in [
            (settings("box"), "no address"),
            (both, "exclude each other"),
            (absent, "K3_TEST_NO_SUCH_VARIABLE"),
            (missing, "/nonexistent/key"),
        ] {
            let why = settings.server().unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        }
    }
}
