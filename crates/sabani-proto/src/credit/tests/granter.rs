//! The granter as its caller sees it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::model::FULL;
use crate::channel::Data;
use crate::credit::{Arrival, CreditConfig, CreditPolicy, DECAY_NS, GrantOrder, Granter, Owed};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SOCKET: u64 = 8 << 20;

pub(super) fn granter(order: GrantOrder) -> Granter {
    granter_for(1, order)
}

fn granter_for(expected_peers: u32, order: GrantOrder) -> Granter {
    Granter::new(CreditConfig {
        socket_bytes: SOCKET,
        full_cost: FULL as u32,
        window_max: 3 << 19,
        expected_peers,
        policy: CreditPolicy::Paced(order),
    })
}

#[test]
fn those_who_come_first_leave_the_others_their_share_if_these_are_expected() {
    for policy in [
        CreditPolicy::Paced(GrantOrder::default()),
        CreditPolicy::Shares,
    ] {
        let mut granter = Granter::new(CreditConfig {
            socket_bytes: SOCKET,
            full_cost: FULL as u32,
            window_max: u32::MAX,
            expected_peers: 8,
            policy,
        });
        let windows: Vec<_> = (0..8).map(|peer| granter.admit(peer, MS)).collect();
        assert!(
            windows.iter().all(|&window| window == windows[0]),
            "{windows:?}"
        );
        assert!(u64::from(windows[0]) >= 2 * FULL);
    }
}

/// So many full packets have come, and so many more are announced.
pub(super) fn came(packets: u64, remaining: u64) -> Arrival {
    Arrival {
        advanced: (packets * FULL) as u32,
        charge: packets * FULL,
        bytes: packets * 1_472,
        packets: packets as u32,
        data: match packets {
            0 => Data::None,
            _ => Data::Long,
        },
        remaining: remaining * FULL,
        rtt_ns: 100 * US,
        ..Arrival::default()
    }
}

/// It may bring more in a round trip than one peer may have on its way.
#[test]
fn who_sends_steadily_holds_what_it_may_at_most() {
    let mut granter = granter(GrantOrder::default());
    granter.admit(0, MS);
    let mut largest = 0;
    for ms in 1..500 {
        let arrival = Arrival {
            data: Data::Short,
            rtt_ns: 20 * MS,
            ..came(100, 0)
        };
        granter.on_arrival(0, &arrival, ms * MS);
        run(&mut granter, ms * MS);
        largest = largest.max(granter.window(0));
    }
    assert_eq!(largest, 3 << 19, "20 ms bring 2,000 packets");
}

/// Where it is now, the way may be longer, and the old one's smallest round trip would let next to nothing be on it.
#[test]
fn a_peer_that_has_moved_is_measured_anew() {
    let mut granter = granter(GrantOrder::default());
    granter.admit(0, MS);
    let trip_ns = |granter: &Granter| granter.peers[granter.peers.find(0).unwrap()].known_rtt_ns();
    let arrive = |granter: &mut Granter, rtt_ns: u64, now_ns: u64| {
        let arrival = Arrival {
            rtt_ns,
            least_rtt_ns: rtt_ns,
            ..came(2, 1_000)
        };
        granter.on_arrival(0, &arrival, now_ns);
        run(granter, now_ns);
    };
    arrive(&mut granter, 100 * US, MS);
    arrive(&mut granter, 50 * MS, 2 * MS);
    assert_eq!(trip_ns(&granter), 100 * US, "it may just be busy");
    granter.on_new_path(0);
    assert_eq!(trip_ns(&granter), 0);
    arrive(&mut granter, 50 * MS, 3 * MS);
    assert_eq!(trip_ns(&granter), 50 * MS);
    granter.on_new_path(1);
}

fn run(granter: &mut Granter, now_ns: u64) -> Vec<(u32, Owed)> {
    let mut owed = Vec::new();
    granter.on_empty(now_ns);
    granter.run(now_ns, &mut |peer, what| owed.push((peer, what)));
    owed
}

