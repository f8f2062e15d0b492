//! Which ranks of the world a communicator has.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use sabani_collective::Hosts;

use super::epoch::Epoch;
use super::leftovers::Leftovers;
use super::tag::Context;
use super::{Comm, Error};
use crate::PeerId;

/// Who has which rank.
pub(super) struct Members {
    /// For each rank its process, whose id is its rank in the world.
    pub peers: Vec<PeerId>,
    /// For each process of the world its rank here.
    places: Vec<Option<usize>>,
}

impl Members {
    /// The rank of a process, if it is a member.
    pub fn rank_of(&self, peer: PeerId) -> Option<usize> {
        *self.places.get(peer.0 as usize)?
    }
}

/// What makes a communicator, at one of its ranks.
pub(super) struct Group {
    pub context: Context,
    /// This process's rank in it.
    pub rank: usize,
    pub members: Arc<Members>,
    /// Who shares a host.
    pub hosts: Hosts,
    pub epoch: Epoch,
    /// How many times its ranks have agreed on something.
    pub agreements: Mutex<u32>,
    /// How many rows of collectives have been started here.
    pub started: AtomicU32,
    /// When calls that don't wait have last looked whether it has ended.
    pub looked: Mutex<Instant>,
    /// They have found that all others have ended.
    pub is_alone: AtomicBool,
    leftovers: Arc<Leftovers>,
}

impl Group {
    /// `members` are ranks of the world, of which this process is one; `host_of` has a number for each
    /// rank of the world, equal where the host is.
    pub fn new(
        context: Context,
        members: Vec<usize>,
        me: usize,
        host_of: &[usize],
        leftovers: Arc<Leftovers>,
    ) -> Self {
        let mut places = vec![None; host_of.len()];
        for (rank, &member) in members.iter().enumerate() {
            places[member] = Some(rank);
        }
        let hosts: Vec<_> = members.iter().map(|&member| host_of[member]).collect();
        Group {
            context,
            rank: places[me].expect("a process makes only groups that it is in"),
            members: Arc::new(Members {
                peers: members
                    .iter()
                    .map(|&member| PeerId(member as u32))
                    .collect(),
                places,
            }),
            hosts: Hosts::new(&hosts),
            epoch: Epoch::default(),
            agreements: Mutex::default(),
            started: AtomicU32::new(0),
            looked: Mutex::new(Instant::now()),
            is_alone: AtomicBool::new(false),
            leftovers,
        }
    }

    pub fn size(&self) -> usize {
        self.members.peers.len()
    }

    /// The rank here of a process, if it is a member.
    pub fn rank_of(&self, peer: PeerId) -> Option<usize> {
        self.members.rank_of(peer)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.leftovers.close(self.context);
    }
}

impl Comm {
    /// The process that has a rank.
    pub(super) fn peer(&self, rank: usize) -> Result<PeerId, Error> {
        let peer = self.group.members.peers.get(rank).copied();
        peer.ok_or(Error::NoSuchRank {
            rank,
            size: self.size(),
        })
    }

    /// The rank of a process that has sent something in this communicator.
    pub(super) fn rank_of(&self, peer: PeerId) -> Result<usize, Error> {
        let rank = self.group.rank_of(peer);
        rank.ok_or(Error::NoSuchRank {
            rank: peer.0 as usize,
            size: self.size(),
        })
    }
}
