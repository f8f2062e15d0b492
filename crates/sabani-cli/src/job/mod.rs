//! What ranks of a job measure with: calls of collectives, over Sabani or over streams of TCP, by clocks that agree.

mod call;
mod calls;
mod carrier;
mod clock;
mod tcp;

use anyhow::{Context, Result};
use sabani::Comm;
use sabani_collective::Hosts;
use serde::{Serialize, de::DeserializeOwned};

pub use call::{Buffers, Call};
pub use calls::Calls;
pub use carrier::Carrier;
pub use tcp::Mesh;

/// Who is where.
pub fn hosts(comm: &Comm) -> Hosts {
    Hosts::new(&comm.hosts())
}

/// What rank 0 has to say, at all ranks; the others give `None`.
///
/// # Errors
/// If a rank is lost.
pub fn tell<T: Serialize + DeserializeOwned>(comm: &Comm, what: Option<T>) -> Result<T> {
    let mut bytes = what.map_or(Ok(Vec::new()), |what| postcard::to_stdvec(&what))?;
    let mut length = [bytes.len() as u64];
    comm.bcast(0, &mut length)?;
    bytes.resize(length[0] as usize, 0);
    comm.bcast(0, &mut bytes)?;
    postcard::from_bytes(&bytes).context("what rank 0 says")
}