/// Lets peers with these many packets left send all they may, every 100 µs; returns in which order
/// they have finished.
fn serve(granter: &mut Granter, left: &mut BTreeMap<u32, u64>, rounds: u64) -> Vec<u32> {
    let mut done = Vec::new();
    let mut now_ns = MS;
    for (&peer, &packets) in left.iter() {
        granter.on_arrival(peer, &came(0, packets), now_ns);
    }
    run(granter, now_ns);
    for _ in 0..rounds {
        let next_ns = now_ns + 100 * US;
        while let Some(at_ns) = granter.next_deadline().filter(|&at_ns| at_ns < next_ns) {
            now_ns = now_ns.max(at_ns);
            run(granter, now_ns);
        }
        now_ns = next_ns;
        for (&peer, packets) in left.iter_mut().filter(|(_, packets)| **packets > 0) {
            let sent = (u64::from(granter.window(peer)) / FULL).min(*packets);
            *packets -= sent;
            if sent > 0 {
                granter.on_arrival(peer, &came(sent, *packets), now_ns);
            }
            if *packets == 0 {
                done.push(peer);
            }
        }
        run(granter, now_ns);
    }
    done
}

#[test]
fn a_lone_peer_begins_with_a_whole_message_and_many_begin_with_a_request() {
    let mut granter = granter(GrantOrder::default());
    assert_eq!(u64::from(granter.admit(7, 0)), 48 * FULL);
    let rest: u64 = (8..100).map(|peer| u64::from(granter.admit(peer, 1))).sum();
    assert_eq!(rest, 0);
}

#[test]
fn standing_credit_never_exceeds_one_shallow_queue() {
    let mut granter = granter(GrantOrder::default());
    for now in 1..2_000 {
        let peer = (now * 7 % 60) as u32;
        granter.on_arrival(
            peer,
            &came(u64::from(granter.window(peer)) / FULL, 0),
            now * 3 * MS,
        );
        run(&mut granter, now * 3 * MS);
        assert!(granter.stats().promised <= 48 * FULL);
    }
}

/// Not when all of it has come: what follows would wait for the word that says so. Of a link that may be fast none says so for itself.
#[test]
fn what_may_come_unasked_is_renewed_when_half_of_it_is_used() {
    let mut granter = granter(GrantOrder::default());
    granter.admit(1, 0);
    let mut arrive = |packets, left| {
        let renewed = granter.on_arrival(1, &came(packets, left), MS);
        let owed = run(&mut granter, MS);
        let told = owed.contains(&(1, Owed::Credit));
        ([renewed, told], u64::from(granter.window(1)) / FULL)
    };
    assert_eq!(arrive(10, 37), ([false, false], 38));
    assert_eq!(arrive(14, 23), ([true, false], 48));
    assert_eq!(arrive(10, 13), ([false, false], 38));
    assert_eq!(granter.stats().promised, (38 - 13) * FULL);
}

#[test]
fn renewed_credit_is_a_part_of_the_same_queue() {
    let mut granter = granter(GrantOrder::default());
    let mut renewed = 0;
    granter.admit(0, 0);
    for now in 1..2_000 {
        let (peer, now_ns) = ((now / 5 % 2) as u32, now * MS);
        let window = u64::from(granter.window(peer)) / FULL;
        let left = window.min(now % 7);
        granter.on_arrival(peer, &came((window - left).max(1), left), now_ns);
        run(&mut granter, now_ns);
        renewed += u32::from(left > 0 && u64::from(granter.window(peer)) / FULL > left);
        assert!(granter.stats().promised <= 48 * FULL);
    }
    assert!(renewed > 100, "{renewed}");
}

