//! Which ranks are gone, as the launcher tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use super::{Comm, Error};

/// A call that waits asks the launcher this often.
pub const LOOK: Duration = Duration::from_millis(250);

/// What has been heard so far.
#[derive(Default)]
pub struct Lives(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    gone: BTreeMap<usize, String>,
    failed: BTreeSet<usize>,
    /// Failures that no receive from any rank has reported yet.
    untold: Vec<usize>,
}

impl Comm {
    /// Ranks that have ended, as far as the launcher tells, and what became of them.
    pub fn gone(&self) -> BTreeMap<usize, String> {
        self.hear(|heard| heard.gone.clone())
    }

    /// Fails if this rank is gone.
    pub(super) fn check_alive(&self, rank: usize) -> Result<(), Error> {
        let why = self.hear(|heard| heard.gone.get(&rank).cloned());
        why.map_or(Ok(()), |why| Err(Error::RankLost { rank, why }))
    }

    /// The loss of a rank that has failed, if there is one.
    pub(super) fn any_failed(&self) -> Option<Error> {
        self.hear(|heard| {
            let rank = *heard.failed.first()?;
            let why = heard.gone[&rank].clone();
            Some(Error::RankLost { rank, why })
        })
    }

    /// Fails once for each rank that has failed, and if nobody else is left.
    pub(super) fn check_others(&self) -> Result<(), Error> {
        let others = self.size() - 1;
        self.hear(|heard| {
            if let Some(rank) = heard.untold.pop() {
                let why = heard.gone[&rank].clone();
                return Err(Error::RankLost { rank, why });
            }
            let all_gone = others > 0 && heard.gone.len() >= others;
            if all_gone { Err(Error::Alone) } else { Ok(()) }
        })
    }

    /// Takes notice of what the launcher has told.
    fn hear<T>(&self, then: impl FnOnce(&mut Heard) -> T) -> T {
        let departures = self.job.world().departures();
        let lives = &self.job.lives.0;
        let mut heard = lives
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        for departure in departures {
            let rank = departure.rank as usize;
            heard.gone.insert(rank, departure.why);
            if departure.failed {
                heard.failed.insert(rank);
                heard.untold.push(rank);
            }
        }
        then(&mut heard)
    }
}
