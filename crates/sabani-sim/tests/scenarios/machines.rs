//! Hosts: what their CPUs cost, clocks that run at different speeds, and the statistics of bursty
//! loss.

use sabani_proto::CreditPolicy;
use sabani_proto::seal::Mode;
use sabani_sim::{Cost, Delay, Faults, HostId, MS, Network, SEC, Stalls, US, sealed};

use crate::{A, B, counters, sound, warm_pair};

#[test]
fn clocks_of_different_speed_disturb_nobody() {
    for seed in 1..4 {
        let mut net = Network::mesh(seed, 4, &sealed(), |_| {});
        net.links(|link| link.faults.loss = 0.01);
        for (id, ppm) in [(0, 100), (1, -100), (2, 50_000), (3, -50_000)] {
            net.host(HostId(id)).clock.set_drift(0, ppm);
        }
        for _ in 0..20 {
            for from in net.host_ids() {
                for to in net.host_ids().filter(|&to| to != from) {
                    net.send(from, to, 30_000);
                }
            }
            net.run_for(20 * MS);
        }
        sound(net.settle(5 * SEC));
        // Long enough for keep-alives to depend on both clocks.
        net.run_for(120 * SEC);
        for id in net.host_ids() {
            assert!(
                net.losses(id).is_empty(),
                "seed {seed}: {id} gave up on a peer"
            );
        }
    }
}

#[test]
fn a_slow_clock_makes_its_host_wait_longer() {
    // A lost message is asked for after a time on the sender's clock.
    let repair_ns = |ppm| {
        let mut net = warm_pair(1, &sealed());
        let now_ns = net.now_ns();
        net.host(A).clock.set_drift(now_ns, ppm);
        net.link(A, B).drop_first(1, |_| true);
        net.send(A, B, 100);
        crate::time_to_deliver(&mut net, 9, SEC)
    };
    let (fast, exact, slow) = (repair_ns(500_000), repair_ns(0), repair_ns(-500_000));
    assert!(fast < exact && exact < slow, "{fast}, {exact}, {slow} ns");
    assert!(slow > exact * 3 / 2, "{exact}, {slow} ns");
}

/// Nanoseconds that 3 MB take to a receiver, or from a sender, with such a CPU.
fn bulk_ns(mode: &Mode, adjust: impl Fn(&mut Network)) -> u64 {
    let mut net = warm_pair(1, mode);
    adjust(&mut net);
    let (began_ns, delivered) = (net.now_ns(), net.checker.delivered);
    for _ in 0..12 {
        net.send(A, B, 250_000);
    }
    while net.checker.delivered < delivered + 12 {
        net.run_for(10 * US);
        assert!(net.now_ns() < began_ns + SEC, "too slow");
    }
    sound(net.settle(SEC));
    net.now_ns() - began_ns
}

/// Nanoseconds that a message takes to a receiver like this.
fn message_ns(adjust: impl Fn(&mut Network)) -> u64 {
    let mut net = warm_pair(1, &sealed());
    adjust(&mut net);
    // It takes a sleep for a new delay to count.
    net.send(A, B, 100);
    sound(net.settle(10 * SEC));
    net.send(A, B, 100);
    sound(net.settle(10 * SEC));
    let messages = net.checker.ledger.messages();
    let last = messages.filter(|&(from, ..)| from == A).last();
    let (.., sent) = last.expect("it was sent");
    sent.time_ns().expect("it was delivered")
}

#[test]
fn a_process_may_wake_up_late_or_be_held_up_by_others() {
    let quick_ns = message_ns(|_| {});
    assert!(quick_ns < 100 * US, "{quick_ns} ns");
    for wake in ["1ms", "1ms + ~1us"] {
        let late_ns = message_ns(|net| net.host(B).wake = wake.parse().expect("a delay"));
        let extra_ns = late_ns - quick_ns;
        assert!((900 * US..1_100 * US).contains(&extra_ns), "{extra_ns} ns");
    }
    // Others nearly always have the processor.
    let stalls: Stalls = "5ms every 1us".parse().expect("stalls");
    let held_up_ns = message_ns(|net| net.share_processor(B, stalls.clone()));
    assert!(held_up_ns > 500 * US, "{held_up_ns} ns");
}

