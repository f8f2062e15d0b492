//! One way, as fast as it goes.

use anyhow::Result;

use super::{
    control::Outcome,
    measure::{Limit, Stop, Tally},
    transport::Endpoint,
};

/// Sends messages.
///
/// # Errors
/// If the transport fails.
pub fn client(endpoint: &mut dyn Endpoint, size: usize, limit: Limit) -> Result<Outcome> {
    let messages = endpoint.burst_send(size, limit)?;
    Ok(Outcome::Sent { messages })
}

/// Counts what arrives.
///
/// # Errors
/// If the transport fails, or too little arrived to tell a rate.
pub fn server(
    endpoint: &mut dyn Endpoint,
    size: usize,
    limit: Limit,
    stop: &Stop,
) -> Result<Outcome> {
    let mut tally = Tally::new(size, limit);
    endpoint.burst_receive(size, &mut tally, stop)?;
    let (bytes, elapsed) = tally.rate()?;
    Ok(Outcome::Burst {
        bytes,
        elapsed,
        messages: tally.messages(),
    })
}
