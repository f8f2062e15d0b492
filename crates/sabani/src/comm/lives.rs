//! Which processes have ended: the launcher tells, the node finds out by silence, and ranks tell each
//! other what they have found out.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::tag::{Context, Kind};
use super::{Comm, Error, Job, locked};
use crate::{Envelope, Error as NodeError, Event, PeerId, PeerLost};

/// A call that waits looks this often who has ended.
pub const LOOK: Duration = Duration::from_millis(250);

/// What became of processes that have ended, by their ranks in the world.
#[derive(Default)]
pub(super) struct Lives(Mutex<Fates>);

type Fates = BTreeMap<PeerId, Fate>;

/// What became of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    /// As in "rank 3 was killed by SIGKILL".
    pub why: String,
    /// Whether it has failed, or else has ended in good order.
    pub failed: bool,
    /// Whether the launcher says so, which makes no mistakes.
    pub is_certain: bool,
}

impl Fate {
    fn by_node(why: &PeerLost) -> Self {
        let left = *why == PeerLost::Closed;
        Fate {
            why: match left {
                true => "has ended".into(),
                false => format!("is lost: {why}"),
            },
            failed: !left,
            is_certain: false,
        }
    }

    /// What another rank has found out.
    fn by_rank(why: String) -> Self {
        Fate {
            why,
            failed: true,
            is_certain: false,
        }
    }
}

impl Lives {
    fn lock(&self) -> MutexGuard<'_, Fates> {
        locked(&self.0)
    }
}

impl Job {
    /// What became of a process, as far as this one has heard.
    pub fn known_fate(&self, peer: PeerId) -> Option<Fate> {
        self.lives.lock().get(&peer).cloned()
    }

    /// All that have ended.
    pub fn fates(&self) -> Fates {
        self.hear();
        self.lives.lock().clone()
    }

    /// Takes notice of what is new, and passes on what others may not find out by themselves.
    fn hear(&self) {
        let departures = self.world().departures();
        let mut fates = self.lives.lock();
        for departure in departures {
            let fate = Fate {
                why: departure.why,
                failed: departure.failed,
                is_certain: true,
            };
            fates.insert(PeerId(departure.rank), fate);
        }
        let mut found = Vec::new();
        while let Some((peer, fate)) = self.found_by_node().or_else(|| self.found_by_rank()) {
            if let Entry::Vacant(place) = fates.entry(peer) {
                if fate.failed {
                    found.push(encode(peer.0, &fate.why));
                }
                place.insert(fate);
            }
        }
        drop(fates);
        for notice in found {
            let tag = Context::WORLD.tag(Kind::Lost, 0);
            for rank in neighbours(self.rank, self.host_of.len()) {
                self.say(PeerId(rank as u32), tag, &notice);
            }
        }
    }

    fn found_by_node(&self) -> Option<(PeerId, Fate)> {
        loop {
            let Event::Lost { peer, why, .. } = self.node.next_event()? else {
                continue;
            };
            // The peer lives, and has taken this process for dead.
            if why == PeerLost::Replaced {
                let why = format!("was silent for so long that process {peer} gave it up");
                return Some((PeerId(self.rank as u32), Fate::by_rank(why)));
            }
            return Some((peer, Fate::by_node(&why)));
        }
    }

    fn found_by_rank(&self) -> Option<(PeerId, Fate)> {
        let notices = Context::WORLD.matching(Kind::Lost, 0);
        loop {
            let notice = self.node.try_recv(notices).ok()??;
            if let Some((peer, why)) = decode(notice.body()) {
                return Some((PeerId(peer), Fate::by_rank(why)));
            }
        }
    }

    /// Sends something short that others may wait for, so whether there is room or not; but not to those that are
    /// known to be dead.
    pub fn say(&self, to: PeerId, tag: u64, body: &[u8]) {
        if self
            .lives
            .lock()
            .get(&to)
            .is_some_and(|fate| fate.is_certain)
        {
            return;
        }
        // That a connection has ended is said once, and then a new one is made.
        if let Err(NodeError::PeerLost { .. }) = self.node.send_unbounded(to, tag, body.to_vec()) {
            let _ = self.node.send_unbounded(to, tag, body.to_vec());
        }
    }
}

impl Comm {
    /// Ranks that have ended, as far as is known here, and what became of them.
    pub fn gone(&self) -> BTreeMap<usize, String> {
        self.ended(|_| true)
    }

