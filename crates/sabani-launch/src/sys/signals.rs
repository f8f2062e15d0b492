//! What signals do to a program that is about to begin.

use std::io::{Error, Result};

/// Lets SIGINT and SIGQUIT end programs again that this process becomes or starts: a shell that is no interactive one
/// has what it starts with `&` ignore them, and whatever that starts.
///
/// # Errors
/// None that is known.
pub fn heed_interrupts() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the call takes numbers alone, and no handler of ours is installed.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(Error::last_os_error());
        }
    }
    Ok(())
}
