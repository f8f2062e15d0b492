//! What survivors of a failure do together.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sabani_collective::agree::{Agreement, Decision, Message as Word};

use super::group::{Group, Members};
use super::lives::LOOK;
use super::tag::{Context, Kind};
use super::{Comm, Error, Job, locked};
use crate::node::vain::Vain;
use crate::{Match, Message};

/// For so many communicators at least a process goes on answering those that have not heard what was decided.
const ANSWERED: usize = 64;
/// What a rank offers that agrees on bits alone: the world's number, which is nobody's to give.
const NO_OFFER: u32 = Context::WORLD.number();
/// After so long there may be more of what stands before the words of others.
const SOON: Duration = Duration::from_millis(10);

/// What the ranks of a communicator have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The bits that all have set who are not among the failed.
    pub bits: u64,
    /// The ranks that have failed, or have left before they could agree.
    pub failed: BTreeSet<usize>,
}

/// Agreements that others may ask this process about. It holds none of their communicators.
#[derive(Default)]
pub(super) struct Decided(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// What it has come to, the latest of each communicator and the latest last: whoever is still in an agreement when its
    /// coordinator dies asks those that are not.
    answers: VecDeque<Answer>,
    /// What it has put off: of each communicator one at most. They stay until they can be taken up, or until nobody
    /// waits for it if the communicator is gone.
    put_off: Vec<Part>,
}

/// An agreement's number, in its communicator.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    context: Context,
    number: u32,
}

/// What was decided.
struct Answer {
    name: Name,
    /// What those are told that have not heard it.
    word: Vec<u8>,
}

/// This process's part in an agreement.
struct Part {
    name: Name,
    members: Arc<Members>,
    /// Whether the program still has the communicator.
    group: Weak<Group>,
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
    /// [`Error::RankLost`] with this rank if the others have agreed that it has failed. [`Error::Node`], of which
    /// [`Backlog`](crate::Error::Backlog) says that untaken messages keep those of others from coming: take them, and
    /// call it again. The bits that were given first count. [`Error::Collective`] if the others shrink the
    /// communicator instead.
    pub fn agree(&self, bits: u64) -> Result<Agreed, Error> {
        let decision = self.decide(bits, NO_OFFER)?;
        if decision.offer != NO_OFFER {
            return Err(self.is_elsewhere("agrees on bits", "shrink the communicator", &decision));
        }
        let Decision { bits, failed, .. } = decision;
        Ok(Agreed { bits, failed })
    }

    /// A communicator of those that are left, in the same order. A rank that fails meanwhile may still
    /// be in it; then it ends as well, and can be shrunk in turn.
    ///
    /// # Errors
    /// As [`Comm::agree`], and [`Error::NoMoreGroups`]; [`Error::Collective`] if the others agree on bits instead.
    pub fn shrink(&self) -> Result<Comm, Error> {
        let decision = self.decide(0, self.job.offer_context())?;
        if decision.offer == NO_OFFER {
            return Err(self.is_elsewhere("shrinks the communicator", "agree on bits", &decision));
        }
        self.left(&decision)
    }

    /// Those that are left.
    fn left(&self, decision: &Decision) -> Result<Comm, Error> {
        let context = Context::numbered(decision.offer).ok_or(Error::NoMoreGroups)?;
        let ranks = 0..self.size();
        let left: Vec<_> = ranks.filter(|r| !decision.failed.contains(r)).collect();
        self.part(context, &left)
    }

    /// The error of a rank that does something else than the one that has coordinated: the others don't wait for it.
    fn is_elsewhere(&self, ours: &str, others: &str, decision: &Decision) -> Error {
        let why = format!(
            "rank {} {ours} where others {others}: all must call the same, in the same order",
            self.rank()
        );
        self.revoke(&why);
        if decision.offer != NO_OFFER
            && let Ok(theirs) = self.left(decision)
        {
            theirs.revoke(&why);
        }
        Error::Collective(why)
    }

    fn decide(&self, bits: u64, offer: u32) -> Result<Decision, Error> {
        let mut number = locked(&self.group.agreements);
        let absent = self.absent()?;
        let name = Name {
            context: self.group.context,
            number: *number,
        };
        let begun = self.job.take_up(name);
        let mut part = begun.unwrap_or_else(|| Part {
            name,
            members: Arc::clone(&self.group.members),
            group: Arc::downgrade(&self.group),
            agreement: Agreement::new(self.rank(), self.size(), bits, offer, &absent),
        });
        let decision = match self.bring_about(&mut part) {
            Ok(decision) => decision,
            Err(error) => {
                self.job.put_off(part);
                return Err(error);
            }
        };
        *number = number.wrapping_add(1);
        self.job.keep(Answer::new(name, &decision));
        self.node().flush()?;
        if decision.failed.contains(&self.rank()) {
            return Err(self.shut_out("is taken for dead"));
        }
        Ok(decision)
    }

