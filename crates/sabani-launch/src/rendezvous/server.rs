//! What the host of a rendezvous knows, without sockets: requests in, replies out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Departure;

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
    /// It does not, and why.
    Refused(String),
    /// All have come. What was put since the last fence, with who put it.
    Fenced(Vec<(u32, String, String)>),
    /// These have not come yet.
    Missing(Vec<u32>),
    /// A rank has ended.
    Left(Departure),
    /// The host knows that the rank is done, and has sent the others what it owes them.
    Farewell,
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

/// A reply, and to whom.
pub type Outgoing = (u32, Reply);

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

    /// Lets a rank in, again if the program before it in the same place is done; or says why not.
    pub fn join(&mut self, rank: u32, size: u32) -> Result<Vec<Outgoing>, String> {
        let expected = self.members.len();
        if size as usize != expected {
            return Err(format!(
                "it comes for a job of {size} ranks, this one has {expected}"
            ));
        }
        let member = self.members.get_mut(rank as usize);
        match member {
            Some(member @ (Member::Absent | Member::Done)) => *member = Member::Here,
            Some(_) => return Err(format!("rank {rank} is here already")),
            None => return Err(format!("a job of {size} ranks has no rank {rank}")),
        }
        let job_key = self.job_key.clone();
        let past = self.departures.iter().cloned().map(Reply::Left);
        let replies = std::iter::once(Reply::Welcome { job_key }).chain(past);
        Ok(replies.map(|reply| (rank, reply)).collect())
    }

    /// Serves a rank that has joined.
    pub fn handle(&mut self, rank: u32, request: Request) -> Vec<Outgoing> {
        match request {
            Request::Put { key, value } => {
                self.fresh.insert((rank, key), value);
                Vec::new()
            }
            Request::Fence => {
                self.members[rank as usize] = Member::AtFence;
                self.fence()
            }
            Request::WhoIsMissing => vec![(rank, Reply::Missing(self.missing()))],
            Request::Leave => {
                self.members[rank as usize] = Member::Done;
                vec![(rank, Reply::Farewell)]
            }
            Request::Join { .. } | Request::Abort { .. } => Vec::new(),
        }
    }

    /// Notes that a rank has ended, and tells those who are here.
    pub fn left(&mut self, departure: Departure) -> Vec<Outgoing> {
        let member = &mut self.members[departure.rank as usize];
        if *member == Member::Gone {
            return Vec::new();
        }
        *member = Member::Gone;
        self.departures.push(departure.clone());
        let here = self.with(|member| matches!(member, Member::Here | Member::AtFence));
        here.map(|rank| (rank, Reply::Left(departure.clone())))
            .collect()
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

    fn fence(&mut self) -> Vec<Outgoing> {
        if self.members.iter().any(|&member| member != Member::AtFence) {
            return Vec::new();
        }
        self.members.fill(Member::Here);
        let fresh = std::mem::take(&mut self.fresh).into_iter();
        let values: Vec<_> = fresh
            .map(|((rank, key), value)| (rank, key, value))
            .collect();
        (0..self.members.len() as u32)
            .map(|rank| (rank, Reply::Fenced(values.clone())))
            .collect()
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

    fn full(size: u32) -> Server {
        let mut server = Server::new(size, Some("secret".into()));
        for rank in 0..size {
            let replies = server.join(rank, size).unwrap();
            let job_key = Some("secret".into());
            assert_eq!(replies, [(rank, Reply::Welcome { job_key })]);
        }
        server
    }

    #[test]
    fn a_fence_opens_when_all_have_come_and_carries_what_is_new() {
        let mut server = full(2);
        for (round, expected) in [("a", "1"), ("b", "2")] {
            assert!(server.handle(0, put(round, expected)).is_empty());
            assert!(server.handle(0, Request::Fence).is_empty());
            let missing = server.handle(0, Request::WhoIsMissing);
            assert_eq!(missing, [(0, Reply::Missing(vec![1]))]);
            let opened = server.handle(1, Request::Fence);
            let values = vec![(0, round.to_owned(), expected.to_owned())];
            assert_eq!(
                opened,
                [
                    (0, Reply::Fenced(values.clone())),
                    (1, Reply::Fenced(values))
                ]
            );
        }
    }

    #[test]
    fn those_who_are_here_and_those_who_come_hear_who_has_left() {
        let mut server = Server::new(3, None);
        server.join(0, 3).unwrap();
        server.join(1, 3).unwrap();
        let departure = Departure {
            rank: 1,
            why: "was killed".into(),
            failed: true,
        };
        let told = Reply::Left(departure.clone());
        assert_eq!(server.left(departure.clone()), [(0, told.clone())]);
        assert!(server.left(departure).is_empty(), "told once");
        assert_eq!(server.join(2, 3).unwrap()[1], (2, told));
        assert!(!server.is_over());
        server.handle(0, Request::Leave);
        server.handle(2, Request::Leave);
        assert!(server.is_over() && server.is_done(2));
    }

    #[test]
    fn strangers_are_refused() {
        let mut server = full(2);
        assert!(server.join(1, 2).unwrap_err().contains("here already"));
        assert!(server.join(2, 2).unwrap_err().contains("no rank 2"));
        assert!(server.join(0, 3).unwrap_err().contains("this one has 2"));
        server.handle(1, Request::Leave);
        server
            .join(1, 2)
            .expect("the next program in the same place");
    }
}
