//! Requests and answers, one after the other.

use std::time::Instant;

use anyhow::{Result, bail};

use super::{
    control::Outcome,
    measure::Stop,
    task::{ANSWER_BYTES, REQUEST_BYTES},
    transport::{Delivery, Endpoint},
};

/// Asks `count` times. What is lost is asked again.
///
/// # Errors
/// If the transport fails or no answer comes any more.
pub fn client(endpoint: &mut dyn Endpoint, count: u64) -> Result<Outcome> {
    let stop = Stop::default();
    let start = Instant::now();
    for _ in 0..count {
        let mut tries = 0;
        while endpoint.ask(REQUEST_BYTES, ANSWER_BYTES, &stop)? != Delivery::Message {
            tries += 1;
            if tries == 20 {
                bail!("no answer comes: is a firewall in the way?");
            }
        }
    }
    Ok(Outcome::Transactions {
        elapsed: start.elapsed(),
    })
}

/// Answers.
///
/// # Errors
/// If the transport fails.
pub fn server(endpoint: &mut dyn Endpoint, stop: &Stop) -> Result<Outcome> {
    while endpoint.answer(REQUEST_BYTES, ANSWER_BYTES, stop)? != Delivery::Stopped {}
    Ok(Outcome::Served)
}