/// As from a barrier between calls of a pipeline, whose segments would not fit into what its partners leave.
#[test]
fn who_has_but_words_to_say_leaves_standing_credit_to_who_sends_more() {
    let mut granter = granter(GrantOrder::default());
    let mut hear = |peer, packets, now_ns| {
        granter.on_arrival(peer, &came(packets, 0), now_ns);
        run(&mut granter, now_ns);
        u64::from(granter.window(peer)) / FULL
    };
    // One that was alone holds all there is, until it has used it.
    assert_eq!(hear(0, 6, MS), 48);
    for peer in 1..6 {
        assert_eq!(hear(peer, 1, 2 * MS), 0, "{peer}");
    }
    assert_eq!(hear(0, 46, 3 * MS), 26);
    for peer in 1..6 {
        assert_eq!(hear(peer, 1, 4 * MS), 2, "{peer}");
    }
    // Another one that sends more gets as much, once there is that much again.
    assert_eq!(hear(1, 6, 5 * MS), 2);
    assert_eq!(hear(0, 20, 6 * MS), 14);
    assert_eq!(hear(1, 2, 7 * MS), 14);
    // But not when it has only had words to say for a while.
    assert_eq!(hear(0, 14, 90 * MS), 14);
    assert_eq!(hear(1, 1, 107 * MS), 13);
    assert_eq!(hear(1, 1, 108 * MS), 12);
    assert_eq!(hear(0, 6, 109 * MS), 16);
    assert!(granter.stats().promised <= 48 * FULL);
}

#[test]
fn standing_credit_decays_and_leaves_nothing() {
    let mut granter = granter(GrantOrder::default());
    granter.admit(1, 0);
    let at = granter.next_deadline().expect("decay is due some time");
    assert!(at > DECAY_NS);
    run(&mut granter, at - 1);
    assert_eq!(u64::from(granter.window(1)), 48 * FULL);
    let at = granter.next_deadline().expect("still due");
    run(&mut granter, at + 10 * MS);
    assert_eq!(granter.window(1), 0);
    assert_eq!(granter.next_deadline(), None);
    assert_eq!(granter.stats().promised, 0);
    // Whoever comes next finds all of it.
    assert_eq!(u64::from(granter.admit(2, at + 20 * MS)), 48 * FULL);
}

#[test]
fn data_keep_standing_credit_and_acknowledgements_do_not() {
    let mut granter = granter(GrantOrder::default());
    granter.admit(1, 0);
    let mut hear = |packets, now_ns| {
        granter.on_arrival(1, &came(packets, 0), now_ns);
        run(&mut granter, now_ns);
        u64::from(granter.window(1))
    };
    for now in 1..20 {
        assert_eq!(hear(1, now * 60 * MS), 48 * FULL);
    }
    assert_eq!(hear(0, 20 * 60 * MS), 48 * FULL);
    for now in 21..30 {
        assert_eq!(hear(0, (now + 1) * 60 * MS), 0);
    }
    assert_eq!(hear(1, 31 * 60 * MS), 48 * FULL);
}

#[test]
fn what_is_announced_is_granted_and_told() {
    let mut granter = granter(GrantOrder::default());
    for peer in 0..30 {
        granter.on_arrival(peer, &came(0, 0), 1);
    }
    granter.on_arrival(3, &came(0, 2), MS);
    assert_eq!(run(&mut granter, MS), [(3, Owed::Credit)]);
    assert_eq!(u64::from(granter.window(3)), 2 * FULL);
    // There is nothing more to grant, and nothing to tell again.
    assert_eq!(run(&mut granter, MS + 1), []);
}

#[test]
fn the_rest_of_a_packet_is_granted_as_a_packet() {
    let mut granter = granter(GrantOrder::default());
    granter.on_arrival(
        1,
        &Arrival {
            remaining: 100,
            ..came(0, 0)
        },
        1,
    );
    run(&mut granter, 1);
    assert_eq!(u64::from(granter.window(1)), FULL);
}

#[test]
fn a_peer_that_has_nothing_left_is_told_once() {
    let mut granter = granter(GrantOrder::FirstCome);
    granter.on_arrival(1, &came(0, 10_000), 1);
    run(&mut granter, 1);
    granter.on_arrival(2, &came(0, 10_000), 2);
    assert_eq!(run(&mut granter, 2), [(2, Owed::Ack)]);
    granter.on_arrival(2, &came(0, 10_000), 3);
    assert_eq!(run(&mut granter, 3), []);
}

#[test]
fn the_shortest_comes_first() {
    let mut granter = granter(GrantOrder::ShortestFirst { aging: 0 });
    let mut left = BTreeMap::from([(1, 900), (2, 20), (3, 200)]);
    assert_eq!(serve(&mut granter, &mut left, 3_000), [2, 3, 1]);
}

