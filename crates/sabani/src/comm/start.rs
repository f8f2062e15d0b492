//! From a process that knows nothing to one that knows all others and can reach them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use sabani_launch::{JobKey as KeySource, Member, World};
use sabani_proto::seal;

use super::{Error, Unreachable};
use crate::{Builder, Error as NodeError, JobKey, Node, PeerId};

/// How long ranks that share cores look for messages before they sleep. Most of what a rank waits for has
/// come by then: waking up takes some 20 µs, of those who wake it too.
const SPIN_YIELDING: Duration = Duration::from_micros(300);
/// How long the handshakes of the start may take together. A single one is given up after 5 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// Joins the job: opens a node, tells the others where it is, and makes sure that they can be
/// reached.
///
/// # Errors
/// As [`super::Comm::init`].
pub fn join(tune: impl Fn(Builder) -> Builder) -> Result<(Node, World), Error> {
    let mut world = World::join()?;
    let key = key(&world)?;
    let node = open(&world, &key, tune)?;
    world.meet(node.local_addr())?;
    for (rank, member) in (0..).zip(world.members()) {
        if rank != world.rank() {
            node.add_peer(PeerId(rank), member.address)?;
        }
    }
    let unreachable = try_connections(&node, &world)?;
    if !unreachable.is_empty() {
        let error = Error::Unreachable(unreachable);
        world.fail(&error.to_string());
        return Err(error);
    }
    world.fence()?;
    Ok((node, world))
}

fn key(world: &World) -> Result<JobKey, Error> {
    match world.job_key() {
        KeySource::File(path) => Ok(JobKey::load(path)?),
        KeySource::None => Ok(JobKey::generate()?),
        KeySource::Shared(hex) => seal::JobKey::from_hex(hex).map(JobKey).map_err(|error| {
            let problem = error.to_string();
            let path = format!("the job key of {}", world.launcher()).into();
            NodeError::JobKey { path, problem }.into()
        }),
    }
}

/// Opens a node at the first port that is free, of those that it may use.
fn open(world: &World, key: &JobKey, tune: impl Fn(Builder) -> Builder) -> Result<Node, Error> {
    for port in world.ports() {
        let builder = Node::builder(PeerId(world.rank()))
            .bind(SocketAddr::new(world.address(), port))
            .job_key(key.clone());
        let builder = match is_alone_here(world) {
            true => builder.one_host(world.size() - 1),
            false => builder,
        };
        match tune(spare_cores(builder, world)).open() {
            Err(NodeError::Socket { source, .. })
                if port != 0 && source.kind() == ErrorKind::AddrInUse => {}
            opened => return Ok(opened?),
        }
    }
    Err(world.no_free_port().into())
}

/// Where ranks share cores, one that waits leaves its core to one that has something to do.
fn spare_cores(builder: Builder, world: &World) -> Builder {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    match world.local_size() {
        Some(ranks) if ranks as usize > cores => builder.spin(SPIN_YIELDING).spin_yielding(true),
        _ => builder,
    }
}

/// Whether all ranks are on this host.
fn is_alone_here(world: &World) -> bool {
    world.local_size() == Some(world.size())
}

/// Connects to some of the others, all at a time, and returns those that can't be reached.
fn try_connections(node: &Node, world: &World) -> Result<Vec<Unreachable>, Error> {
    let peers = to_try(world.rank() as usize, world.members());
    for &peer in &peers {
        match node.connect(PeerId(peer as u32), Duration::ZERO) {
            Ok(()) | Err(NodeError::Unconnected { .. } | NodeError::PeerLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut unreachable = Vec::new();
    for peer in peers {
        let left = deadline.saturating_duration_since(Instant::now());
        let why = match node.connect(PeerId(peer as u32), left) {
            Ok(()) => continue,
            Err(NodeError::PeerLost { why: Some(why), .. }) => why.to_string(),
            Err(NodeError::Unconnected { why, .. }) => why.to_string(),
            Err(error) => return Err(error.into()),
        };
        let place = |rank: usize| {
            let Member { host, address, .. } = &world.members()[rank];
            (host.clone(), *address)
        };
        let from = world.rank() as usize;
        unreachable.push(Unreachable {
            from,
            from_place: place(from),
            to: peer,
            to_place: place(peer),
            why,
        });
    }
    Ok(unreachable)
}

/// Whom a rank tries to reach: the next one, and, as the first of its host, the first one of each host
/// behind it. So every pair of hosts is tried once, with few handshakes however many ranks
/// there are.
fn to_try(rank: usize, members: &[Member]) -> BTreeSet<usize> {
    let first_of = |at: usize| {
        let beside = members
            .iter()
            .position(|other| other.is_beside(&members[at]));
        beside == Some(at)
    };
    let mut peers = BTreeSet::from([(rank + 1) % members.len()]);
    if first_of(rank) {
        peers.extend((rank + 1..members.len()).filter(|&other| first_of(other)));
    }
    peers.remove(&rank);
    peers
}
