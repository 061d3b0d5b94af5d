//! Standard error while the screen is up: what other threads write there would land in the middle of the picture, so it is
//! gathered in a file without a name and written out when the terminal has been given back.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, TryLockError};

use crate::system::RealStderr;

/// Bytes of it that are written out; the last ones count.
const KEPT: u64 = 64 * 1024;

/// The real standard error and what stands in for it.
struct Diverted {
    real: RealStderr,
    gathered: File,
}

static DIVERTED: Mutex<Option<Diverted>> = Mutex::new(None);

/// Gathers from now on. Left out where standard error is no terminal and so does no harm.
pub fn divert() {
    if !io::stderr().is_terminal() {
        return;
    }
    // Without a temporary file it is better that words are lost than that they break the picture.
    let Ok(gathered) =
        tempfile::tempfile().or_else(|_| File::options().write(true).open("/dev/null"))
    else {
        return;
    };
    if let Ok(real) = RealStderr::replaced_by(&gathered) {
        with(|diverted| *diverted = Some(Diverted { real, gathered }));
    }
}

/// Puts the real standard error back and writes out what was gathered.
pub fn restore() {
    with(|diverted| {
        let Some(Diverted { real, mut gathered }) = diverted.take() else {
            return;
        };
        real.put_back();
        let _ = write_out(&mut gathered);
    });
}

fn write_out(gathered: &mut File) -> io::Result<()> {
    let length = gathered.metadata()?.len();
    gathered.seek(SeekFrom::Start(length.saturating_sub(KEPT)))?;
    let mut bytes = Vec::new();
    gathered.take(KEPT).read_to_end(&mut bytes)?;
    io::stderr().write_all(&bytes)
}

/// Not waited for: a panic while it is held must not stand still.
fn with(change: impl FnOnce(&mut Option<Diverted>)) {
    match DIVERTED.try_lock() {
        Ok(mut diverted) => change(&mut diverted),
        Err(TryLockError::Poisoned(poisoned)) => change(&mut poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {}
    }
}
