//! All send to all: whom a receiver grants decides whether other links stand idle.

use sabani_sim::plan::outcome::quantile;
use sabani_sim::{Outcome, Plan};

/// Bits of messages for each bit of the links, where `hosts` send `bytes` to each other, over and
/// over.
fn exchange(hosts: u32, bytes: &str) -> f64 {
    exchange_at(1, hosts, bytes, 6)
}

/// The same over links of so many Gbit/s, so often.
fn exchange_at(gbits: u32, hosts: u32, bytes: &str, rounds: u32) -> f64 {
    let all = [("all".into(), "all".into())];
    share(
        gbits,
        hosts,
        &all,
        &format!("bytes = \"{bytes}\"\nrounds = {rounds}"),
    )
}

/// The same, where each sends a long message to the next one.
fn ring(hosts: u32) -> f64 {
    let next = |host| (host + 1) % hosts;
    let flows = (0..hosts).map(|host| (host.to_string(), next(host).to_string()));
    share(1, hosts, &flows.collect::<Vec<_>>(), "bytes = \"8MiB\"")
}

fn share(gbits: u32, hosts: u32, flows: &[(String, String)], what: &str) -> f64 {
    let flow = |(from, to): &(String, String)| {
        format!("[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\n{what}\n")
    };
    let flows: String = flows.iter().map(flow).collect();
    let outcome = star_at(gbits, hosts, &flows);
    let goodput: f64 = outcome.streams.iter().map(|stream| stream.goodput()).sum();
    goodput / (f64::from(hosts * gbits) * 1e9)
}

/// What comes of this traffic between hosts at one switch.
fn star(hosts: u32, traffic: &str) -> Outcome {
    star_at(1, hosts, traffic)
}

