//! What ranks of a job measure with: calls of collectives, over Sabani or over streams of TCP, by clocks that agree.

mod call;
mod calls;
mod carrier;
mod clock;
mod tcp;

use std::collections::HashMap;

use anyhow::Result;
use sabani::Comm;
use sabani_collective::Hosts;

pub use call::{Buffers, Call};
pub use calls::Calls;
pub use carrier::Carrier;
pub use tcp::Mesh;

/// Who is where.
///
/// # Errors
/// None for ranks that are there.
pub fn hosts(comm: &Comm) -> Result<Hosts> {
    let mut numbers = HashMap::new();
    let mut host_of_rank = Vec::new();
    for rank in 0..comm.size() {
        let next = numbers.len();
        host_of_rank.push(*numbers.entry(comm.host_of(rank)?).or_insert(next));
    }
    Ok(Hosts::new(&host_of_rank))
}