    fn bring_about(&self, part: &mut Part) -> Result<Decision, Error> {
        let (mut looks, mut vain, mut is_quiet) = (0_u32, Vain::default(), true);
        loop {
            part.send(&self.job);
            if let Some(decision) = part.agreement.decision() {
                return Ok(decision.clone());
            }
            // Words may stand behind what nobody will take, and behind that there may be more of it.
            let is_behind = std::mem::take(&mut is_quiet) && self.job.sweep()?;
            let wait = if is_behind { SOON } else { LOOK };
            if let Some(message) = self.node().recv_timeout(part.wanted(), wait)? {
                part.take(&message);
                continue;
            }
            is_quiet = true;
            // An end of the communicator is no reason not to agree.
            let _ = self.look();
            part.agreement.fail(&self.absent()?);
            let awaited = part.agreement.awaited().into_iter();
            let awaited = awaited.map(|rank| part.wanted().from(self.group.members.peers[rank]));
            self.check_in_vain(&awaited.collect::<Vec<_>>(), &mut vain)?;
            looks += 1;
            // A rank may be away for long: it need not find a reminder for each look.
            if looks.is_power_of_two() {
                part.agreement.remind();
            }
        }
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

impl Name {
    /// Its words' tag.
    fn tag(self) -> u64 {
        self.context.tag(Kind::Agreement, self.number)
    }

    fn wanted(self) -> Match {
        Match::any().tag(self.tag())
    }
}

impl Answer {
    fn new(name: Name, decision: &Decision) -> Self {
        let word = Word::Decided(decision.clone()).encode();
        Answer { name, word }
    }

    fn is_for(word: &Message) -> bool {
        let word = Word::decode(word.body());
        word.is_some_and(|word| !matches!(word, Word::Decided(_)))
    }
}

impl Part {
    fn wanted(&self) -> Match {
        self.name.wanted()
    }

    /// Whether it is decided, and nobody can take it up any more.
    fn is_left_over(&self) -> bool {
        self.agreement.decision().is_some() && self.group.strong_count() == 0
    }

    fn take(&mut self, message: &Message) {
        let rank = self.members.rank_of(message.source);
        if let (Some(rank), Some(word)) = (rank, Word::decode(message.body())) {
            self.agreement.handle(rank, word);
        }
    }

    fn send(&mut self, job: &Job) {
        while let Some((to, word)) = self.agreement.poll() {
            job.say(self.members.peers[to], self.name.tag(), &word.encode());
        }
    }
}

impl Decided {
    /// Does something with the tags of words that are answered, before there are others.
    pub fn with_tags<T>(&self, act: impl FnOnce(Vec<u64>) -> T) -> T {
        let known = locked(&self.0);
        let answers = known.answers.iter().map(|answer| answer.name);
        let put_off = known.put_off.iter().map(|part| part.name);
        act(answers.chain(put_off).map(Name::tag).collect())
    }
}

impl Known {
    /// Goes on answering for an agreement, and no more for the one before: all others have left that. Returns what is not
    /// answered any more.
    fn keep(&mut self, answer: Answer) -> Option<Name> {
        let answers = &mut self.answers;
        let is_before = |kept: &Answer| kept.name.context == answer.name.context;
        let before = answers.iter().position(is_before);
        let left = match before {
            Some(before) => answers.remove(before),
            None if answers.len() >= ANSWERED => answers.pop_front(),
            None => None,
        };
        answers.push_back(answer);
        left.map(|left| left.name)
    }
}

impl Job {
    /// Answers for an agreement that this rank can't wait for: it stands by what it has said, and nobody waits for it while
    /// it takes messages.
    fn put_off(&self, part: Part) {
        locked(&self.decided.0).put_off.push(part);
    }

    /// This agreement, if it was put off.
    fn take_up(&self, name: Name) -> Option<Part> {
        let put_off = &mut locked(&self.decided.0).put_off;
        let place = put_off.iter().position(|part| part.name == name)?;
        Some(put_off.swap_remove(place))
    }

    fn keep(&self, answer: Answer) {
        self.keep_in(&mut locked(&self.decided.0), answer);
    }

    fn keep_in(&self, known: &mut Known, answer: Answer) {
        if let Some(Name { context, number }) = known.keep(answer) {
            self.leftovers.over(context, Kind::Agreement, number);
        }
    }

    /// Answers those that have not heard what was decided.
    pub fn answer(&self) {
        let mut known = locked(&self.decided.0);
        for Answer { name, word } in &known.answers {
            while let Ok(Some(message)) = self.node.try_recv(name.wanted()) {
                if Answer::is_for(&message) {
                    self.say(message.source, name.tag(), word);
                }
            }
        }
        for part in &mut known.put_off {
            while let Ok(Some(message)) = self.node.try_recv(part.wanted()) {
                part.take(&message);
                part.send(self);
            }
        }
        let left_over = known.put_off.extract_if(.., |part| part.is_left_over());
        let left_over: Vec<_> = left_over.collect();
        // Under the same lock: a sweep must find each of them in one place or the other.
        for Part {
            name, agreement, ..
        } in left_over
        {
            let decision = agreement.decision().into_iter();
            decision.for_each(|decision| self.keep_in(&mut known, Answer::new(name, decision)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_each_communicator_is_answered_and_so_many_in_all() {
        let name = |context, number| Name {
            context: Context::numbered(context).unwrap(),
            number,
        };
        let decision = Decision {
            bits: 3,
            failed: BTreeSet::new(),
            offer: NO_OFFER,
        };
        let decided = Decided::default();
        let keep = |name| {
            let left = locked(&decided.0).keep(Answer::new(name, &decision));
            left.map(Name::tag)
        };
        let all = 0..ANSWERED as u32;
        all.for_each(|context| assert_eq!(keep(name(context, 0)), None));
        // Those that have come to one later stay for longer.
        assert_eq!(keep(name(0, 1)), Some(name(0, 0).tag()));
        assert_eq!(keep(name(1_000, 0)), Some(name(1, 0).tag()));
        assert_eq!(keep(name(1_001, 0)), Some(name(2, 0).tag()));
        let tags = decided.with_tags(|tags| tags);
        assert_eq!(tags.len(), ANSWERED);
        assert!(tags.contains(&name(0, 1).tag()));
    }
}
