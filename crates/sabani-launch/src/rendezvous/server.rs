//! What the host of a rendezvous knows, without sockets: requests in, replies out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Departure;

/// Keys and values that are said at a time.
const VALUES_BYTES: usize = 64 << 10;

/// What a rank asks of the host.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Here I am, in a job of this size.
    Join { rank: u32, size: u32 },
    /// Keep this for the others.
    Put { key: String, value: String },
    /// Tell me when all have come here.
    Fence,
    /// Who has not come to the fence yet?
    WhoIsMissing,
    /// This rank is done.
    Leave,
    /// The job is to end.
    Abort { status: i32, why: String },
}

/// What the host says to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The rank belongs to the job; here is its key, if the host gives one.
    Welcome { job_key: Option<String> },
    /// It is not let in.
    Refused(Refusal),
    /// Some of what was put since the last fence, with who put it: all have come.
    Values(Vec<(u32, String, String)>),
    /// All have come, and all that was put has been said.
    Fenced,
    /// These have not come yet.
    Missing(Vec<u32>),
    /// A rank has ended.
    Left(Departure),
    /// The host knows that the rank is done, and has sent the others what it owes them.
    Farewell,
}

/// Why a rank is not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub why: String,
    /// Whether its place may become free: it may call again.
    pub again: bool,
}

impl Refusal {
    /// For good.
    pub fn last(why: String) -> Self {
        Self { why, again: false }
    }
}

/// Where a rank is on its way through the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Absent,
    Here,
    AtFence,
    Done,
    Gone,
}

/// What is to be said, and to whom: ranks in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    pub to: Vec<u32>,
    pub replies: Vec<Reply>,
}

/// The host's memory.
#[derive(Debug)]
pub struct Server {
    members: Vec<Member>,
    job_key: Option<String>,
    fresh: BTreeMap<(u32, String), String>,
    departures: Vec<Departure>,
}

