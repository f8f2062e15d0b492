//! The end of a communicator: with the first failure that a rank hears of, or when a rank says so.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::lives::{LOOK, decode, encode, neighbours};
use super::tag::Kind;
use super::{Comm, Error, locked};

/// Whether, and why, a communicator can't be used any more.
#[derive(Default)]
pub(super) struct Epoch(OnceLock<End>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// A rank is lost.
    Lost { rank: usize, why: String },
    /// A rank has revoked it.
    Revoked { by: usize, why: String },
}

impl End {
    fn error(&self) -> Error {
        match self.clone() {
            End::Lost { rank, why } => Error::RankLost { rank, why },
            End::Revoked { by, why } => Error::Revoked { by, why },
        }
    }

    /// What rank `me` tells the others.
    fn notice(&self, me: usize) -> Vec<u8> {
        match self {
            End::Lost { rank, why } => encode(me as u32, &format!("rank {rank} {why}")),
            End::Revoked { by, why } => encode(*by as u32, why),
        }
    }

    fn by_notice(notice: &[u8]) -> Option<End> {
        let (by, why) = decode(notice)?;
        let by = by as usize;
        Some(End::Revoked { by, why })
    }
}

impl Comm {
    /// Ends this communicator at all ranks: calls that wait fail within a second, later ones at once,
    /// with [`Error::Revoked`] and this reason. What can still be done with it: [`Comm::agree`],
    /// [`Comm::shrink`], [`Comm::failed`], [`Comm::abort`].
    ///
    /// Needed only where a rank leaves a computation for another reason than a failed rank. Does
    /// nothing if the communicator has ended already.
    pub fn revoke(&self, why: &str) {
        self.end(End::Revoked {
            by: self.rank(),
            why: why.into(),
        });
    }

    /// Ends the communicator here; whether that is new.
    fn close(&self, end: End) -> bool {
        let is_new = self.group.epoch.0.set(end).is_ok();
        if is_new {
            self.job.leftovers.end(self.group.context);
        }
        is_new
    }

    /// Ends the communicator here, and tells the others if that is new.
    fn end(&self, end: End) {
        let notice = end.notice(self.rank());
        if self.close(end) {
            let tag = self.group.context.tag(Kind::Revoked, 0);
            for rank in neighbours(self.rank(), self.size()) {
                self.job.say(self.group.members.peers[rank], tag, &notice);
            }
        }
    }

    /// Fails if the communicator is known to have ended.
    pub(super) fn usable(&self) -> Result<(), Error> {
        match self.group.epoch.0.get() {
            Some(end) => Err(end.error()),
            None => Ok(()),
        }
    }

    /// Looks whether the communicator has ended, and does what others may wait for: for calls that wait.
    pub(super) fn look(&self) -> Result<(), Error> {
        self.job.answer();
        self.job.sweep()?;
        self.usable()?;
        if let Some((rank, why)) = self.failed().pop_first() {
            // The others hear of it as this rank has.
            self.close(self.lost(rank, why));
        }
        let notices = self.group.context.matching(Kind::Revoked, 0);
        while let Some(notice) = self.node().try_recv(notices)? {
            End::by_notice(notice.body())
                .into_iter()
                .for_each(|end| self.end(end));
        }
        self.usable()
    }

    /// Fails if the communicator has ended, or if this rank, for which the caller waits, is gone: then
    /// the others may soon wait for the caller, so that the communicator ends, too.
    pub(super) fn check_alive(&self, rank: usize) -> Result<(), Error> {
        self.look()?;
        self.check_known(rank)
    }

    /// The same by what is known already.
    fn check_known(&self, rank: usize) -> Result<(), Error> {
        let Some(fate) = self.job.known_fate(self.peer(rank)?) else {
            return Ok(());
        };
        self.end(self.lost(rank, fate.why));
        self.usable()
    }

    /// That a rank is lost: launchers tell of it by its rank in the world.
    fn lost(&self, rank: usize, why: String) -> End {
        let why = match self.group.members.peers.get(rank) {
            Some(peer) if peer.0 as usize != rank => format!("(rank {peer} of the world) {why}"),
            _ => why,
        };
        End::Lost { rank, why }
    }

    /// Fails if the communicator has ended, or if nobody else is left.
    fn check_others(&self) -> Result<(), Error> {
        self.look()?;
        match self.is_alone() {
            true => Err(Error::Alone),
            false => Ok(()),
        }
    }

    /// Whether all others have ended.
    fn is_alone(&self) -> bool {
        let others = self.size() - 1;
        others > 0 && self.gone().len() >= others
    }

    /// Fails if what is waited for, from a rank or from anybody, can't come any more.
    pub(super) fn check(&self, from: Option<usize>) -> Result<(), Error> {
        match from {
            Some(rank) => self.check_alive(rank),
            None => self.check_others(),
        }
    }

    /// The same for calls that don't wait, but may be made again and again instead: what is known is found at once, and the
    /// rest is looked for as often as by calls that wait, whoever calls.
    pub(super) fn check_at_times(&self, from: Option<usize>) -> Result<(), Error> {
        self.usable()?;
        let group = &self.group;
        let is_due = {
            let mut looked = locked(&group.looked);
            let is_due = looked.elapsed() >= LOOK;
            if is_due {
                *looked = Instant::now();
            }
            is_due
        };
        if is_due {
            self.look()?;
            // It may be another thread that waits for anybody.
            group.is_alone.fetch_or(self.is_alone(), Relaxed);
        }
        match from {
            Some(rank) => self.check_known(rank),
            None if group.is_alone.load(Relaxed) => Err(Error::Alone),
            None => Ok(()),
        }
    }
}