#[test]
fn who_has_about_as_much_left_is_served_in_turn() {
    let mut granter = granter(GrantOrder::ShortestFirst { aging: 0 });
    let before = BTreeMap::from([(1, 1_000), (2, 900), (3, 800)]);
    let mut left = before.clone();
    serve(&mut granter, &mut left, 20);
    let got = |peer| before[&peer] - left[&peer];
    let (least, most) = (
        got(1).min(got(2)).min(got(3)),
        got(1).max(got(2)).max(got(3)),
    );
    assert!(least >= 100 && most < 2 * least, "{least} to {most}");
}

/// Where all send to all in the same order, each receiver hears of the same sender first: 30 packets from each were more than
/// its uplink brings while the others wait.
#[test]
fn who_asks_first_is_not_given_all_at_once() {
    let mut granter = granter(GrantOrder::default());
    serve(&mut granter, &mut BTreeMap::from([(1, 10_000)]), 200);
    let now_ns = 30 * MS;
    run(&mut granter, now_ns);
    let before = granter.window(2);
    granter.on_arrival(2, &came(0, 1_000), now_ns);
    run(&mut granter, now_ns);
    let at_once = u64::from(granter.window(2) - before);
    let most = granter.link.cap(100 * US);
    assert!(at_once > 0 && at_once < most * 3 / 4, "{at_once} of {most}");
}

#[test]
fn weight_shortens() {
    let mut granter = granter(GrantOrder::ShortestFirst { aging: 0 });
    granter.set_weight(1, 10, 0);
    let mut left = BTreeMap::from([(1, 900), (2, 300), (3, 600)]);
    assert_eq!(serve(&mut granter, &mut left, 3_000)[0], 1);
}

#[test]
fn who_asked_first_is_served_first() {
    let mut granter = granter(GrantOrder::FirstCome);
    granter.on_arrival(1, &came(0, 900), 1);
    granter.on_arrival(2, &came(0, 300), 2);
    let mut left = BTreeMap::from([(1, 900), (2, 300)]);
    assert_eq!(serve(&mut granter, &mut left, 3_000), [1, 2]);
}

/// What many hold of a packet each, and can't use, was most of a small window once: all waited for 10 ms.
#[test]
fn the_rest_of_a_packet_keeps_nobody_else_from_the_link() {
    let mut granter = granter_for(18, GrantOrder::default());
    let peers = 0..18;
    for peer in peers.clone() {
        assert_eq!(u64::from(granter.admit(peer, 1)), 2 * FULL);
    }
    let granted = |granter: &Granter| -> u64 {
        let windows = peers.clone().map(|peer| granter.window(peer));
        windows.map(|window| u64::from(window) / FULL).sum()
    };
    for peer in peers.clone() {
        // A word about what it wants takes a part of a packet.
        let words = Arrival {
            advanced: (FULL + FULL / 3) as u32,
            ..came(1, 100)
        };
        granter.on_arrival(peer, &words, MS);
    }
    assert_eq!(granted(&granter), 0);
    run(&mut granter, MS);
    assert_eq!(granted(&granter), 16);
}

#[test]
fn a_peer_that_stalls_does_not_keep_the_link() {
    let mut granter = granter(GrantOrder::FirstCome);
    granter.on_arrival(1, &came(0, 10_000), 1);
    run(&mut granter, 1);
    assert!(granter.window(1) > 0);
    granter.on_arrival(2, &came(0, 10_000), 2);
    run(&mut granter, 2);
    assert_eq!(granter.window(2), 0);
    // Nothing ever comes; only deadlines pass.
    while granter.window(2) == 0 {
        let now_ns = granter.next_deadline().expect("somebody waits");
        assert!(now_ns < 20 * MS, "too late");
        run(&mut granter, now_ns);
    }
}

