//! What can go wrong before the ranks of a job know each other.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Launcher;

/// A rank that is no longer there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// The rank.
    pub rank: u32,
    /// What became of it, as in `was killed by SIGKILL`.
    pub why: String,
    /// Whether something went wrong.
    pub failed: bool,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} {}", self.rank, self.why)
    }
}

/// Why a process could not join its job. Its debug form is the same text: that is what a `main` that
/// returns it shows.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A variable of the environment is missing or makes no sense.
    Variable {
        /// Its name.
        name: &'static str,
        /// What is wrong with it, and the cure.
        problem: String,
    },
    /// The launcher refused something, or the way to it is broken.
    Launcher {
        /// Which one.
        launcher: Launcher,
        /// What this process wanted of it.
        doing: String,
        /// What it said, and the cure where one is known.
        problem: String,
    },
    /// Another rank has ended, so nobody can wait for it.
    Left(Departure),
    /// Some ranks have not come to the meeting in time.
    Missing {
        /// Which.
        ranks: Vec<u32>,
        /// How long this one has waited.
        waited: Duration,
        /// At a rendezvous, in rank 0: from which addresses somebody came who was turned away, and why; the first few.
        turned_away: Vec<String>,
    },
    /// There is no job key, and the launcher has no store that could carry one.
    NoJobKey(Launcher),
    /// No network interface fits.
    NoInterface {
        /// What `SABANI_IF` asks for.
        wanted: String,
        /// The interfaces of this host.
        found: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Variable { name, problem } => write!(f, "{name}: {problem}"),
            Error::Launcher {
                launcher,
                doing,
                problem,
            } => write!(f, "{launcher}: {doing}: {problem}"),
            Error::Left(departure) => write!(f, "{departure}"),
            Error::Missing {
                ranks,
                waited,
                turned_away,
            } => {
                write!(
                    f,
                    "ranks {ranks:?} have not come within {waited:?}: were they started, and do they \
                     call the same things? SABANI_START_TIMEOUT (seconds) waits longer"
                )?;
                match &turned_away[..] {
                    [] => Ok(()),
                    those => write!(f, "; turned away: {}", those.join(", ")),
                }
            }
            Error::NoJobKey(launcher) => write!(
                f,
                "no job key, and {launcher} has no store to share one: `sabani key job.key` makes \
                 one; copy it to every host (a Secret, in Kubernetes) and let \
                 SABANI_JOB_KEY_FILE name it"
            ),
            Error::NoInterface { wanted, found } => write!(
                f,
                "SABANI_IF: no interface or address of this host fits `{wanted}`; it has {found}"
            ),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
