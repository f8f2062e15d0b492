//! What many peers, or many months, must not make slow or wrong.

use super::granter::{came, granter};
use super::model::FULL;
use crate::channel::Data;
use crate::credit::{Arrival, GrantOrder};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Each decay was looked for by itself, among all: a thousand looks at a thousand peers each second.
#[test]
fn those_who_fall_silent_one_after_the_other_are_looked_at_together() {
    const PEERS: u32 = 1_000;
    let mut granter = granter(GrantOrder::default());
    for peer in 0..PEERS {
        granter.admit(peer, MS);
    }
    // Each sends a short message each second. Nobody wants credit: whatever there is to do is such a look.
    let mut looks = 0;
    for turn in 0..3 * PEERS {
        let now_ns = MS + u64::from(turn) * MS;
        let is_due = granter.next_deadline().is_some_and(|at| at <= now_ns);
        looks += u32::from(is_due && turn >= 2 * PEERS);
        let arrival = Arrival {
            data: Data::Short,
            rtt_ns: 100 * US,
            ..came(1, 0)
        };
        granter.on_arrival(turn % PEERS, &arrival, now_ns);
        granter.run(now_ns, &mut |_, _| ());
    }
    assert!((50..200).contains(&looks), "{looks} in a second");
}

/// A node that lives for years goes on in the same order.
#[test]
fn what_has_been_granted_may_be_more_than_64_bits_count() {
    for order in [GrantOrder::Fair, GrantOrder::default()] {
        let mut granter = granter(order);
        for peer in 0..2 {
            granter.admit(peer, MS);
            let slot = granter.peers.find(peer).unwrap();
            granter.peers[slot].virtual_time = u128::from(u64::MAX) - 1_000;
        }
        let mut given = [0; 2];
        for round in 1..100 {
            let now_ns = MS + round * MS;
            for peer in 0..2 {
                let before = granter.window(peer);
                let come = u64::from(before) / FULL;
                granter.on_arrival(peer, &came(come, 1_000), now_ns);
                let left = granter.window(peer);
                granter.run(now_ns, &mut |_, _| ());
                given[peer as usize] += granter.window(peer) - left;
            }
        }
        assert!(given.iter().all(|&it| it > 0), "{order:?}: {given:?}");
    }
}
