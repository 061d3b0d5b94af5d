//! A server on this computer that plays a script, with every fault that a server can have. It speaks just enough HTTP.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method and path.
    pub line: String,
    /// Header lines.
    pub headers: Vec<String>,
    /// The body.
    pub body: String,
}

/// The other end of a connection.
pub trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// Answers the question of this number, from 0.
pub type Answer = dyn Fn(usize, &mut dyn Wire) -> io::Result<()> + Send + Sync;

/// What a server says.
pub struct Script {
    /// Under `/v1/models`: a whole response.
    pub models: String,
    /// Under `/metrics`: a whole response.
    pub metrics: String,
    /// Under `/v1/chat/completions`.
    pub answer: Box<Answer>,
}

impl Script {
    /// One model, no figures, and these answers.
    pub fn new(
        answer: impl Fn(usize, &mut dyn Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let models =
            r#"{"object":"list","data":[{"id":"k3","object":"model","max_model_len":4096}]}"#;
        Self {
            models: json(200, models),
            metrics: json(404, "{}"),
            answer: Box::new(answer),
        }
    }

    /// The same whole response to every question.
    pub fn always(response: String) -> Self {
        Self::new(move |_, wire| wire.write_all(response.as_bytes()))
    }
}

/// A running server; it ends when this is dropped.
pub struct Server {
    /// Its address.
    pub address: String,
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    over: Arc<AtomicBool>,
}

/// The certificate of a server, in PEM, and what it proves it with.
pub struct Certificate {
    pub pem: String,
    tls: Arc<rustls::ServerConfig>,
}

impl Certificate {
    /// One that it made itself.
    pub fn own() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        Self {
            pem: made.cert.pem(),
            tls: Arc::new(tls),
        }
    }
}

impl Server {
    /// One without encryption.
    pub fn start(script: Script) -> Self {
        Self::start_with(script, None)
    }

    /// One that proves itself by a certificate, if there is one.
    pub fn start_with(script: Script, certificate: Option<&Certificate>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, over) = <(Arc<Mutex<Vec<Seen>>>, Arc<AtomicBool>)>::default();
        let (script, tls) = (Arc::new(script), certificate.map(|c| Arc::clone(&c.tls)));
        let address = match tls {
            Some(_) => format!("https://localhost:{port}"),
            None => format!("http://127.0.0.1:{port}"),
        };
        let (noted, ended) = (Arc::clone(&seen), Arc::clone(&over));
        let questions = Arc::new(Mutex::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, script, tls) = (stream.unwrap(), Arc::clone(&script), tls.clone());
                let (noted, questions) = (Arc::clone(&noted), Arc::clone(&questions));
                // A client that goes away in the middle is no fault of the server.
                std::thread::spawn(move || {
                    let ends = stream.try_clone()?;
                    match tls {
                        None => serve(stream, &script, &noted, &questions)?,
                        Some(tls) => {
                            let connection = rustls::ServerConnection::new(tls).unwrap();
                            let stream = rustls::StreamOwned::new(connection, stream);
                            serve(stream, &script, &noted, &questions)?;
                        }
                    }
                    ends.shutdown(Shutdown::Both)
                });
            }
        });
        Self {
            address,
            port,
            seen,
            over,
        }
    }

    /// All that it was asked, in the order in which it came.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The bodies of the questions.
    pub fn questions(&self) -> Vec<serde_json::Value> {
        let posts = self
            .seen()
            .into_iter()
            .filter(|seen| seen.line.starts_with("POST"));
        posts
            .map(|seen| serde_json::from_str(&seen.body).unwrap())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // So that it looks.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(
    mut stream: impl Wire,
    script: &Script,
    seen: &Mutex<Vec<Seen>>,
    questions: &Mutex<usize>,
) -> io::Result<()> {
    let request = request(&mut stream)?;
    seen.lock().unwrap().push(request.clone());
    let path = request
        .line
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    match path.as_str() {
        "/v1/models" => stream.write_all(script.models.as_bytes()),
        "/metrics" => stream.write_all(script.metrics.as_bytes()),
        "/v1/chat/completions" => {
            let number = {
                let mut questions = questions.lock().unwrap();
                *questions += 1;
                *questions - 1
            };
            (script.answer)(number, &mut stream)
        }
        _ => stream.write_all(json(404, "{}").as_bytes()),
    }?;
    stream.flush()
}

fn request(stream: &mut impl Read) -> io::Result<Seen> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut headers, mut length) = (String::new(), Vec::new(), 0);
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim_end().to_owned();
        if header.is_empty() {
            break;
        }
        if let Some(bytes) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        headers.push(header);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Seen {
        line: line.trim_end().to_owned(),
        headers,
        body: String::from_utf8(body).unwrap(),
    })
}

/// A whole response of this status.
pub fn json(status: u16, body: &str) -> String {
    with(status, &[], body)
}

/// The same, with more header lines.
pub fn with(status: u16, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!(
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The head of a stream of events that ends with its connection.
pub const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

/// The head of one that comes in chunks.
pub const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An event with this text of the answer.
pub fn content(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}}}}]}}\n\n")
}

/// The same of reasoning.
pub fn reasoning(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"reasoning_content\":{text}}}}}]}}\n\n"
    )
}

/// The events that end an answer.
pub fn stop() -> String {
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_owned()
}

/// A whole answer.
pub fn whole(think: &str, response: &str) -> String {
    [EVENTS, &reasoning(think), &content(response), &stop()].concat()
}