/// Packets that those of twelve peers send in 300 ms who have not stopped, over a link that carries
/// 20 in 100 µs.
fn sent_while_others_stand_still(order: GrantOrder, stopped: u32) -> u64 {
    const ENDLESS: u64 = 10_000_000;
    let mut granter = granter(order);
    let mut sent = 0;
    let mut heard = [0; 12];
    for step in 1..=6_000 {
        let now_ns = step * 100 * US;
        let active = if step > 3_000 { stopped } else { 0 }..12;
        let mut room = 20;
        for at in active.clone() {
            // In turn, as they meet at a switch.
            let peer = active.start + (at + step as u32) % active.len() as u32;
            let packets = (u64::from(granter.window(peer)) / FULL).min(room);
            room -= packets;
            // Who is starved says so.
            if packets > 0 || step == 1 || step > heard[peer as usize] + 500 {
                granter.on_arrival(peer, &came(packets, ENDLESS), now_ns);
                heard[peer as usize] = step;
            }
            if step > 3_000 {
                sent += packets;
            }
        }
        run(&mut granter, now_ns);
    }
    sent
}

#[test]
fn peers_that_stop_do_not_slow_the_others_down() {
    for order in [
        GrantOrder::default(),
        GrantOrder::Fair,
        GrantOrder::FirstCome,
    ] {
        let all = sent_while_others_stand_still(order, 0);
        for stopped in [1, 6, 9, 11] {
            let rest = sent_while_others_stand_still(order, stopped);
            assert!(rest > all / 2, "{order:?}, {stopped}: {rest} of {all}");
        }
    }
}

#[test]
fn one_active_peer_among_a_thousand_gets_the_whole_path() {
    let mut granter = granter(GrantOrder::default());
    for peer in 0..1_000 {
        granter.admit(peer, 1);
    }
    let mut left = BTreeMap::from([(500, 1_000_000)]);
    serve(&mut granter, &mut left, 300);
    assert!(
        u64::from(granter.window(500)) > 500 * FULL,
        "{}",
        granter.window(500)
    );
}

#[test]
fn a_window_fixed_by_the_program_is_kept() {
    let mut granter = granter(GrantOrder::default());
    granter.admit(1, 0);
    let fixed = 50 * FULL as u32;
    granter.set_window(1, Some(fixed), 1);
    assert_eq!(granter.window(1), fixed);
    granter.on_arrival(1, &came(10, 500), MS);
    run(&mut granter, MS);
    assert_eq!(u64::from(granter.window(1)), 40 * FULL);
    granter.on_arrival(1, &came(10, 490), 2 * MS);
    assert_eq!(run(&mut granter, 2 * MS), [(1, Owed::Credit)]);
    assert_eq!(granter.window(1), fixed);
    granter.set_window(1, None, 3 * MS);
    granter.on_arrival(1, &came(50, 10), 3 * MS);
    run(&mut granter, 3 * MS);
    assert_eq!(u64::from(granter.window(1)), 10 * FULL);
}

#[test]
fn what_the_program_said_of_a_peer_outlives_its_connection() {
    let mut granter = granter(GrantOrder::default());
    granter.set_window(1, Some(9_000), 1);
    granter.forget(1);
    assert_eq!(granter.window(1), 0);
    assert_eq!(granter.admit(1, MS), 9_000);
}

#[derive(Clone, Debug)]
enum Step {
    Admit(u32),
    Forget(u32),
    /// The peer has this many more packets to send.
    Announce(u32, u64),
    /// It sends this many, as far as its window goes, of which some are lost.
    Send(u32, u64, u64),
    Weigh(u32, u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..6u32;
    prop_oneof![
        1 => peer.clone().prop_map(Step::Admit),
        1 => peer.clone().prop_map(Step::Forget),
        4 => (peer.clone(), 1..500u64).prop_map(|(peer, packets)| Step::Announce(peer, packets)),
        12 => (peer.clone(), 1..80u64, 0..4u64)
            .prop_map(|(peer, packets, lost)| Step::Send(peer, packets, lost)),
        1 => (peer, 0..5u32).prop_map(|(peer, weight)| Step::Weigh(peer, weight)),
        4 => (1..3_000_000u64).prop_map(Step::Wait),
        // For so long that what was heard of peers is forgotten.
        1 => (60..120u64).prop_map(|ms| Step::Wait(ms * MS)),
    ]
}

/// The granter with what its peers know.
struct World {
    granter: Granter,
    now_ns: u64,
    left: [u64; 6],
}

impl World {
    fn arrive(&mut self, peer: u32, arrival: &Arrival) {
        let before = u64::from(self.granter.window(peer));
        self.granter.on_arrival(peer, arrival, self.now_ns);
        let after = u64::from(self.granter.window(peer));
        assert!(
            after + u64::from(arrival.advanced) >= before,
            "a window shrank"
        );
    }

