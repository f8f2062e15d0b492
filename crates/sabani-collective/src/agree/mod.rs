//! Agreement in spite of failures: all ranks that survive learn the same bits, the same set of ranks
//! that have failed, and the same one of the numbers that they have offered.
//!
//! The lowest rank that has not failed coordinates. It gathers everybody's bits, proposes what follows
//! from them, and decides when all have accepted: four messages one after the other, `4 (P - 1)` in all.
//! A coordinator that fails is followed by the next one, who hears from all what was proposed to them;
//! the latest proposal is then made again, because somebody may have decided it. So the time grows with
//! the failures that happen, not with those that might.
//!
//! What holds, if messages between survivors arrive and whoever fails is noticed at last:
//!
//! 1. Every survivor decides.
//! 2. All decisions are equal, also those of ranks that fail afterwards.
//! 3. Nobody is decided to have failed whom no rank took for failed. All who are not decided to have
//!    failed have contributed, and what they knew of failures is decided as well.
//! 4. The decided bits are exactly those that all have set who are not decided to have failed; the
//!    decided number is one that was offered, not always by a survivor.
//!
//! A rank that is taken for failed by mistake decides the same as those that live, and finds itself among
//! the failed. Only ranks that take *each other* for failed, as when a network falls in two, may decide
//! differently.
//!
//! `docs/collectives.md` says why all of this holds.

mod message;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use message::Message;

/// A set of ranks.
pub type Ranks = BTreeSet<usize>;

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The bits that all have set who have not failed.
    pub bits: u64,
    /// Who has failed.
    pub failed: Ranks,
    /// What one of the ranks had to offer.
    pub offer: u32,
}

/// A proposal that a rank has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Accepted {
    /// Who has made it. Later coordinators have higher ranks.
    pub coordinator: usize,
    /// What it was.
    pub proposal: Decision,
}

/// What a rank tells a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contribution {
    /// Its bits.
    pub bits: u64,
    /// The latest proposal that it has accepted.
    pub accepted: Option<Accepted>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// Somebody else coordinates.
    Participant,
    /// This rank does, and hears what the others have.
    Gathering(BTreeMap<usize, Contribution>),
    /// It has made its proposal.
    Proposing {
        proposal: Decision,
        accepted_by: Ranks,
    },
}

/// One rank's part in an agreement.
///
/// # Driving
/// Send what [`poll`](Agreement::poll) says until it says nothing; tell
/// [`handle`](Agreement::handle) what comes and [`fail`](Agreement::fail) who has failed; poll again.
/// When nothing has come for long, [`remind`](Agreement::remind): whoever is waited for then has
/// something to answer, or to be found failed by. A rank that has decided goes on answering until all
/// others have decided or failed, for instance until the next agreement is decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agreement {
    rank: usize,
    size: usize,
    own: Contribution,
    offer: u32,
    failed: Ranks,
    coordinator: Option<usize>,
    role: Role,
    decision: Option<Decision>,
    outbox: VecDeque<(usize, Message)>,
}

impl Agreement {
    /// Begins an agreement as `rank` of `size`, with these bits, and these ranks known to have failed.
    /// Everybody offers a number, and one of them is chosen.
    pub fn new(rank: usize, size: usize, bits: u64, offer: u32, failed: &Ranks) -> Self {
        let mut agreement = Agreement {
            rank,
            size,
            own: Contribution {
                bits,
                accepted: None,
            },
            offer,
            failed: Ranks::new(),
            coordinator: None,
            role: Role::Participant,
            decision: None,
            outbox: VecDeque::new(),
        };
        agreement.fail(failed);
        agreement
    }

    /// What was decided, once it is.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// What to send next, and to whom.
    pub fn poll(&mut self) -> Option<(usize, Message)> {
        self.outbox.pop_front()
    }

    /// These ranks have failed, some of them perhaps long ago. That can't be taken back.
    pub fn fail(&mut self, ranks: &Ranks) {
        if self.decision.is_some() {
            return;
        }
        let others = ranks.iter().copied();
        self.failed
            .extend(others.filter(|&rank| rank < self.size && rank != self.rank));
        let coordinator = (0..self.size).find(|rank| !self.failed.contains(rank));
        if self.coordinator != coordinator {
            self.coordinator = coordinator;
            if coordinator == Some(self.rank) {
                self.begin_to_coordinate();
            } else {
                self.contribute();
            }
        }
        self.coordinate();
    }

