//! The thread that an engine runs on, and its channels. Not what the engine does there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::telemetry::{Activity, TelemetryCell};
use super::{Command, EVENT_CAPACITY, Event, Handle};

/// An engine's ends of the channels.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// What is asked.
    pub asked: Receiver<Command>,
    /// Who is told.
    pub told: Sender<Event>,
    /// What is told of what goes on.
    pub telemetry: TelemetryCell,
}

/// Runs `work` on a thread of its own. However it ends, [`Event::Stopped`] is the last thing told, and all that `work` had is
/// given back before.
///
/// # Errors
/// The system refuses the thread.
pub(super) fn spawn(
    work: impl FnOnce(Ends) -> anyhow::Result<()> + Send + 'static,
) -> std::io::Result<Handle> {
    let (commands, asked) = unbounded();
    let (told, events) = bounded(EVENT_CAPACITY);
    let telemetry = TelemetryCell::default();
    let ends = Ends {
        asked,
        told: told.clone(),
        telemetry: telemetry.clone(),
    };
    let cell = telemetry.clone();
    std::thread::Builder::new()
        .name("k3-engine".into())
        .spawn(move || {
            let reason = match catch_unwind(AssertUnwindSafe(|| work(ends))) {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(panic) => Some(format!(
                    "the inference thread failed: {}",
                    panic_text(panic.as_ref())
                )),
            };
            cell.set(|t| t.activity = Activity::Stopped);
            // With no reader left there is nobody to tell.
            let _ = told.send(Event::Stopped(reason));
        })?;
    Ok(Handle {
        commands,
        events,
        telemetry,
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}
