//! Goodput and the time of short messages, for each loss, round trip and policy, as a text that is
//! compared with `tests/table.txt`: a change that makes the transport worse shows in review.
//!
//! `BLESS=1 cargo test -p sabani-sim --test scenarios table` writes the text anew.

use std::fmt::Write;

use sabani_proto::wire::Frame;
use sabani_sim::plan::outcome::quantile;
use sabani_sim::plan::{Fault, Hosts, Medium, Traffic};
use sabani_sim::{MS, Network, Plan, Rate, SEC, Size, Time, US};

use crate::{A, B, plain, sound, time_to_deliver};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/table.txt");
const RATE: u64 = 1_000_000_000;
/// What of the rate is left for datagrams of 1,472 bytes.
const PAYLOAD: f64 = 1_472.0 / 1_514.0;
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const ROUND_TRIPS: [u64; 3] = [100 * US, MS, 20 * MS];
/// Settings, as `sabani sim --set` takes them.
const POLICIES: [&str; 7] = [
    "recovery=selective",
    "recovery=go-back-n",
    "recovery=timeout",
    "ack_every=1",
    "credit=shares",
    "congestion=cubic credit=shares",
    "congestion=copa credit=shares",
];
const HEAD: &str = "\
Goodput of a long flow as a part of what the link carries (1 Gb/s), and beside it, in round trips,
the time within which 99 of 100 messages of 1 KiB arrive, that travel alone between other hosts.

";

/// One field of the table.
struct Cell {
    /// Of what the link carries.
    goodput: f64,
    /// Of messages of 1 KiB, in round trips.
    p99: f64,
}

/// A long flow from host 0 to host 1, and short messages from host 2 to host 3, once all have met.
fn plan(policy: &str, rtt_ns: u64, loss: f64) -> Plan {
    let meet = Traffic {
        bytes: Size(1),
        ..Traffic::default()
    };
    let long = Traffic {
        from: Hosts::one(0),
        to: Hosts::one(1),
        bytes: Size(8 << 20),
        at: Time(SEC),
        ..Traffic::default()
    };
    let short = Traffic {
        from: Hosts::one(2),
        to: Hosts::one(3),
        bytes: Size(1_024),
        rounds: 300,
        pause: Time(rtt_ns),
        ..long.clone()
    };
    let mut plan = Plan {
        seed: 1,
        hosts: 4,
        network: Medium {
            rate: Rate(RATE),
            delay: Time(rtt_ns / 2),
            queue: Some(Size(256 << 10)),
            ..Medium::default()
        },
        faults: vec![Fault {
            at: Time(SEC),
            loss,
            ..Fault::default()
        }],
        traffic: vec![meet, long, short],
        patience: Some(Time(600 * SEC)),
        ..Plan::default()
    };
    for setting in policy.split(' ') {
        plan.set(setting).expect("it is a setting");
    }
    plan
}

fn cell(policy: &str, rtt_ns: u64, loss: f64) -> Cell {
    let outcome = plan(policy, rtt_ns, loss).run();
    assert_eq!(outcome.failure, None);
    let [_, long, short] = &outcome.streams[..] else {
        panic!("there are three streams");
    };
    Cell {
        goodput: long.goodput() / (RATE as f64 * PAYLOAD),
        p99: quantile(&short.sorted_ns(), 0.99) as f64 / rtt_ns as f64,
    }
}

fn table() -> String {
    let mut text = String::from(HEAD);
    let _ = write!(text, "{:<32}{:>10}", "policy", "round trip");
    for loss in LOSSES {
        let _ = write!(text, "{:>16}", format!("{} % lost", loss * 100.0));
    }
    for policy in POLICIES {
        for rtt_ns in ROUND_TRIPS {
            let _ = write!(text, "\n{policy:<32}{:>10}", Time(rtt_ns).to_string());
            for loss in LOSSES {
                let Cell { goodput, p99 } = cell(policy, rtt_ns, loss);
                let _ = write!(text, "{goodput:>9.2}{p99:>7.1}");
            }
        }
    }
    text + "\n"
}

#[test]
fn the_table_is_as_it_was() {
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PATH, &table).expect("the table can be written");
    }
    let known = std::fs::read_to_string(PATH).expect("the table can be read");
    assert!(
        table == known,
        "the transport does better or worse than in {PATH}. It is now:\n{table}\nIf that is meant: \
         BLESS=1 cargo test -p sabani-sim --test scenarios table"
    );
}

#[test]
fn loss_at_random_costs_little() {
    let at_loss = |loss| cell("recovery=selective", MS, loss);
    let none = at_loss(0.0);
    for (loss, least) in [(0.01, 0.90), (0.05, 0.75)] {
        let Cell { goodput, p99 } = at_loss(loss);
        let part = goodput / none.goodput;
        assert!(part >= least, "{loss}: {part} of the goodput without loss");
        assert!(p99 <= 4.0, "{loss}: {p99} round trips");
    }
}

#[test]
fn a_lost_last_packet_costs_three_round_trips_at_most() {
    // What a busy host may take beside, as far as the round trip doesn't show it.
    const BUSY_NS: u64 = 200 * US;
    for rtt_ns in ROUND_TRIPS {
        let took_ns = [0, 1].map(|lost| {
            let mut net = Network::pair(1, &plain());
            net.links(|link| link.delay_ns = rtt_ns / 2);
            for _ in 0..20 {
                net.send(A, B, 100_000);
                sound(net.settle(SEC));
            }
            net.link(A, B).drop_first(lost, |packet| {
                packet.has_frame(|frame| match frame {
                    Frame::Fragment(part) => part.offset + part.data.len() as u64 == part.total,
                    _ => false,
                })
            });
            net.send(A, B, 100_000);
            time_to_deliver(&mut net, 21, SEC)
        });
        let extra_ns = took_ns[1] - took_ns[0];
        let most_ns = 3 * rtt_ns + BUSY_NS;
        assert!(
            (1..=most_ns).contains(&extra_ns),
            "{rtt_ns} ns: {extra_ns} ns more"
        );
    }
}
