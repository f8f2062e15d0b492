//! Parallel programs: ranks that were started together, messages of typed elements between them, and
//! collectives.
//!
//! ```
//! # fn main() -> Result<(), sabani::comm::Error> {
//! let comm = sabani::Comm::init()?; // alone here: a world of one
//! let (rank, size) = (comm.rank(), comm.size());
//! let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
//! let mut from_left = [0.0; 2];
//! comm.sendrecv(right, &[rank as f64, 1.5], left, &mut from_left, 7)?;
//! assert_eq!(from_left, [left as f64, 1.5]);
//! let mut sum = [rank as u64];
//! comm.allreduce_in_place(&mut sum, sabani::comm::Sum)?;
//! assert_eq!(sum, [(0..size as u64).sum::<u64>()]);
//! # Ok(())
//! # }
//! ```
//!
//! The same program starts under `sabani run`, `mpirun`, `mpiexec`, `srun` or in a Kubernetes Job:
//! see `docs/launch.md`.

mod agree;
mod background;
mod collective;
mod epoch;
mod error;
mod group;
mod leftovers;
mod lives;
mod message;
mod split;
mod start;
mod strided;
mod tag;

use std::fmt;
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};

pub use bytemuck::Pod;
use sabani_launch::{Launcher, Member, World};

pub use agree::Agreed;
use background::Workers;
pub use background::{Prepared, Receiving, Sending, Started};
pub use collective::{And, Commutative, InOrder, Max, Min, Operation, Or, Product, Sum, Xor};
use collective::{Chooser, Explainer, Series};
pub use error::{Error, Unreachable};
pub use message::Received;
pub use strided::Strided;
use tag::Context;

use crate::{Builder, Node};
use agree::Decided;
use group::Group;
use leftovers::Leftovers;
use lives::Lives;

/// A group of ranks that talk to each other: all that were started together, or some of them
/// ([`Comm::split`]). Cheap to clone, usable from several threads.
///
/// # Failures
/// The first failure of a rank that becomes known ends all communicators that it is in: calls that wait
/// fail with [`Error::RankLost`] instead of waiting forever, later ones at once. A failure is known within
/// a second where the launcher tells (`sabani run`, a rendezvous), else when the rank has been silent for
/// 10 s ([`Builder::dead_after`]); ranks tell each other. [`Comm::agree`] and [`Comm::shrink`] are for
/// those that go on. A rank that ends in good order ends communicators only if it is still waited for.
#[derive(Clone)]
pub struct Comm {
    job: Arc<Job>,
    group: Arc<Group>,
    /// The collectives that are called through this handle.
    series: Arc<Series>,
}

/// What all communicators of a process share. The node goes before the world: it lingers until the
/// others have what was sent, and only then is the launcher told that this rank is done.
struct Job {
    node: Node,
    world: Mutex<World>,
    lives: Lives,
    decided: Decided,
    leftovers: Arc<Leftovers>,
    /// This process's rank in the world.
    rank: usize,
    /// For each rank of the world the first one on its host.
    host_of: Vec<usize>,
    /// How many numbers this process has offered for communicators.
    offered: AtomicU32,
    workers: Workers,
    launcher: Launcher,
    /// Who tells the user what is chosen.
    explainer: Option<Explainer>,
}

impl Comm {
    /// Joins the job that this process was started in, and returns when all ranks have come and can
    /// reach each other. A program that was started alone is a world of one.
    ///
    /// Costs two meetings through the launcher, a few handshakes for each rank, and a broadcast of what
    /// rank 0's user wants. Waits at most 60 s for other ranks (`SABANI_START_TIMEOUT`).
    ///
    /// # Errors
    /// [`Error::Launch`], with the cure; [`Error::Unreachable`], which names the pairs;
    /// [`Error::Algorithms`] and [`Error::Network`] if rank 0's environment makes no sense;
    /// [`Error::Node`].
    pub fn init() -> Result<Self, Error> {
        Self::init_with(|builder| builder)
    }

    /// Like [`Comm::init`], with a node that is not the default one.
    ///
    /// # Errors
    /// As [`Comm::init`].
    pub fn init_with(tune: impl Fn(Builder) -> Builder) -> Result<Self, Error> {
        let (node, world) = start::join(tune)?;
        let host_of = hosts_of(world.members());
        let rank = world.rank() as usize;
        let all = (0..host_of.len()).collect();
        let leftovers = Arc::<Leftovers>::default();
        let group = Group::new(Context::WORLD, all, rank, &host_of, Arc::clone(&leftovers));
        let comm = Comm {
            group: Arc::new(group),
            series: Arc::new(Series::new(0, Chooser::default())),
            job: Arc::new(Job {
                node,
                rank,
                host_of,
                launcher: world.launcher(),
                world: Mutex::new(world),
                lives: Lives::default(),
                decided: Decided::default(),
                leftovers,
                offered: AtomicU32::new(0),
                workers: Workers::default(),
                explainer: collective::explainer(rank),
            }),
        };
        comm.set_by_environment()?;
        Ok(comm)
    }

    /// This process's rank: 0 to [`Comm::size`] - 1.
    pub fn rank(&self) -> usize {
        self.group.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// What has started the job.
    pub fn launcher(&self) -> Launcher {
        self.job.launcher
    }

    /// How many ranks before this one are on the same host.
    pub fn local_rank(&self) -> usize {
        self.group.hosts.place(self.rank()).1
    }

    /// The name of a rank's host.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn host_of(&self, rank: usize) -> Result<String, Error> {
        let peer = self.peer(rank)?;
        let world = self.job.world();
        Ok(world.members()[peer.0 as usize].host.clone())
    }

    /// For each rank a number, equal where the host is the same: names may not tell hosts apart.
    pub fn hosts(&self) -> Vec<usize> {
        let ranks = 0..self.size();
        ranks.map(|rank| self.group.hosts.place(rank).0).collect()
    }

    /// The node below: its peers' ids are ranks of the world, [`Comm::init`]'s. For statistics and
    /// steering; of its tags, those with a top bit set belong to communicators, as do its events.
    pub fn node(&self) -> &Node {
        &self.job.node
    }

    /// Ends the whole job with this exit status, where the launcher can do that, and this process.
    pub fn abort(&self, status: i32, why: &str) -> ! {
        self.job.world().abort(status, why);
        process::exit(status)
    }
}

impl Job {
    fn world(&self) -> MutexGuard<'_, World> {
        locked(&self.world)
    }
}

/// A panic elsewhere leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// For each rank the first one on its host.
fn hosts_of(members: &[Member]) -> Vec<usize> {
    let first_beside = |(rank, member): (usize, &Member)| {
        let beside = members.iter().position(|other| other.is_beside(member));
        beside.unwrap_or(rank)
    };
    members.iter().enumerate().map(first_beside).collect()
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm(rank {} of {})", self.rank(), self.size())
    }
}
