//! Another place for what is written to standard error, also by code that knows nothing of it.

use std::fs::File;
use std::io;

/// The real standard error, while a file stands in for it.
pub struct RealStderr {
    #[cfg(unix)]
    real: std::os::fd::OwnedFd,
}

impl RealStderr {
    /// Has `file` stand in from now on.
    ///
    /// # Errors
    /// What the system says; on systems other than Unix it cannot be done.
    pub fn replaced_by(file: &File) -> io::Result<Self> {
        #[cfg(unix)]
        {
            use std::os::fd::AsFd;
            let real = io::stderr().as_fd().try_clone_to_owned()?;
            rustix::stdio::dup2_stderr(file)?;
            Ok(Self { real })
        }
        #[cfg(not(unix))]
        {
            let _ = file;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Puts it back.
    pub fn put_back(self) {
        #[cfg(unix)]
        let _ = rustix::stdio::dup2_stderr(&self.real);
    }
}