    fn apply(&mut self, step: Step) {
        self.now_ns += 20 * US;
        match step {
            Step::Admit(peer) => {
                self.left[peer as usize] = 0;
                self.granter.admit(peer, self.now_ns);
            }
            Step::Forget(peer) => {
                self.left[peer as usize] = 0;
                self.granter.forget(peer);
                assert_eq!(self.granter.window(peer), 0);
            }
            Step::Announce(peer, packets) => {
                self.left[peer as usize] += packets;
                self.arrive(peer, &came(0, self.left[peer as usize]));
            }
            Step::Send(peer, packets, lost) => {
                let left = &mut self.left[peer as usize];
                let window = u64::from(self.granter.window(peer)) / FULL;
                let sent = packets.min(*left).min(window);
                let lost = lost.min(sent.saturating_sub(1));
                *left -= sent - lost;
                let arrival = Arrival {
                    advanced: (sent * FULL) as u32,
                    lost: lost as u32,
                    ..came(sent - lost, *left)
                };
                self.arrive(peer, &arrival);
            }
            Step::Weigh(peer, weight) => self.granter.set_weight(peer, weight, self.now_ns),
            Step::Wait(ns) => self.now_ns += ns,
        }
    }

    fn run(&mut self) {
        let before: Vec<u32> = (0..6).map(|peer| self.granter.window(peer)).collect();
        let owed = run(&mut self.granter, self.now_ns);
        for (peer, &before) in before.iter().enumerate() {
            let told = owed.contains(&(peer as u32, Owed::Credit));
            let after = self.granter.window(peer as u32);
            assert_eq!(
                after > before,
                told && after > before,
                "a raise was not told"
            );
            assert!(after >= before || self.now_ns > DECAY_NS, "a window shrank");
        }
        let view = self.granter.stats();
        let path = view.rate / 1_000_000 * 100;
        assert!(view.outstanding <= SOCKET + path, "{view:?}");
        if let Some(at) = self.granter.next_deadline() {
            assert!(at > self.now_ns, "a deadline in the past");
        }
        self.count();
    }

    /// Peers are counted as what they are.
    fn count(&self) {
        let Granter { peers, pool, .. } = &self.granter;
        let shares = || (0..peers.end()).filter_map(|slot| peers.get(slot));
        let recent = shares().filter(|share| share.recent).count();
        let terse = shares().filter(|share| share.is_terse).count();
        assert_eq!((recent, terse), (pool.peers as usize, pool.terse as usize));
        assert!(terse <= recent);
    }
}

proptest! {
    #[test]
    fn credit_is_bounded_never_taken_back_and_never_leaks(
        order in prop_oneof![
            (0..=100u8).prop_map(|aging| GrantOrder::ShortestFirst { aging }),
            Just(GrantOrder::Fair),
            Just(GrantOrder::FirstCome),
        ],
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut world = World { granter: granter(order), now_ns: 1, left: [0; 6] };
        for step in steps {
            world.apply(step);
            world.run();
        }
        // All that was announced comes, however often that takes a grant.
        for _ in 0..100_000 {
            if world.left.iter().all(|&left| left == 0) {
                break;
            }
            for peer in 0..6 {
                if world.left[peer as usize] > 0 {
                    world.apply(Step::Send(peer, 1_000, 0));
                }
            }
            world.run();
            world.apply(Step::Wait(50 * US));
        }
        prop_assert_eq!(world.left, [0; 6], "somebody was starved");
        let mut passed = 0;
        while let Some(at) = world.granter.next_deadline() {
            world.now_ns = at;
            world.run();
            passed += 1;
            prop_assert!(passed < 100, "deadlines without end");
        }
        let view = world.granter.stats();
        prop_assert_eq!((view.outstanding, view.promised, view.waiting), (0, 0, 0));
        prop_assert_eq!((world.granter.pool.peers, world.granter.pool.terse), (0, 0));
        prop_assert!((0..6).all(|peer| world.granter.window(peer) == 0));
    }
}