impl Server {
    /// Nobody is there yet.
    pub fn new(size: u32, job_key: Option<String>) -> Self {
        Self {
            members: vec![Member::Absent; size as usize],
            job_key,
            fresh: BTreeMap::new(),
            departures: Vec::new(),
        }
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Lets a rank in, or says why not. The next program in the same place is let in if it comes by the
    /// connection of the one before; else it is to meet the next rank 0, once this one has ended.
    pub fn join(&mut self, rank: u32, size: u32, has_place: bool) -> Result<Outgoing, Refusal> {
        let expected = self.members.len();
        if size as usize != expected {
            return Err(Refusal::last(format!(
                "it comes for a job of {size} ranks, this one has {expected}"
            )));
        }
        match self.members.get_mut(rank as usize) {
            Some(member @ Member::Absent) => *member = Member::Here,
            Some(member @ Member::Done) if has_place => *member = Member::Here,
            // The launcher's own child.
            Some(Member::Gone) if has_place => {
                return Err(Refusal::last(format!("rank {rank} has ended")));
            }
            Some(Member::Done | Member::Gone) => {
                return Err(Refusal {
                    why: format!(
                        "rank {rank} was here and has ended, and rank 0 is still in the same program: \
                         the next one begins once that has ended, and nobody comes back into it; \
                         SABANI_START_TIMEOUT (seconds) waits longer"
                    ),
                    again: true,
                });
            }
            Some(Member::Here | Member::AtFence) => {
                return Err(Refusal::last(format!("rank {rank} is here already")));
            }
            None => {
                let why = format!("a job of {size} ranks has no rank {rank}");
                return Err(Refusal::last(why));
            }
        }
        let job_key = self.job_key.clone();
        let past = self.departures.iter().cloned().map(Reply::Left);
        let welcome = Reply::Welcome { job_key };
        Ok(Outgoing {
            to: vec![rank],
            replies: std::iter::once(welcome).chain(past).collect(),
        })
    }

    /// Serves a rank that has joined.
    pub fn handle(&mut self, rank: u32, request: Request) -> Outgoing {
        let reply = match request {
            Request::Put { key, value } => {
                self.fresh.insert((rank, key), value);
                return Outgoing::default();
            }
            Request::Fence => {
                self.members[rank as usize] = Member::AtFence;
                return self.fence();
            }
            Request::WhoIsMissing => Reply::Missing(self.missing()),
            Request::Leave => {
                self.members[rank as usize] = Member::Done;
                Reply::Farewell
            }
            Request::Join { .. } | Request::Abort { .. } => return Outgoing::default(),
        };
        Outgoing {
            to: vec![rank],
            replies: vec![reply],
        }
    }

    /// Notes that a rank has ended, and tells those who are here.
    pub fn left(&mut self, departure: Departure) -> Outgoing {
        let member = &mut self.members[departure.rank as usize];
        if *member == Member::Gone {
            return Outgoing::default();
        }
        *member = Member::Gone;
        self.departures.push(departure.clone());
        let here = self.with(|member| matches!(member, Member::Here | Member::AtFence));
        Outgoing {
            to: here.collect(),
            replies: vec![Reply::Left(departure)],
        }
    }

    /// Whether a rank has said that it is done.
    pub fn is_done(&self, rank: u32) -> bool {
        self.members[rank as usize] == Member::Done
    }

    /// Whether nobody is here any more, and nobody is still to come.
    pub fn is_over(&self) -> bool {
        self.members
            .iter()
            .all(|member| matches!(member, Member::Done | Member::Gone))
    }

    fn fence(&mut self) -> Outgoing {
        if self.members.iter().any(|&member| member != Member::AtFence) {
            return Outgoing::default();
        }
        self.members.fill(Member::Here);
        let mut replies = Vec::new();
        let (mut values, mut bytes) = (Vec::new(), 0);
        for ((rank, key), value) in std::mem::take(&mut self.fresh) {
            let more = key.len() + value.len();
            if bytes + more > VALUES_BYTES && bytes > 0 {
                replies.push(Reply::Values(std::mem::take(&mut values)));
                bytes = 0;
            }
            bytes += more;
            values.push((rank, key, value));
        }
        if !values.is_empty() {
            replies.push(Reply::Values(values));
        }
        replies.push(Reply::Fenced);
        Outgoing {
            to: (0..self.members.len() as u32).collect(),
            replies,
        }
    }

    fn missing(&self) -> Vec<u32> {
        self.with(|member| member != Member::AtFence).collect()
    }

    fn with(&self, is: impl Fn(Member) -> bool) -> impl Iterator<Item = u32> {
        let members = (0..).zip(&self.members);
        members.filter_map(move |(rank, &member)| is(member).then_some(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Request {
        Request::Put {
            key: key.into(),
            value: value.into(),
        }
    }

    fn to(rank: u32, reply: Reply) -> Outgoing {
        Outgoing {
            to: vec![rank],
            replies: vec![reply],
        }
    }

    fn full(size: u32) -> Server {
        let mut server = Server::new(size, Some("secret".into()));
        for rank in 0..size {
            let replies = server.join(rank, size, false).unwrap();
            let job_key = Some("secret".into());
            assert_eq!(replies, to(rank, Reply::Welcome { job_key }));
        }
        server
    }

    #[test]
    fn a_fence_opens_when_all_have_come_and_carries_what_is_new() {
        let mut server = full(2);
        for (round, expected) in [("a", "1"), ("b", "2")] {
            let nothing = Outgoing::default();
            assert_eq!(server.handle(0, put(round, expected)), nothing);
            assert_eq!(server.handle(0, Request::Fence), nothing);
            let missing = server.handle(0, Request::WhoIsMissing);
            assert_eq!(missing, to(0, Reply::Missing(vec![1])));
            let opened = server.handle(1, Request::Fence);
            let values = vec![(0, round.to_owned(), expected.to_owned())];
            let replies = vec![Reply::Values(values), Reply::Fenced];
            let to = vec![0, 1];
            assert_eq!(opened, Outgoing { to, replies });
        }
    }

    #[test]
    fn many_values_are_said_in_pieces() {
        let mut server = full(1);
        let value = "x".repeat(1_000);
        for at in 0..1_000 {
            server.handle(0, put(&format!("key-{at:03}"), &value));
        }
        let mut said = Vec::new();
        let mut replies = server.handle(0, Request::Fence).replies;
        assert_eq!(replies.pop(), Some(Reply::Fenced));
        for reply in replies {
            let Reply::Values(values) = reply else {
                panic!("{reply:?}");
            };
            assert!((1..=VALUES_BYTES / 1_000).contains(&values.len()));
            said.extend(values.into_iter().map(|(_, key, _)| key));
        }
        let expected: Vec<_> = (0..1_000).map(|at| format!("key-{at:03}")).collect();
        assert_eq!(said, expected);
        // One that is longer than a piece goes alone.
        server.handle(0, put("long", &"x".repeat(VALUES_BYTES + 1)));
        assert_eq!(server.handle(0, Request::Fence).replies.len(), 2);
    }

    #[test]
    fn those_who_are_here_and_those_who_come_hear_who_has_left() {
        let mut server = Server::new(3, None);
        server.join(0, 3, false).unwrap();
        server.join(1, 3, false).unwrap();
        let departure = Departure {
            rank: 1,
            why: "was killed".into(),
            failed: true,
        };
        let told = Reply::Left(departure.clone());
        assert_eq!(server.left(departure.clone()), to(0, told.clone()));
        assert_eq!(server.left(departure), Outgoing::default(), "told once");
        assert_eq!(server.join(2, 3, false).unwrap().replies[1], told);
        assert!(!server.is_over());
        server.handle(0, Request::Leave);
        server.handle(2, Request::Leave);
        assert!(server.is_over() && server.is_done(2));
    }

    #[test]
    fn strangers_are_refused() {
        let mut server = full(2);
        let mut refused = |rank, size| {
            let refusal = server.join(rank, size, false).unwrap_err();
            assert!(!refusal.again, "{refusal:?}");
            refusal.why
        };
        assert!(refused(1, 2).contains("here already"));
        assert!(refused(2, 2).contains("no rank 2"));
        assert!(refused(0, 3).contains("this one has 2"));
    }

    #[test]
    fn the_next_program_in_the_same_place_comes_the_same_way_or_calls_again() {
        let mut server = full(2);
        server.handle(1, Request::Leave);
        let refusal = server.join(1, 2, false).unwrap_err();
        assert!(refusal.again && refusal.why.contains("has ended"));
        server.join(1, 2, true).unwrap();
        server.left(Departure {
            rank: 1,
            why: "has ended".into(),
            failed: false,
        });
        let refusal = server.join(1, 2, false).unwrap_err();
        assert!(refusal.again, "{refusal:?}");
    }
}