    /// Ranks that have failed, as far as is known here, and what became of them: others than
    /// [`Comm::gone`] has, they have not ended in good order.
    pub fn failed(&self) -> BTreeMap<usize, String> {
        self.ended(|fate| fate.failed)
    }

    fn ended(&self, counts: impl Fn(&Fate) -> bool) -> BTreeMap<usize, String> {
        let fates = self.job.fates().into_iter();
        let here = fates.filter(|(_, fate)| counts(fate));
        here.filter_map(|(peer, fate)| Some((self.group.rank_of(peer)?, fate.why)))
            .collect()
    }

    /// What an error of the node means here: it knows processes, not ranks, and tags as they are on the wire.
    pub(super) fn explained(&self, mut error: NodeError) -> Error {
        match &mut error {
            NodeError::PeerLost { peer, why } => {
                if let Some(rank) = self.group.rank_of(*peer) {
                    let by_node = |why: &PeerLost| format!("is lost: {why}");
                    let why = why.as_ref().map_or_else(|| "is lost".into(), by_node);
                    let found = self.check_alive(rank).err();
                    return found.unwrap_or(Error::RankLost { rank, why });
                }
            }
            NodeError::TooLarge { envelope, limit } => match Context::program_tag(envelope.tag) {
                Some(tag) => envelope.tag = tag,
                None => return self.too_long_a_part(envelope, *limit),
            },
            NodeError::Starved(why) => {
                for envelope in [&mut why.waiting, &mut why.holder] {
                    envelope.tag = Context::program_tag(envelope.tag).unwrap_or(envelope.tag);
                }
            }
            _ => {}
        }
        Error::from(error)
    }

    fn too_long_a_part(&self, part: &Envelope, limit: u64) -> Error {
        let from = match self.group.rank_of(part.source) {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", part.source),
        };
        Error::Collective(format!(
            "{from} sends {} bytes at a time, more than the {limit} that this rank allocates for messages: raise \
             `memory` (`Comm::init_with`), or call it with less at a time",
            part.len
        ))
    }
}

/// Whom a rank passes on what all are to know: those 1, 2, 4, … further, either way round. So it reaches
/// all in log P steps, unless all of these that a rank has are dead.
pub(super) fn neighbours(rank: usize, size: usize) -> BTreeSet<usize> {
    let distances = (0..usize::BITS).map(|bit| 1 << bit);
    let distances = distances.take_while(|&distance| distance < size);
    distances
        .flat_map(|distance| [(rank + distance) % size, (rank + size - distance) % size])
        .collect()
}

/// A rank, and something about it.
pub(super) fn encode(rank: u32, text: &str) -> Vec<u8> {
    [&rank.to_le_bytes(), text.as_bytes()].concat()
}

/// What [`encode`] has made.
pub(super) fn decode(bytes: &[u8]) -> Option<(u32, String)> {
    let (rank, text) = bytes.split_first_chunk()?;
    let text = String::from_utf8_lossy(text).into_owned();
    Some((u32::from_le_bytes(*rank), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many steps it takes until all know what rank 0 knows, the dead left out.
    fn steps(size: usize, dead: &BTreeSet<usize>) -> Option<usize> {
        let mut told = BTreeSet::from([0]);
        for step in 0..size {
            if told.len() + dead.len() == size {
                return Some(step);
            }
            let further = told.iter().flat_map(|&rank| neighbours(rank, size));
            let further: BTreeSet<_> = further.filter(|rank| !dead.contains(rank)).collect();
            told.extend(further);
        }
        None
    }

    #[test]
    fn all_hear_of_it_in_few_steps_even_if_some_are_dead() {
        for size in 1..=130_usize {
            let log = size.next_power_of_two().ilog2() as usize;
            assert!(steps(size, &BTreeSet::new()).is_some_and(|steps| steps <= log));
            for dead in 1..size {
                let dead = BTreeSet::from([dead, size - 1]);
                assert!(steps(size, &dead).is_some(), "{size} without {dead:?}");
            }
        }
    }

    #[test]
    fn notices_survive_the_wire() {
        assert_eq!(decode(&encode(7, "is lost")), Some((7, "is lost".into())));
        assert_eq!(decode(&[1, 2, 3]), None);
    }
}
