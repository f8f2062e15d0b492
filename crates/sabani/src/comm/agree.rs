//! What survivors of a failure do together.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use sabani_collective::agree::{Agreement, Decision, Message as Word};

use super::group::Group;
use super::lives::LOOK;
use super::tag::{Context, Kind};
use super::{Comm, Error, Job, locked};
use crate::Message;

/// For so many communicators a process goes on answering those that have not heard what was decided.
const ANSWERED: usize = 64;

/// What the ranks of a communicator have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The bits that all have set who are not among the failed.
    pub bits: u64,
    /// The ranks that have failed, or have left before they could agree.
    pub failed: BTreeSet<usize>,
}

/// Agreements that this process has come to, the latest of each communicator: whoever is still in one
/// when its coordinator dies asks those that are not.
#[derive(Default)]
pub(super) struct Decided(Mutex<VecDeque<Part>>);

/// This process's part in an agreement.
struct Part {
    group: Arc<Group>,
    number: u32,
    agreement: Agreement,
}

/// Failures end a communicator: calls fail, with the same reason at all ranks or with one that follows
/// from it. The ranks that are left then make a new one:
///
/// ```
/// use sabani::Comm;
/// use sabani::comm::{Error, Sum};
///
/// /// The sum over all ranks that live to see it, and how many those are.
/// fn sum(mut comm: Comm, own: u64) -> Result<(u64, usize), Error> {
///     loop {
///         let mut sum = [own];
///         let worked = comm.allreduce_in_place(&mut sum, Sum);
///         // Some may have the sum where others have an error: all go on, or none.
///         let bits = if worked.is_ok() { 1 } else { 0 };
///         if comm.agree(bits)?.bits == 1 {
///             return Ok((sum[0], comm.size()));
///         }
///         comm = comm.shrink()?;
///     }
/// }
/// # assert_eq!(sum(Comm::init()?, 7)?, (7, 1));
/// # Ok::<(), Error>(())
/// ```
///
/// Each of these calls must be made by all ranks that live, at the same place among such calls, and
/// works whether the communicator has ended or not and whatever fails meanwhile. They cost four messages
/// one after the other, and three more and the time to notice for each coordinator that fails.
impl Comm {
    /// Agrees on bits, and on who has failed: all ranks that survive get the same.
    ///
    /// # Errors
    /// [`Error::RankLost`] with this rank if the others have agreed that it has failed; [`Error::Node`].
    pub fn agree(&self, bits: u64) -> Result<Agreed, Error> {
        let Decision { bits, failed, .. } = self.decide(bits, 0)?;
        Ok(Agreed { bits, failed })
    }

    /// A communicator of those that are left, in the same order. A rank that fails meanwhile may still
    /// be in it; then it ends as well, and can be shrunk in turn.
    ///
    /// # Errors
    /// As [`Comm::agree`], and [`Error::NoMoreGroups`].
    pub fn shrink(&self) -> Result<Comm, Error> {
        let Decision { failed, offer, .. } = self.decide(0, self.job.offer_context())?;
        let context = Context::numbered(offer).ok_or(Error::NoMoreGroups)?;
        let left: Vec<_> = (0..self.size()).filter(|r| !failed.contains(r)).collect();
        self.part(context, &left)
    }

    fn decide(&self, bits: u64, offer: u32) -> Result<Decision, Error> {
        let mut number = locked(&self.group.agreements);
        let mut part = Part {
            group: Arc::clone(&self.group),
            number: *number,
            agreement: Agreement::new(self.rank(), self.size(), bits, offer, &self.absent()?),
        };
        *number = number.wrapping_add(1);
        let mut looks = 0_u32;
        let decision = loop {
            part.send(&self.job);
            if let Some(decision) = part.agreement.decision() {
                break decision.clone();
            }
            let message = self.node().recv_timeout(part.wanted(), LOOK)?;
            match message {
                Some(message) => part.take(&message),
                None => {
                    self.job.answer();
                    part.agreement.fail(&self.absent()?);
                    looks += 1;
                    // A rank may be away for long: it need not find a reminder for each look.
                    if looks.is_power_of_two() {
                        part.agreement.remind();
                    }
                }
            }
        };
        self.node().flush()?;
        self.job.keep(part);
        if decision.failed.contains(&self.rank()) {
            return Err(self.shut_out("is taken for dead"));
        }
        Ok(decision)
    }

    /// Who can't take part; an error if that is this rank: nobody waits for one that is taken for dead, so
    /// it must not decide alone.
    fn absent(&self) -> Result<BTreeSet<usize>, Error> {
        let gone = self.gone();
        match gone.get(&self.rank()) {
            Some(why) => Err(self.shut_out(why)),
            None => Ok(gone.into_keys().collect()),
        }
    }

    fn shut_out(&self, why: &str) -> Error {
        Error::RankLost {
            rank: self.rank(),
            why: format!("{why}: the others go on without it"),
        }
    }
}

impl Part {
    fn wanted(&self) -> crate::Match {
        self.group.context.matching(Kind::Agreement, self.number)
    }

    fn take(&mut self, message: &Message) {
        let rank = self.group.rank_of(message.source);
        if let (Some(rank), Some(word)) = (rank, Word::decode(message.body())) {
            self.agreement.handle(rank, word);
        }
    }

    fn send(&mut self, job: &Job) {
        let tag = self.group.context.tag(Kind::Agreement, self.number);
        while let Some((to, word)) = self.agreement.poll() {
            job.say(self.group.members[to], tag, &word.encode());
        }
    }
}

impl Job {
    /// Goes on answering for an agreement, and no more for the one before: all others have left that.
    fn keep(&self, part: Part) {
        let mut decided = locked(&self.decided.0);
        decided.retain(|kept| kept.group.context != part.group.context);
        decided.push_back(part);
        if decided.len() > ANSWERED {
            decided.pop_front();
        }
    }

    /// Answers those that have not heard what was decided.
    pub fn answer(&self) {
        for part in locked(&self.decided.0).iter_mut() {
            while let Ok(Some(message)) = self.node.try_recv(part.wanted()) {
                part.take(&message);
                part.send(self);
            }
        }
    }
}