fn star_at(gbits: u32, hosts: u32, traffic: &str) -> Outcome {
    let plan = format!(
        r#"
        seed = 1
        hosts = {hosts}
        seal = "sealed"
        [network]
        shape = "star"
        rate = "{gbits}gbit"
        delay = "25us"
        mtu = "1472"
        queue = "256KiB"
        {traffic}
        "#
    );
    let outcome = Plan::from_toml(&plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    outcome
}

/// With grants for who has least left alone these were 0.48, 0.45 and 0.60.
#[test]
fn everybody_has_somebody_to_listen_to() {
    for (hosts, bytes, least) in [(8, "256KiB", 0.78), (8, "64KiB", 0.65), (4, "256KiB", 0.69)] {
        let goodput = exchange(hosts, bytes);
        assert!(goodput > least, "{hosts} hosts, {bytes}: {goodput}");
    }
}

/// What a peer may send unasked was given to it again when its last message had come, in a word behind this host's own: 0.77.
#[test]
fn who_exchange_need_not_ask_for_the_next_message() {
    let goodput = exchange(2, "128KiB");
    assert!(goodput > 0.81, "{goodput}");
}

/// On faster links no word of its own said so, and the next message waited for it: 0.46, 0.39 and 0.40. Of 160 KiB the first 32 messages
/// are told of early, and nothing shows after them that others wait: 0.45 for 100.
#[test]
fn who_has_waited_for_credit_that_was_there_is_told_of_it_early() {
    for (bytes, rounds, least) in [
        ("64KiB", 100, 0.6),
        ("160KiB", 30, 0.56),
        ("192KiB", 100, 0.53),
    ] {
        let goodput = exchange_at(10, 2, bytes, rounds);
        assert!(goodput > least, "{bytes}: {goodput}");
    }
}

/// Where credit waits behind a host's own data. Both were 0.83 when it came in halves of what a receiver's
/// queue may hold.
#[test]
fn who_sends_as_well_keeps_its_own_link_busy() {
    for (hosts, least) in [(2, 0.86), (8, 0.88)] {
        let goodput = ring(hosts);
        assert!(goodput > least, "{hosts} hosts: {goodput}");
    }
}

/// Who is late saves up leave to grant for as long: with what comes due in 100 us it was 0.21.
#[test]
fn who_exchanges_and_is_late_grants_what_came_due_meanwhile() {
    let all = [("all".into(), "all".into())];
    let what = "bytes = \"64KiB\"\nrounds = 6\n[[program]]\nwake = \"~300us\"";
    let goodput = share(1, 16, &all, what);
    assert!(goodput > 0.3, "{goodput}");
}

/// What comes of eight hosts that send to one, where all are as `program` says.
fn eight_to_one(seed: u32, rate: &str, queue: &str, program: &str, traffic: &str) -> Outcome {
    let plan = format!(
        r#"
        seed = {seed}
        hosts = 9
        seal = "sealed"
        [network]
        shape = "star"
        rate = "{rate}"
        delay = "25us"
        mtu = "1472"
        queue = "{queue}"
        [[program]]
        host = "all"
        {program}
        {traffic}
        "#
    );
    let outcome = Plan::from_toml(&plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    outcome
}

/// Packets that go again, as a part of the others: eight hosts that are late send 64 KiB to one at a time.
fn again_where_hosts_are_late(rate: &str, queue: &str, wake: &str) -> f64 {
    let program = format!("wake = \"{wake}\"");
    let traffic = r#"
        [[traffic]]
        from = "1-8"
        to = "0"
        bytes = "64KiB"
        rounds = 40
        pause = "1ms"
        "#;
    let again = (1..=24)
        .map(|seed| eight_to_one(seed, rate, queue, &program, traffic).extra_packets_ratio());
    again.sum::<f64>() / 24.0
}

/// The start overflows it whatever the pace, which was taken for the path's own loss: 0.051 and 0.075 of the packets
/// went again.
#[test]
fn late_hosts_do_not_make_a_shallow_queue_look_like_a_lossy_path() {
    for (rate, queue, wake, most) in [
        ("200mbit", "16KiB", "5us + ~30us + 1% ~1ms", 0.03),
        ("10gbit", "64KiB", "2us + ~3us", 0.05),
    ] {
        let again = again_where_hosts_are_late(rate, queue, wake);
        assert!(again < most, "{again} at {rate}");
    }
}

/// Packets that go again, as a part of the others: `senders` have 64 KiB for one at a time, over and over.
fn again_in_short_rounds(senders: u32, rate: &str, queue: &str) -> f64 {
    let plan = format!(
        r#"
        seed = 1
        hosts = {}
        [network]
        shape = "star"
        rate = "{rate}"
        delay = "25us"
        queue = "{queue}"
        [[traffic]]
        from = "1-{senders}"
        to = 0
        bytes = 65537
        rounds = 60
        pause = "1ms"
        "#,
        senders + 1
    );
    let outcome = Plan::from_toml(&plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    outcome.extra_packets_ratio()
}

/// Start-up never ended, for each round was over before anything was flat, and its window overflowed the queue in each: 0.85,
/// 0.70 and 0.33 of the packets went again.
#[test]
fn start_up_does_not_overflow_the_same_queue_in_each_short_round() {
    for (senders, rate, queue) in [
        (5, "25gbit", "16KiB"),
        (12, "25gbit", "32KiB"),
        (5, "10gbit", "32KiB"),
    ] {
        let again = again_in_short_rounds(senders, rate, queue);
        assert!(again < 0.15, "{senders}, {rate}, {queue}: {again}");
    }
}

/// Of what hosts that are late by 0.5 ms send at once a queue of 16 KiB held a fifth, which was taken for the path's own
/// doing: 3.9 packets went again for each.
#[test]
fn a_short_queue_is_not_overflowed_for_ever() {
    let plan = r#"
        seed = 143
        hosts = 5
        [network]
        shape = "dumbbell"
        rate = "10gbit"
        delay = "500us"
        queue = "16KiB"
        [[program]]
        host = "all"
        wake = "~500us"
        [[traffic]]
        from = "1-4"
        to = 0
        bytes = "2000000"
        rounds = 7
        [[fault]]
        loss = 0.05
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    let again = outcome.extra_packets_ratio();
    assert!(again < 0.4, "{again}");
}

/// Half of all packets lost for 20 ms cut the queue down to its least, where it stayed for 10 s: with hosts that are late
/// these got 66 Mbit/s.
#[test]
fn a_fast_link_is_found_again_after_a_bad_moment() {
    let plan = r#"
        seed = 1
        hosts = 9
        [network]
        shape = "star"
        rate = "10gbit"
        delay = "10us"
        queue = "512KiB"
        [[program]]
        host = "all"
        wake = "~200us"
        [[traffic]]
        from = "1-8"
        to = 0
        bytes = "64KiB"
        rounds = 30
        pause = "1ms"
        [[traffic]]
        from = "1-8"
        to = 0
        bytes = "8M"
        at = "400ms"
        [[fault]]
        until = "20ms"
        loss = 0.5
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let goodput = outcome.streams[1].goodput();
    assert!(goodput > 1e9, "{goodput}");
}

/// Of all to all over a link in the middle, whatever a receiver does about its own link: 0.97 and 0.54 packets went again for each
/// while what one peer had on its way was not bounded by what it lost.
#[test]
fn a_link_that_all_receivers_share_is_not_overflowed_by_each() {
    for (hosts, bytes, most) in [(16, "64KiB", 0.7), (8, "512KiB", 0.42)] {
        let plan = format!(
            r#"
            seed = 1
            hosts = {hosts}
            [network]
            shape = "dumbbell"
            rate = "1gbit"
            delay = "25us"
            queue = "64KiB"
            [[program]]
            host = "all"
            wake = "5us + ~30us + 1% ~1ms"
            [[traffic]]
            from = "all"
            to = "all"
            bytes = "{bytes}"
            rounds = 4
            "#
        );
        let outcome = Plan::from_toml(&plan).expect("a plan").run();
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        let again = outcome.extra_packets_ratio();
        assert!(again < most, "{hosts} hosts, {bytes}: {again}");
    }
}

/// Each receiver took what the others left it for a link that had become another one, and doubled what it had on its way until that was
/// known, again and again: beside them one short message in a hundred took 144 ms.
#[test]
fn who_gets_a_part_of_a_link_in_the_middle_does_not_fill_its_queue() {
    let long = |from: u32| {
        let to = from + 5;
        format!(
            "[[traffic]]\nfrom = {from}\nto = {to}\nbytes = \"256KiB\"\nrounds = 20\nat = \"20ms\"\n"
        )
    };
    let long: String = (0..4).map(long).collect();
    let plan = format!(
        r#"
        hosts = 10
        [network]
        shape = "dumbbell"
        rate = "50mbit"
        [[traffic]]
        from = "all"
        to = "all"
        bytes = "1"
        [[traffic]]
        from = 4
        to = 9
        bytes = "100"
        rounds = 150
        every = "20ms"
        at = "400ms"
        {long}"#
    );
    let outcome = Plan::from_toml(&plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let took_ns = quantile(&outcome.streams[1].sorted_ns(), 0.99);
    assert!(took_ns < 50_000_000, "{took_ns} ns");
}

/// The pace of grants was that of what far hosts had brought over a slow link in the middle, and grew by half at a time: what a near one
/// sent then took 2.6 ms.
#[test]
fn a_near_host_is_not_granted_at_the_pace_of_far_ones() {
    let plan = r#"
        hosts = 4
        [network]
        shape = "dumbbell"
        rate = "50mbit"
        [[traffic]]
        from = 1
        to = 0
        bytes = "256KiB"
        messages = 4
        [[traffic]]
        from = "2-3"
        to = 0
        bytes = "1MiB"
        at = "100ms"
        [[traffic]]
        from = 3
        to = 1
        bytes = "1MiB"
        at = "100ms"
        [[traffic]]
        from = 1
        to = 0
        bytes = "64KiB"
        at = "900ms"
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let took_ns = quantile(&outcome.streams[3].sorted_ns(), 1.0);
    assert!(took_ns < 1_500_000, "{took_ns} ns");
}

/// The last one of three in a row is granted credit behind what the one before it receives: with half of what may be on its way in each
/// grant, it got 0.75 of its link.
#[test]
fn the_last_of_a_chain_receives_as_fast_as_the_others() {
    let plan = r#"
        hosts = 3
        [network]
        shape = "star"
        rate = "100mbit"
        [[traffic]]
        from = 0
        to = 1
        bytes = "256KiB"
        messages = 100
        [[traffic]]
        from = 1
        to = 2
        bytes = "256KiB"
        messages = 100
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let [first, last] = [0, 1].map(|stream| outcome.streams[stream].goodput() / 1e8);
    assert!(first > 0.85 && last > 0.85, "{first}, {last}");
}

/// Words that are lost do not go again, and the gaps that they left were told in each packet of data: 0.82 of the link, and less the more
/// was lost.
#[test]
fn lost_words_do_not_fill_the_packets_of_those_who_send() {
    let plan = r#"
        seed = 1
        hosts = 7
        [network]
        shape = "star"
        rate = "50mbit"
        delay = "25us"
        queue = "64KiB"
        [[traffic]]
        from = "1-6"
        to = 0
        bytes = "64KiB"
        rounds = 60
        every = "1us"
        [[fault]]
        from = "all"
        to = "all"
        loss = 0.02
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let goodput = outcome.streams[0].goodput() / 50e6;
    assert!(goodput > 0.86, "{goodput}");
}

/// A part of our link was more than the path from the far one carries: 8.5 packets went again for each that was new there, and the near
/// one was held to have lost them.
/// The mean of several paths counts, for what is lost when is chance, and what follows from it.
#[test]
fn a_path_that_carries_less_than_its_part_of_our_link_is_not_overflowed() {
    const DELAYS_MS: [u32; 4] = [3, 4, 5, 6];
    let mut means = [0.0; 3];
    for delay_ms in DELAYS_MS {
        let plan = format!(
            r#"
            seed = 1
            hosts = 3
            [network]
            shape = "dumbbell"
            rate = "1gbit"
            delay = "{delay_ms}ms"
            queue = "64KiB"
            [[traffic]]
            name = "near"
            from = 1
            to = 0
            bytes = "1MiB"
            messages = 1000
            [[traffic]]
            name = "far"
            from = 2
            to = 0
            bytes = "1MiB"
            messages = 100
            "#
        );
        let outcome = Plan::from_toml(&plan).expect("a plan").run();
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        let [near, far] = [0, 1].map(|stream| outcome.streams[stream].goodput() / 1e9);
        let figures = [near, far, outcome.extra_packets_ratio()];
        assert!(far > 0.4 && figures[2] < 0.1, "{delay_ms} ms: {figures:?}");
        for (mean, figure) in means.iter_mut().zip(figures) {
            *mean += figure / DELAYS_MS.len() as f64;
        }
    }
    let [near, far, again] = means;
    assert!(near > 7.0 && far > 0.5, "{near}, {far}");
    assert!(again < 0.06, "{again}");
}

/// Hosts that are late by 0.3 ms lost the leave to grant that came due meanwhile: 0.85 of the link.
#[test]
fn a_late_host_that_only_receives_fills_its_link() {
    let program = r#"
        call_cost = "5us"
        packet_cost = "2us"
        wake = "~300us"
        "#;
    let traffic = r#"
        [[traffic]]
        from = "1-8"
        to = 0
        bytes = "1"
        [[traffic]]
        from = "1-8"
        to = 0
        bytes = "256KiB"
        rounds = 20
        at = "20500us"
        pause = "1ms"
        "#;
    let share = |seed| {
        let outcome = eight_to_one(seed, "200mbit", "64KiB", program, traffic);
        outcome.streams[1].goodput() / 200e6
    };
    let mean = (1..=6).map(share).sum::<f64>() / 6.0;
    assert!(mean > 0.86, "{mean}");
}

/// Of 400 who begin at the same time most Inits are lost. One whose third was lost, too, waited for 160 ms more, and came 65 ms
/// after all others.
#[test]
fn nobody_in_a_crowd_comes_long_after_all_others() {
    let plan = r#"
        seed = 1
        hosts = 401
        seal = "sealed"
        [network]
        shape = "star"
        rate = "1gbit"
        delay = "25us"
        mtu = "1472"
        queue = "64KiB"
        [[traffic]]
        from = "1-400"
        to = 0
        bytes = "1"
        [[traffic]]
        from = "1-400"
        to = 0
        bytes = "64KiB"
        at = "20500us"
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let goodput = outcome.streams[1].goodput();
    assert!(goodput > 0.85e9, "{goodput}");
}

/// A size that had overflowed was come near again after 50 ms, two and a half round trips, time and again, and all went ever slower:
/// 0.23 of the link.
#[test]
fn over_a_long_path_a_short_queue_is_not_overflowed_time_and_again() {
    let plan = r#"
        seed = 1
        hosts = 2
        [network]
        rate = "10gbit"
        delay = "0us"
        [settings]
        send_queue = "300MiB"
        [[path]]
        from = 0
        to = 1
        rate = "1gbit"
        queue = "32KiB"
        delay = "10ms"
        [[path]]
        from = 1
        to = 0
        delay = "10ms"
        [[traffic]]
        from = 0
        to = 1
        bytes = "4MiB"
        messages = 64
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let (goodput, again) = (outcome.streams[0].goodput(), outcome.extra_packets_ratio());
    assert!(goodput > 0.7e9, "{goodput}");
    assert!(again < 0.03, "{again}");
}

/// Questions of all who waited for their turn, each 50 ms, and what they sent again without credit took a fifth of a slow link, and
/// overflowed it: 0.80 of it, and one packet in nine was a poll.
#[test]
fn hundreds_who_wait_for_a_slow_link_leave_it_to_those_whose_turn_it_is() {
    let plan = r#"
        seed = 2
        hosts = 401
        [network]
        shape = "star"
        rate = "200mbit"
        delay = "25us"
        queue = "64KiB"
        [[traffic]]
        from = "1-400"
        to = "0"
        bytes = "1"
        [[traffic]]
        from = "1-400"
        to = "0"
        bytes = "64KiB"
        rounds = 3
        at = "20500us"
        pause = "1ms"
        "#;
    let outcome = Plan::from_toml(plan).expect("a plan").run();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let goodput = outcome.streams[1].goodput();
    let polls = outcome.polls as f64 / outcome.packets_sent as f64;
    assert!(goodput > 1.7e8, "{goodput}");
    assert!(polls < 0.08, "{polls}");
}

/// A short message leaves before what waits for the host's own cable to somebody else: behind it the median was 113 us. It waits for the
/// train that has begun to leave, unless that is cut.
#[test]
fn who_sends_long_messages_to_one_sends_short_ones_to_another_at_once() {
    let traffic = r#"
        [[traffic]]
        from = "0"
        to = "1"
        bytes = "4MiB"
        rounds = 8
        [[traffic]]
        from = "0"
        to = "2"
        bytes = "64"
        rounds = 100
        every = "1ms"
        "#;
    let cuts = "[[program]]\nhost = \"0\"\ncuts_trains = true\n";
    for (settings, most_ns) in [(cuts, 40_000), ("", 60_000)] {
        let outcome = star(3, &format!("{settings}{traffic}"));
        let [long, short] = &outcome.streams[..] else {
            panic!("two streams");
        };
        let median_ns = short.sorted_ns()[50];
        println!("{median_ns} ns beside {} bit/s", long.goodput());
        assert!(median_ns < most_ns, "{median_ns} ns");
        assert!(long.goodput() > 0.9e9, "{} bit/s", long.goodput());
    }
}
