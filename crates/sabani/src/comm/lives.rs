//! Which ranks are gone, as the launcher tells.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Comm, Error};
use crate::PeerId;

/// A call that waits asks the launcher this often.
pub const LOOK: Duration = Duration::from_millis(250);

/// What has been heard so far.
#[derive(Default)]
pub struct Lives(Mutex<Heard>);

/// Processes, by their ranks in the world.
#[derive(Default)]
struct Heard {
    gone: BTreeMap<PeerId, String>,
    /// Those of them that have failed, in the order in which that was heard.
    failed: Vec<PeerId>,
}

impl Comm {
    /// Ranks that have ended, as far as the launcher tells, and what became of them.
    pub fn gone(&self) -> BTreeMap<usize, String> {
        self.hear(|heard| {
            let here = |(peer, why): (&PeerId, &String)| {
                let rank = self.group.rank_of(*peer)?;
                Some((rank, why.clone()))
            };
            heard.gone.iter().filter_map(here).collect()
        })
    }

    /// Fails if this rank is gone.
    pub(super) fn check_alive(&self, rank: usize) -> Result<(), Error> {
        let peer = self.peer(rank)?;
        let why = self.hear(|heard| heard.gone.get(&peer).cloned());
        why.map_or(Ok(()), |why| Err(Error::RankLost { rank, why }))
    }

    /// The loss of a rank that has failed, if there is one.
    pub(super) fn any_failed(&self) -> Option<Error> {
        self.hear(|heard| heard.failed.iter().find_map(|&peer| self.lost(heard, peer)))
    }

    /// Fails once for each rank that has failed, and if nobody else is left.
    pub(super) fn check_others(&self) -> Result<(), Error> {
        self.hear(|heard| {
            while let Some(&peer) = heard.failed.get(self.group.told.load(Relaxed)) {
                self.group.told.fetch_add(1, Relaxed);
                if let Some(lost) = self.lost(heard, peer) {
                    return Err(lost);
                }
            }
            let is_here = |peer: &&PeerId| self.group.rank_of(**peer).is_some();
            let gone = heard.gone.keys().filter(is_here).count();
            let others = self.size() - 1;
            let all_gone = others > 0 && gone >= others;
            if all_gone { Err(Error::Alone) } else { Ok(()) }
        })
    }

    /// What became of a process, if it is a rank of this communicator.
    fn lost(&self, heard: &Heard, peer: PeerId) -> Option<Error> {
        let rank = self.group.rank_of(peer)?;
        let why = heard.gone[&peer].clone();
        Some(Error::RankLost { rank, why })
    }

    /// Takes notice of what the launcher has told.
    fn hear<T>(&self, then: impl FnOnce(&Heard) -> T) -> T {
        let departures = self.job.world().departures();
        let lives = &self.job.lives.0;
        let mut heard = lives
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        for departure in departures {
            let peer = PeerId(departure.rank);
            heard.gone.insert(peer, departure.why);
            if departure.failed {
                heard.failed.push(peer);
            }
        }
        then(&heard)
    }
}