#[test]
fn who_wakes_up_late_reads_in_batches() {
    let turns = |wake_ns| {
        let mut net = warm_pair(1, &sealed());
        net.host(B).wake = Delay::fixed(wake_ns);
        net.send(A, B, 1_000_000);
        sound(net.settle(10 * SEC));
        net.host(B).turns()
    };
    let (quick, late) = (turns(2 * US), turns(MS));
    assert!(late < quick / 2, "{late} and {quick} turns");
}

#[test]
fn a_batch_bounds_what_is_read_before_anything_is_sent() {
    let turns = |batch| {
        let mut net = warm_pair(1, &sealed());
        net.host(B).batch = batch;
        net.host(B).wake = Delay::fixed(MS);
        net.send(A, B, 100_000);
        sound(net.settle(10 * SEC));
        net.host(B).turns()
    };
    assert!(turns(1) > 60 && turns(u64::MAX) < 30);
}

#[test]
fn slow_processors_set_the_pace() {
    let slow = Cost {
        packet_ns: 2_000,
        byte_ps: 4_000,
        ..Cost::default()
    };
    // At most 1,440 bytes of payload in a datagram of 1,472.
    let least_ns = 3_000_000 / 1_440 * (2_000 + 1_472 * 4);
    let quick_ns = bulk_ns(&sealed(), |_| {});
    assert!(quick_ns < least_ns / 3, "{quick_ns} ns");
    for side in [A, B] {
        let took_ns = bulk_ns(&sealed(), |net| {
            let host = net.host(side);
            (host.reading, host.sending) = (slow, slow);
        });
        let most_ns = least_ns * 13 / 10;
        assert!(
            (least_ns..most_ns).contains(&took_ns),
            "{took_ns} ns, {least_ns} expected"
        );
    }
}

#[test]
fn bursts_have_the_length_and_the_share_that_were_asked_for() {
    const COUNT: u64 = 1_000_000;
    for (burst, burst_len, burst_spares) in [(0.01, 20, 0.0), (0.002, 50, 0.3), (0.05, 4, 0.5)] {
        let mut net = Network::pair(1, &sealed());
        net.crash(B);
        net.link(A, B).faults = Faults {
            burst,
            burst_len,
            burst_spares,
            ..Faults::default()
        };
        let (mut runs, mut lost_before) = (0, false);
        for _ in 0..COUNT {
            let before = net.link(A, B).counters.lost;
            net.emit(A, B, &[9; 20]);
            net.run_for(US);
            let lost = net.link(A, B).counters.lost > before;
            runs += u64::from(lost && !lost_before);
            lost_before = lost;
        }
        let lost = net.link(A, B).counters.lost as f64;
        // Of the time, the share that is spent in bursts; of that, what is not spared.
        let bad = burst * burst_len as f64 / (1.0 + burst * burst_len as f64);
        let expected = bad * (1.0 - burst_spares) * COUNT as f64;
        assert!(
            (lost / expected - 1.0).abs() < 0.1,
            "{lost} lost, {expected} expected"
        );
        // A run of losses ends with the burst, or with a datagram that is spared.
        let goes_on = (1.0 - 1.0 / burst_len as f64) * (1.0 - burst_spares);
        let (mean, expected) = (lost / runs as f64, 1.0 / (1.0 - goes_on));
        assert!(
            (mean / expected - 1.0).abs() < 0.1,
            "runs of {mean}, {expected} expected"
        );
    }
}

#[test]
fn a_slow_reader_overflows_its_socket_and_everything_arrives() {
    // Two packets are every peer's least share, and there is not even room for those.
    let mut net = Network::mesh(2, 21, &sealed(), |config| {
        config.socket_buffer_bytes = 64 << 10;
        config.credit = CreditPolicy::Shares;
    });
    net.host(A).reading.packet_ns = 5 * US;
    for from in 1..21 {
        net.send(HostId(from), A, 100_000);
    }
    sound(net.settle(20 * SEC));
    let socket = &net.host(A).socket;
    assert!(socket.overflows > 0 && socket.charged_max <= 64 << 10);
    assert!(counters(&mut net, A).messages_received >= 20);
}
