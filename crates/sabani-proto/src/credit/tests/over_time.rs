//! What many peers, or many months, must not make slow or wrong.

use super::granter::{came, granter};
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
