//! A thread that looks at a server's figures beside its answers: once a second while there is one, seldom else, and not at all at
//! a server that has none.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::super::telemetry::TelemetryCell;
use super::client::Client;
use super::figures::{Metrics, RemoteFigures};
use super::metrics::Reader;

/// Between two looks while an answer is under way.
const BUSY: Duration = Duration::from_secs(1);

/// The same while there is none.
const IDLE: Duration = Duration::from_secs(10);

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Poll {
    busy: Sender<bool>,
}

impl Poll {
    /// Looks at a server's figures for this cell.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn start(client: Client, cell: TelemetryCell) -> std::io::Result<Self> {
        let (busy, told) = unbounded();
        std::thread::Builder::new()
            .name("k3-metrics".into())
            .spawn(move || look(&client, &cell, &told))?;
        Ok(Self { busy })
    }

    /// Says whether an answer is under way.
    pub fn busy(&self, busy: bool) {
        // Without its thread there are no figures.
        let _ = self.busy.send(busy);
    }
}

fn look(client: &Client, cell: &TelemetryCell, told: &Receiver<bool>) {
    let (mut reader, mut between) = (Reader::default(), IDLE);
    let address = client.server().metrics();
    loop {
        let metrics = match client.fetch(&address) {
            Ok(text) => reader.read(&text, Instant::now()),
            Err(_) => None,
        };
        let metrics = metrics.map_or(Metrics::NotOffered, Metrics::Known);
        cell.set(|telemetry| {
            let figures = telemetry.remote.unwrap_or_default();
            telemetry.remote = Some(RemoteFigures { metrics, ..figures });
        });
        let next = match metrics {
            // Perhaps when there is an answer again.
            Metrics::NotOffered => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            _ => told.recv_timeout(between),
        };
        match next {
            Ok(busy) => between = if busy { BUSY } else { IDLE },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