    /// Takes a message that has come from `peer`.
    pub fn handle(&mut self, peer: usize, message: Message) {
        if peer >= self.size || peer == self.rank {
            return;
        }
        if let Some(decision) = &self.decision {
            // Somebody waits who need not.
            if !matches!(message, Message::Decided(_)) {
                let told = Message::Decided(decision.clone());
                self.outbox.push_back((peer, told));
            }
            return;
        }
        // Of a coordinator that has failed, its successors may have been told already what this rank
        // has accepted: no more of it may be accepted.
        if self.failed.contains(&peer) && !matches!(message, Message::Decided(_)) {
            return;
        }
        match message {
            Message::Decided(decision) => self.decide(decision),
            Message::Ask { failed } => {
                self.fail(&failed);
                if self.coordinator == Some(peer) {
                    self.contribute();
                }
            }
            Message::Contribute {
                failed,
                contribution,
            } => {
                self.fail(&failed);
                if let Role::Gathering(heard) = &mut self.role {
                    heard.insert(peer, contribution);
                }
                self.coordinate();
            }
            Message::Propose { failed, proposal } => {
                self.fail(&failed);
                if self.coordinator == Some(peer) {
                    self.accept(peer, proposal);
                    self.outbox.push_back((peer, Message::Accept));
                }
            }
            Message::Accept => {
                if let Role::Proposing { accepted_by, .. } = &mut self.role {
                    accepted_by.insert(peer);
                }
                self.coordinate();
            }
        }
    }

    /// Sends again what those have not answered for whom this rank waits.
    pub fn remind(&mut self) {
        if self.decision.is_some() {
            return;
        }
        let question = match &self.role {
            Role::Participant => return self.contribute(),
            Role::Gathering(_) => self.ask(),
            Role::Proposing { proposal, .. } => self.propose(proposal),
        };
        self.send_all(&self.awaited(), &question);
    }

    /// Whom this rank waits for.
    pub fn awaited(&self) -> Vec<usize> {
        let others = self.living().filter(|&rank| rank != self.rank);
        match &self.role {
            _ if self.decision.is_some() => Vec::new(),
            Role::Participant => self.coordinator.into_iter().collect(),
            Role::Gathering(heard) => others.filter(|rank| !heard.contains_key(rank)).collect(),
            Role::Proposing { accepted_by, .. } => {
                others.filter(|rank| !accepted_by.contains(rank)).collect()
            }
        }
    }

    /// All that have not failed.
    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.size).filter(|rank| !self.failed.contains(rank))
    }

    fn others_living(&self) -> Vec<usize> {
        self.living().filter(|&rank| rank != self.rank).collect()
    }

    fn begin_to_coordinate(&mut self) {
        let own = (self.rank, self.own.clone());
        self.role = Role::Gathering(BTreeMap::from([own]));
        // Others come to the first coordinator by themselves. A later one may have been chosen
        // because of a failure that they don't know of, and some may have decided.
        if self.rank > 0 {
            self.send_all(&self.others_living(), &self.ask());
        }
    }

    /// Goes on as coordinator as far as the answers allow.
    fn coordinate(&mut self) {
        if let Role::Gathering(heard) = &self.role
            && self.living().all(|rank| heard.contains_key(&rank))
        {
            let proposal = self.conclude(heard);
            self.accept(self.rank, proposal.clone());
            self.send_all(&self.others_living(), &self.propose(&proposal));
            self.role = Role::Proposing {
                proposal,
                accepted_by: Ranks::from([self.rank]),
            };
        }
        if let Role::Proposing {
            proposal,
            accepted_by,
        } = &self.role
            && self.living().all(|rank| accepted_by.contains(&rank))
        {
            self.decide(proposal.clone());
        }
    }

    /// What to propose: what somebody may have decided; else what all contributions come to.
    fn conclude(&self, heard: &BTreeMap<usize, Contribution>) -> Decision {
        let accepted = heard.values().filter_map(|c| c.accepted.as_ref());
        if let Some(latest) = accepted.max_by_key(|accepted| accepted.coordinator) {
            return latest.proposal.clone();
        }
        let of_living = heard.iter().filter(|(rank, _)| !self.failed.contains(rank));
        Decision {
            bits: of_living.fold(u64::MAX, |bits, (_, c)| bits & c.bits),
            failed: self.failed.clone(),
            offer: self.offer,
        }
    }

    fn accept(&mut self, coordinator: usize, proposal: Decision) {
        self.own.accepted = Some(Accepted {
            coordinator,
            proposal,
        });
    }

    fn decide(&mut self, decision: Decision) {
        if self.coordinator == Some(self.rank) {
            // Also to those that have failed, should one be alive: it waits.
            let others = (0..self.size).filter(|&rank| rank != self.rank);
            let others: Vec<_> = others.collect();
            self.send_all(&others, &Message::Decided(decision.clone()));
        }
        self.role = Role::Participant;
        self.decision = Some(decision);
    }

    fn contribute(&mut self) {
        let message = Message::Contribute {
            failed: self.failed.clone(),
            contribution: self.own.clone(),
        };
        let to = self.coordinator.filter(|&to| to != self.rank);
        self.outbox.extend(to.map(|to| (to, message)));
    }

    fn ask(&self) -> Message {
        Message::Ask {
            failed: self.failed.clone(),
        }
    }

    fn propose(&self, proposal: &Decision) -> Message {
        Message::Propose {
            failed: self.failed.clone(),
            proposal: proposal.clone(),
        }
    }

    fn send_all(&mut self, peers: &[usize], message: &Message) {
        let messages = peers.iter().map(|&peer| (peer, message.clone()));
        self.outbox.extend(messages);
    }
}
