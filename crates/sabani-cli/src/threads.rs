//! What becomes of a command for which the system starts no more threads, or opens no more files. Without threads the standard library
//! panics, also below others' progress bars.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::thread;

use anyhow::anyhow;
use rustix::io::Errno;

/// What helps.
const CURE: &str =
    "raise the limit of processes and threads (`ulimit -u`, a container's own), or end some";

/// The same for files.
const FILES: &str = "raise the limit of open files (`ulimit -n`)";

/// How the standard library begins what it says.
const SAID: &str = "failed to spawn thread: ";

/// The system starts no more threads; why.
#[derive(Debug)]
struct NoThread(String);

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no thread can be started: {}: {CURE}", self.0)
    }
}

impl Error for NoThread {}

/// A thread or a process that was to be started.
pub trait Started<T> {
    /// It, or an error that names it and says what helps.
    ///
    /// # Errors
    /// If it could not be started.
    fn started(self, what: impl fmt::Display) -> anyhow::Result<T>;
}

impl<T> Started<T> for io::Result<T> {
    fn started(self, what: impl fmt::Display) -> anyhow::Result<T> {
        self.map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::AGAIN) => anyhow!("cannot start {what}: {why}: {CURE}"),
            Some(Errno::MFILE) => anyhow!("cannot start {what}: {why}: {FILES}"),
            _ => anyhow::Error::from(why).context(format!("cannot start {what}")),
        })
    }
}

/// What is said of an error: if no more files can be opened, also what helps, unless that is in it.
pub fn told(error: &anyhow::Error) -> String {
    let said = format!("{error:#}");
    let mut causes = error.chain().filter_map(<dyn Error>::downcast_ref);
    let is_files = causes.any(|why| Errno::from_io_error(why) == Some(Errno::MFILE));
    if is_files && !said.contains("ulimit") {
        return format!("{said}: {FILES}");
    }
    said
}

/// Does a command's work. If a thread of it can't be started that is an error like others, rather than a panic.
///
/// # Errors
/// Those of the work, and that one.
///
/// # Panics
/// If the work does for any other reason.
pub fn heed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let (here, tell) = (thread::current().id(), take_hook());
    set_hook(Box::new(move |panic| {
        if of_threads(panic.payload()).is_none() || thread::current().id() != here {
            tell(panic);
        }
    }));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| match of_threads(&*panic) {
        Some(why) => Err(why.into()),
        None => resume_unwind(panic),
    })
}

/// Why no thread could be started, if it is that.
fn of_threads(panic: &(dyn Any + Send)) -> Option<NoThread> {
    let why = panic.downcast_ref::<String>()?.strip_prefix(SAID)?;
    // What the system's own words are, of all that is shown of an error.
    let words = why.split("message: ").nth(1).unwrap_or(why);
    Some(NoThread(words.trim_matches(['"', ' ', '}']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_files_run_out_what_helps_is_said_once() {
        let out = || io::Error::from(Errno::MFILE);
        let raised = |said: &str| said.matches("ulimit -n").count();
        let inner = anyhow::Error::from(out()).context("opening a socket");
        let said = told(&inner);
        assert!(said.starts_with("opening a socket: "), "{said}");
        assert_eq!(raised(&said), 1, "{said}");
        let Err(started) = Err::<(), _>(out()).started("a rank") else {
            panic!("it was no error");
        };
        assert_eq!(raised(&told(&started)), 1);
        let other = anyhow::Error::from(io::Error::from(Errno::NOENT));
        assert_eq!(told(&other), format!("{other:#}"));
    }

    #[test]
    fn only_threads_that_cannot_be_started_are_errors() {
        let why = io::Error::from(Errno::AGAIN);
        let refused: anyhow::Result<()> = heed(|| panic!("{SAID}{why:?}"));
        let said = refused.unwrap_err().to_string();
        assert!(
            said.contains(": Resource temporarily unavailable: raise")
                && said.contains("ulimit -u"),
            "{said}"
        );
        let other = catch_unwind(|| heed(|| -> anyhow::Result<()> { panic!("something else") }));
        assert!(other.is_err());
        assert!(matches!(heed(|| Ok(7)), Ok(7)));
    }
}
