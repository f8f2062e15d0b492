//! What programs wish of their flows, and what comes of it (U10).

use sabani_proto::{Config, GrantOrder, PeerId, Quality, Terms, datagram_cost};
use sabani_sim::{HostId, MS, Network, SEC, Sorting, sealed};

use crate::{A, B, counters, peer_stats, sound, time_to_deliver, warm_pair};

/// What B has granted to A's program.
fn granted(net: &mut Network) -> Terms {
    let granted = peer_stats(net, A, B).granted;
    granted.expect("the wish has been answered")
}

#[test]
fn a_wish_is_answered_with_what_is_granted() {
    let mut net = warm_pair(1, &sealed());
    let config = Config::new(PeerId(1), sealed());
    assert_eq!(peer_stats(&mut net, A, B).granted, None);

    net.prefer(A, Quality::Throughput);
    net.run_for(MS);
    let terms = granted(&mut net);
    assert_eq!(terms.window_bytes, Some(config.window_max));
    assert_eq!(
        terms.memory_bytes.map(u64::from),
        Some(config.log_window_max)
    );
    // All that is set aside, for there is no other peer.
    assert_eq!(terms.allowance_bytes, Some(48 * datagram_cost(1_472)));
    assert_eq!((terms.ack_every, terms.ack_delay_us), (None, None));

    net.prefer(A, Quality::Response);
    net.run_for(MS);
    let terms = granted(&mut net);
    assert_eq!(terms.window_bytes, Some(8 * datagram_cost(1_472)));
    assert_eq!(terms.allowance_bytes, Some(4 * datagram_cost(1_472)));
    assert_eq!((terms.ack_every, terms.ack_delay_us), (Some(4), Some(25)));

    net.prefer(A, Quality::Even);
    net.run_for(MS);
    let terms = granted(&mut net);
    assert_eq!(terms.window_bytes, Some(config.window_max));
    assert_eq!((terms.ack_every, terms.ack_delay_us), (None, None));
    sound(net.settle(SEC));
}

#[test]
fn what_may_be_wished_is_bounded() {
    let mut net = warm_pair(2, &sealed());
    let config = Config::new(PeerId(1), sealed());
    let all = |value| Quality::Own {
        terms: Terms {
            window_bytes: Some(value),
            allowance_bytes: Some(value),
            memory_bytes: Some(value),
            ack_every: Some(value),
            ack_delay_us: Some(value),
        },
        prompt: false,
    };
    net.prefer(A, all(0));
    net.run_for(MS);
    let terms = granted(&mut net);
    assert_eq!(terms.window_bytes, Some(2 * datagram_cost(1_472)));
    assert_eq!(terms.allowance_bytes, Some(0));
    assert_eq!(terms.memory_bytes.map(u64::from), Some(config.log_window));
    assert_eq!((terms.ack_every, terms.ack_delay_us), (Some(1), Some(0)));
    net.send(A, B, 300_000);
    sound(net.settle(SEC));

    net.prefer(A, all(u32::MAX - 1));
    net.run_for(MS);
    let terms = granted(&mut net);
    assert_eq!(terms.window_bytes, Some(config.window_max));
    assert_eq!(
        (terms.ack_every, terms.ack_delay_us),
        (Some(256), Some(2_000))
    );
    net.send(A, B, 300_000);
    sound(net.settle(SEC));
}

/// A wish outlives its connection: the next one begins with it.
#[test]
fn a_wish_is_told_to_the_next_process_too() {
    let mut net = warm_pair(3, &sealed());
    net.prefer(A, Quality::Response);
    net.run_for(MS);
    net.restart(B, true);
    net.send(B, A, 100);
    net.run_for(SEC);
    let terms = granted(&mut net);
    assert_eq!(terms.ack_every, Some(4));
    sound(net.settle(SEC));
}

/// The mean time of small messages, in nanoseconds, that a program sends while it moves 3 MiB to
/// the same peer over a path with a deep queue; and how long all of it takes.
fn small_among_large(quality: Quality) -> (u64, u64) {
    let mut net = Network::pair(4, &sealed());
    net.links(|link| {
        link.bits_per_second = 100_000_000;
        link.queue_bytes = 256 << 10;
    });
    net.send(A, B, 100);
    sound(net.settle(SEC));
    net.host(B).program.sorting = Sorting::ClassBits(1);
    net.prefer(A, quality);
    net.run_for(MS);
    for _ in 0..12 {
        net.send(A, B, 256 << 10);
    }
    for _ in 0..50 {
        net.run_for(4 * MS);
        net.send_as(A, B, 1, 64, false);
    }
    sound(net.settle(5 * SEC));
    let messages: Vec<_> = net.checker.ledger.messages().collect();
    let small = messages.iter().filter(|(_, _, sent)| sent.wish.class == 1);
    let times: Vec<_> = small.filter_map(|(_, _, sent)| sent.time_ns()).collect();
    assert_eq!(times.len(), 50);
    let large = messages.iter().filter(|(_, _, sent)| sent.wish.len > 64);
    let took_ns = large.filter_map(|(_, _, sent)| sent.time_ns()).max();
    (
        times.iter().sum::<u64>() / 50,
        took_ns.expect("they arrived"),
    )
}

