//! Where a server is, and what is needed to be let in. Not what is said to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, parse_pem};

use super::Key;

/// A server that a model runs on.
#[derive(Clone, Debug)]
pub struct Server {
    /// The address without `/v1`, and without a slash at its end.
    base: String,
    /// The part of it that a person knows it by.
    host: String,
    key: Option<Key>,
    /// The certificates that are trusted; those of the browsers where none are named.
    roots: Option<Arc<Vec<Certificate<'static>>>>,
    /// The model that is asked for.
    model: Option<String>,
}

/// Why an address, or what belongs to it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is no address of a server.
    #[error(
        "{0} is no address of a server: http://HOST:PORT or https://HOST is needed, with or without /v1 at its end"
    )]
    NoAddress(String),
    /// It carries a name or a password.
    #[error(
        "an address with a name or password in it is shown in lists of processes; give the server's key in K3_API_KEY, or by key_env or key_file in the settings"
    )]
    WithSecret,
    /// The certificates cannot be read.
    #[error("{}: no certificates can be read: {why}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Server {
    /// The server at this address: that of the API with or without `/v1`.
    ///
    /// # Errors
    /// It is no `http` or `https` address, or has parts that it cannot have.
    pub fn new(address: &str) -> Result<Self, AddressError> {
        let no_address = || AddressError::NoAddress(address.to_owned());
        if address.contains('@') {
            return Err(AddressError::WithSecret);
        }
        let uri: Uri = address.parse().map_err(|_| no_address())?;
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        let host = uri.authority().map(ToString::to_string);
        let (Some(host), true) = (host.filter(|_| uri.host().is_some()), known) else {
            return Err(no_address());
        };
        if uri.query().is_some() || address.contains('#') {
            return Err(no_address());
        }
        let base = address.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            host,
            key: None,
            roots: None,
            model: None,
        })
    }

    /// The same, let in by this key.
    pub fn with_key(self, key: Option<Key>) -> Self {
        Self { key, ..self }
    }

    /// The same, asked for this model.
    pub fn with_model(self, model: Option<String>) -> Self {
        Self { model, ..self }
    }

    /// The same, believed by the certificates in this file (PEM), and by no others.
    ///
    /// # Errors
    /// There are none in it.
    pub fn with_certificates(self, path: &Path) -> Result<Self, AddressError> {
        let wrong = |why: String| AddressError::Certificates {
            path: path.to_owned(),
            why,
        };
        let text = std::fs::read(path).map_err(|cause| wrong(cause.to_string()))?;
        let mut roots = Vec::new();
        for item in parse_pem(&text) {
            match item {
                Ok(PemItem::Certificate(certificate)) => roots.push(certificate),
                Ok(_) => {}
                Err(error) => return Err(wrong(error.to_string())),
            }
        }
        match roots.is_empty() {
            true => Err(wrong("it has none in PEM form".to_owned())),
            false => Ok(Self {
                roots: Some(Arc::new(roots)),
                ..self
            }),
        }
    }

    /// The address of a part of the API, such as `/models`.
    pub(super) fn api(&self, part: &str) -> String {
        format!("{}/v1{part}", self.base)
    }

    /// The address of the server's figures.
    pub(super) fn metrics(&self) -> String {
        format!("{}/metrics", self.base)
    }

    /// Its name and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address without `/v1`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Its key.
    pub(super) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// The certificates that are trusted, if they are named.
    pub(super) fn roots(&self) -> Option<&Arc<Vec<Certificate<'static>>>> {
        self.roots.as_ref()
    }

    /// The model that is asked for, if one is.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether it is this computer: no proxy stands between.
    pub(super) fn is_here(&self) -> bool {
        let host = self.host.rsplit_once(':').map_or(&*self.host, |(h, _)| h);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// Whether a key would go over the network for everybody to read.
    pub(super) fn is_bare(&self) -> bool {
        self.key.is_some() && self.base.starts_with("http:") && !self.is_here()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_with_and_without_its_end() {
        for (address, api) in [
            ("http://box:8000", "http://box:8000/v1/models"),
            ("http://box:8000/", "http://box:8000/v1/models"),
            ("http://box:8000/v1", "http://box:8000/v1/models"),
            ("http://box:8000/v1/", "http://box:8000/v1/models"),
            ("https://gate/k3/v1", "https://gate/k3/v1/models"),
            ("http://[::1]:30000", "http://[::1]:30000/v1/models"),
        ] {
            assert_eq!(Server::new(address).unwrap().api("/models"), api);
        }
        let gate = Server::new("https://gate/k3/v1").unwrap();
        assert_eq!(gate.metrics(), "https://gate/k3/metrics");
        assert_eq!(gate.host(), "gate");
    }

    #[test]
    fn what_is_no_address_is_refused_and_a_secret_in_it_not_repeated() {
        for wrong in [
            "",
            "box:8000",
            "ftp://box",
            "http://",
            "http://box?a=b",
            "http://box#a",
            "/x",
        ] {
            let error = Server::new(wrong).unwrap_err().to_string();
            assert!(error.contains("no address of a server"), "{wrong}: {error}");
        }
        let error = Server::new("http://me:sk-secret@box").unwrap_err();
        assert!(!error.to_string().contains("sk-secret"));
    }

    #[test]
    fn a_key_is_bare_on_a_network_without_tls() {
        let key = Some(Key::new("k", "").unwrap());
        for (address, bare) in [
            ("http://box:8000", true),
            ("https://box", false),
            ("http://localhost:8000", false),
            ("http://127.0.0.2:8000", false),
            ("http://[::1]:8000", false),
        ] {
            let server = Server::new(address).unwrap();
            assert!(!server.is_bare());
            assert_eq!(server.with_key(key.clone()).is_bare(), bare, "{address}");
        }
    }

    #[test]
    fn certificates_are_read_or_refused_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let server = || Server::new("https://box").unwrap();
        for text in [None, Some("nothing")] {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let error = server().with_certificates(&path).unwrap_err().to_string();
            assert!(error.contains("ca.pem: no certificates"), "{error}");
        }
    }
}
