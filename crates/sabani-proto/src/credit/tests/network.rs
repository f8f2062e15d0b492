//! The figures that the design was chosen for, in the model. The wire carries 0.962 of its payload
//! rate as message bytes: the rest is headers.

use super::model::{FULL, Model, Network};
use crate::credit::GrantOrder;

/// A message of 64 KiB, and one of 256 KiB, in packets.
const SMALL: u64 = 47;
const LARGE: u64 = 186;
const MS: u64 = 1_000_000;

fn gigabit(senders: u32) -> Network {
    Network {
        senders,
        ..Network::default()
    }
}

#[test]
fn many_to_one_fills_the_link_and_loses_nothing() {
    for (senders, pieces, rounds, goodput) in [
        (8, SMALL, 30, 0.93),
        (8, LARGE, 15, 0.95),
        (40, SMALL, 8, 0.94),
    ] {
        let mut model = Model::new(gigabit(senders));
        // Start-up doubles its window until that brings no more, and may lose some.
        model.incast(pieces, 2);
        model.drops = 0;
        let outcome = model.incast(pieces, rounds);
        assert!(outcome.goodput > goodput, "{senders}: {outcome:?}");
        assert!(outcome.extra < 0.002, "{senders}: {outcome:?}");
        assert!(outcome.p99 < 1.08, "{senders}: {outcome:?}");
        assert_eq!(model.drops, 0, "{senders}");
    }
}

#[test]
fn four_hundred_senders_stay_within_one_shallow_queue() {
    let outcome = Model::new(gigabit(400)).incast(SMALL, 2);
    assert!(outcome.goodput > 0.94, "{outcome:?}");
    assert!(outcome.extra < 0.02, "{outcome:?}");
    assert!(outcome.p99 < 1.1, "{outcome:?}");
}

#[test]
fn every_order_fills_the_link() {
    for order in [
        GrantOrder::ShortestFirst { aging: 0 },
        GrantOrder::Fair,
        GrantOrder::FirstCome,
    ] {
        let outcome = Model::new(Network {
            order,
            ..gigabit(40)
        })
        .incast(SMALL, 4);
        assert!(outcome.goodput > 0.93, "{order:?}: {outcome:?}");
    }
}

#[test]
fn short_messages_pass_long_ones() {
    // When all of eight messages are here that begin together with eight sixteen times as long.
    let took_ns = |order| {
        let mut model = Model::new(Network {
            order,
            ..gigabit(16)
        });
        for sender in 0..16 {
            model.start(sender, if sender % 2 == 0 { SMALL } else { 16 * SMALL });
        }
        model.run_until(u64::MAX, 8);
        *model.finished.last().expect("they end")
    };
    let (shortest, fair) = (took_ns(GrantOrder::default()), took_ns(GrantOrder::Fair));
    assert!(3 * shortest < 2 * fair, "{shortest}, {fair}");
}

#[test]
fn aging_starves_nobody() {
    for (aging, least) in [(0, 0), (12, 250), (50, 900)] {
        let mut model = Model::new(Network {
            order: GrantOrder::ShortestFirst { aging },
            ..gigabit(3)
        });
        // There is always somebody with less than the first: 50 ms, 4,100 packets.
        for (sender, pieces) in [(0, 1 << 20), (1, 1 << 19), (2, 1 << 18)] {
            model.start(sender, pieces);
        }
        model.run_until(50 * MS, u64::MAX);
        let served = model.delivered_by(0);
        assert!(served >= least, "{aging}: {served}");
        assert!(served < 600 * u64::from(aging).max(1), "{aging}: {served}");
    }
}

#[test]
fn fair_shares_follow_weights() {
    let mut model = Model::new(Network {
        order: GrantOrder::Fair,
        ..gigabit(4)
    });
    model.granter.set_weight(1, 3, 1);
    model.flows(50 * MS, 200 * MS);
    let served = |sender| model.delivered_by(sender) as f64;
    assert!(
        (served(1) / served(0) - 3.0).abs() < 0.3,
        "{}",
        served(1) / served(0)
    );
    assert!(
        (served(2) / served(3) - 1.0).abs() < 0.1,
        "{}",
        served(2) / served(3)
    );
}

#[test]
fn a_lone_message_goes_in_one_train() {
    let outcome = Model::new(gigabit(1)).incast(SMALL, 20);
    assert!(outcome.goodput > 0.81, "{outcome:?}");
    assert_eq!(outcome.extra, 0.0);
}

#[test]
fn a_shallower_queue_is_learned() {
    let mut model = Model::new(Network {
        queue: 16 << 10,
        ..gigabit(8)
    });
    model.incast(SMALL, 20);
    let outcome = model.incast(SMALL, 20);
    assert!(outcome.goodput > 0.91, "{outcome:?}");
    assert!(outcome.extra < 0.01, "{outcome:?}");
    assert!(model.granter.stats().queue < 30 * FULL);
}

#[test]
fn late_hosts_do_not_starve_the_link() {
    let outcome = Model::new(Network {
        jitter_ns: 50_000,
        ..gigabit(8)
    })
    .incast(LARGE, 20);
    assert!(outcome.goodput > 0.93, "{outcome:?}");
}

#[test]
fn long_flows_keep_the_queue_short() {
    let mut model = Model::new(gigabit(7));
    assert!(model.flows(20 * MS, 200 * MS) > 0.955);
    // 25 packets would delay a short message to five times its time.
    assert!(model.max_queue < 20 * 1_514, "{}", model.max_queue);
    assert_eq!(model.drops, 0);
}

#[test]
fn a_sender_faster_than_the_link_does_not_overflow_it() {
    let mut model = Model::new(Network {
        uplink: 1e10,
        ..gigabit(1)
    });
    assert!(model.flows(2 * MS, 200 * MS) > 0.955);
    assert_eq!(model.drops, 0);
}

#[test]
fn random_loss_costs_little_more_than_what_is_lost() {
    for (loss, goodput) in [(100, 0.93), (500, 0.88)] {
        for senders in [1, 8] {
            let mut model = Model::new(Network {
                loss,
                rtt_ns: MS,
                ..gigabit(senders)
            });
            let reached = model.flows(50 * MS, 400 * MS);
            assert!(reached > goodput, "{loss}, {senders}: {reached}");
        }
    }
}

#[test]
fn a_long_path_with_loss_is_filled() {
    let mut model = Model::new(Network {
        loss: 100,
        rtt_ns: 600 * MS,
        ..gigabit(1)
    });
    let reached = model.flows(2_000 * MS, 8_000 * MS);
    assert!(reached > 0.9, "{reached}");
}

/// 5 GB/s of payload; whoever waits longer for each batch needs a larger window.
#[test]
fn a_fast_local_link_is_limited_by_the_socket_only() {
    for (wake_ns, after) in [(10_000, 2), (30_000, 5), (60_000, 8), (100_000, 10)] {
        let mut model = Model::new(Network {
            rate: 4.2e10,
            uplink: 1e12,
            queue: 100 << 20,
            rtt_ns: 10_000,
            told_rtt_ns: 20_000,
            wake_ns,
            ..gigabit(1)
        });
        let reached = model.flows(after * MS, 60 * MS);
        assert!(reached > 0.92, "{wake_ns}: {reached}");
    }
}