#[test]
fn response_first_waits_behind_less_and_throughput_hardly_suffers() {
    let (even_ns, even_took_ns) = small_among_large(Quality::Even);
    let (rapid_ns, rapid_took_ns) = small_among_large(Quality::Response);
    assert!(rapid_ns < even_ns, "{rapid_ns} ns, else {even_ns} ns");
    assert!(rapid_took_ns * 10 < even_took_ns * 11);
}

/// Among 100 peers that were heard lately nobody holds credit, unless it wishes for some: what it
/// begins with then needs no leave.
#[test]
fn an_allowance_saves_a_round_trip_among_many() {
    // A quarter of it is for credit that nobody has asked for: less than two packets for each. And none is left that was
    // given for datagrams which have grown since.
    let mut net = Network::mesh(5, 100, &sealed(), |config| {
        config.socket_buffer_bytes = 512 << 10;
        config.max_datagram = 1_200;
    });
    net.links(|link| link.delay_ns = MS);
    for host in 1..100 {
        net.send(HostId(host), A, 150_000);
    }
    sound(net.settle(SEC));
    let last = HostId(99);
    let mut time_of_8_kb = |quality| {
        net.prefer(last, quality);
        for host in 1..99 {
            net.send(HostId(host), A, 100);
        }
        net.run_for(20 * MS);
        net.send_as(last, A, 1, 8_000, false);
        sound(net.settle(SEC));
        let messages = net.checker.ledger.messages();
        let sent = messages.filter(|(from, _, sent)| *from == last && sent.wish.class == 1);
        let last = sent.last().and_then(|(_, _, sent)| sent.time_ns());
        last.expect("it arrived")
    };
    let asked = time_of_8_kb(Quality::Even);
    let allowed = time_of_8_kb(Quality::Throughput);
    assert!(
        asked > 3 * MS && allowed < 2 * MS,
        "{asked} ns, {allowed} ns"
    );
}

/// Acknowledgements come as often as was wished.
#[test]
fn acknowledgements_are_as_frequent_as_wished() {
    let acks = |every| {
        let mut net = warm_pair(6, &sealed());
        let terms = Terms {
            ack_every: Some(every),
            ..Terms::default()
        };
        let prompt = false;
        net.prefer(A, Quality::Own { terms, prompt });
        net.run_for(MS);
        let before = counters(&mut net, B).acks_alone;
        net.send(A, B, 200_000);
        sound(net.settle(SEC));
        counters(&mut net, B).acks_alone - before
    };
    let (often, seldom) = (acks(2), acks(64));
    assert!((40..=75).contains(&often), "{often}");
    assert!(seldom <= 8, "{seldom}");
}

/// Wishes of one peer leave what others get as it was.
#[test]
fn nobody_gains_at_the_cost_of_others() {
    let mut net = Network::mesh(7, 3, &sealed(), |config| {
        config.credit = sabani_proto::CreditPolicy::Paced(GrantOrder::Fair);
    });
    net.links(|link| link.bits_per_second = 1_000_000_000);
    net.prefer(B, Quality::Throughput);
    for _ in 0..8 {
        net.send(B, A, 250_000);
        net.send(HostId(2), A, 250_000);
    }
    sound(net.settle(SEC));
    let last = |from| {
        let messages = net.checker.ledger.messages();
        let mine = messages.filter(|&(sender, _, _)| sender == from);
        mine.filter_map(|(_, _, sent)| sent.time_ns())
            .max()
            .unwrap_or(0)
    };
    let (greedy, other) = (last(B), last(HostId(2)));
    assert!(other * 10 < greedy * 13, "{other} ns beside {greedy} ns");
}

/// How long an answer of 100 KB takes from a peer that has been idle for so long that it holds no credit any more.
fn answer_after_a_rest(window: Option<u32>) -> u64 {
    let mut net = warm_pair(9, &sealed());
    net.links(|link| link.delay_ns = 5 * MS);
    net.run_for(SEC);
    let asked_ns = net.now_ns();
    let client = net.host(A).node();
    client.set_window(asked_ns, PeerId(B.0), window).unwrap();
    net.kick(A);
    net.send(A, B, 64);
    let had = net.checker.delivered;
    time_to_deliver(&mut net, had + 1, SEC);
    net.send(B, A, 100_000);
    time_to_deliver(&mut net, had + 2, SEC);
    let took_ns = net.now_ns() - asked_ns;
    sound(net.settle(SEC));
    took_ns
}

#[test]
fn a_request_grants_its_answer_in_advance() {
    let unasked_ns = answer_after_a_rest(None);
    let granted_ns = answer_after_a_rest(Some(80 * datagram_cost(1_472)));
    println!("{unasked_ns} ns, {granted_ns} ns if granted in advance");
    assert!(
        granted_ns < 11 * MS,
        "{granted_ns} ns for a round trip of 10 ms"
    );
    assert!(unasked_ns > 20 * MS, "{unasked_ns} ns without");
}
