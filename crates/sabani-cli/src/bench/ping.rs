//! Half of a round trip.

use std::time::Instant;

use anyhow::{Result, bail};
use hdrhistogram::Histogram;

use super::{
    control::Outcome,
    measure::{Limit, Stop},
    transport::{Delivery, Endpoint},
};

/// Losses in a row after which the peer counts as gone.
const MAX_LOST_IN_A_ROW: u32 = 20;

/// Sends messages and waits for each to come back.
///
/// # Errors
/// If the transport fails or nothing comes back any more.
pub fn client(endpoint: &mut dyn Endpoint, size: usize, limit: Limit) -> Result<Outcome> {
    let stop = Stop::default();
    let mut round_trips_ns = Histogram::<u64>::new(3)?;
    let (mut lost, mut lost_in_a_row) = (0, 0);
    let start = Instant::now();
    for done in 0.. {
        let before = Instant::now();
        endpoint.send(size)?;
        let delivery = endpoint.receive(size, &stop)?;
        let round_trip = before.elapsed();
        match delivery {
            Delivery::Message => {
                lost_in_a_row = 0;
                if limit.warm_up().reached(start, done) {
                    round_trips_ns.record(round_trip.as_nanos() as u64)?;
                }
            }
            Delivery::Lost | Delivery::Stopped => {
                lost += 1;
                lost_in_a_row += 1;
            }
        }
        if lost_in_a_row == MAX_LOST_IN_A_ROW {
            bail!("nothing comes back: is a firewall in the way?");
        }
        if limit.reached(start, done + 1) && !round_trips_ns.is_empty() {
            break;
        }
    }
    let round_trips_ns = round_trips_ns
        .iter_recorded()
        .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
        .collect();
    Ok(Outcome::Ping {
        round_trips_ns,
        lost,
    })
}

/// Sends back what comes.
///
/// # Errors
/// If the transport fails.
pub fn server(endpoint: &mut dyn Endpoint, size: usize, stop: &Stop) -> Result<Outcome> {
    while endpoint.receive(size, stop)? != Delivery::Stopped {
        endpoint.send(size)?;
    }
    Ok(Outcome::Served)
}
