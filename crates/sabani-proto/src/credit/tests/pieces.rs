//! The parts by themselves.

use std::cell::Cell;

use super::model::FULL;
use crate::channel::Data;
use crate::credit::blame::{Blame, Finding};
use crate::credit::link::{Link, Pressure};
use crate::credit::narrow::{Common, Narrow};
use crate::credit::queue::{Brought, Queue};
use crate::credit::rate::{Bound, Rate, worth};
use crate::credit::reach::Reach;
use crate::credit::standing::{Holder, Pool};
use crate::credit::{Arrival, CreditConfig, CreditPolicy, GrantOrder};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// 1 Gb/s in charge per nanosecond.
const GIGABIT: f64 = 0.19;

fn config() -> CreditConfig {
    CreditConfig {
        socket_bytes: 8 << 20,
        full_cost: FULL as u32,
        window_max: 3 << 19,
        expected_peers: 1,
        policy: CreditPolicy::Paced(GrantOrder::default()),
    }
}

/// Reads `packets` every `every_ns` from `now_ns` on, `times` times, and all that there is.
fn read(rate: &mut Rate, packets: u64, every_ns: u64, times: u64, now_ns: &mut u64) {
    for _ in 0..times {
        *now_ns += every_ns;
        rate.add(packets * FULL);
        rate.tick(FULL, 0, 1.0, true, *now_ns);
    }
}

/// The same, with more behind it each time.
fn read_some(rate: &mut Rate, packets: u64, every_ns: u64, times: u64, now_ns: &mut u64) {
    for _ in 0..times {
        *now_ns += every_ns;
        rate.add(packets * FULL);
        rate.tick(FULL, 0, 1.0, false, *now_ns);
    }
}

#[test]
fn the_rate_is_what_comes_in() {
    let (mut rate, mut now_ns) = (Rate::default(), 0);
    read(&mut rate, 2, 24 * US, 40, &mut now_ns);
    let expected = 2.0 * FULL as f64 / 24_000.0;
    assert!((rate.get() / expected - 1.0).abs() < 0.01, "{}", rate.get());
}

#[test]
fn a_backlog_is_not_taken_for_a_fast_link() {
    let (mut rate, mut now_ns) = (Rate::default(), 0);
    read(&mut rate, 2, 24 * US, 40, &mut now_ns);
    let honest = rate.get();
    // Nothing read for a millisecond, then all of that at once.
    now_ns += MS;
    read(&mut rate, 83, 61 * US, 1, &mut now_ns);
    read(&mut rate, 2, 24 * US, 40, &mut now_ns);
    // Nothing read for so long that reading it takes several batches.
    now_ns += 6 * MS;
    read_some(&mut rate, 64, 61 * US, 9, &mut now_ns);
    read(&mut rate, 2, 24 * US, 40, &mut now_ns);
    assert!(rate.get() < 1.05 * honest);
}

#[test]
fn a_host_that_reads_all_the_time_is_the_link() {
    let (mut rate, mut now_ns) = (Rate::default(), 0);
    read_some(&mut rate, 16, 20 * US, 400, &mut now_ns);
    let expected = 16.0 * FULL as f64 / 20_000.0;
    assert!((rate.get() / expected - 1.0).abs() < 0.02, "{}", rate.get());
}

/// Over a long path, and behind a host that gathers, all of a window comes at a time.
#[test]
fn a_window_that_comes_all_at_once_counts_as_a_whole() {
    let (mut rate, mut now_ns) = (Rate::default(), 0);
    for _ in 0..10 {
        now_ns += 4_800 * US;
        read_some(&mut rate, 64, 50 * US, 3, &mut now_ns);
        read(&mut rate, 64, 50 * US, 1, &mut now_ns);
    }
    let expected = 256.0 * FULL as f64 / 5e6;
    assert!((rate.get() / expected - 1.0).abs() < 0.01, "{}", rate.get());
}

#[test]
fn a_slower_link_is_noticed_only_while_credit_is_the_limit() {
    for (bound, forgets) in [
        (Bound::Credit, true),
        (Bound::Senders, false),
        (Bound::Test, false),
    ] {
        let (mut rate, mut now_ns) = (Rate::default(), 0);
        read(&mut rate, 2, 24 * US, 40, &mut now_ns);
        let fast = rate.get();
        for _ in 0..3_000 {
            read(&mut rate, 1, 24 * US, 1, &mut now_ns);
            rate.roll(100 * US, bound, now_ns);
        }
        assert_eq!(rate.get() < 0.6 * fast, forgets, "{bound:?}");
    }
}

#[test]
fn a_test_forgets_no_rate_however_long_it_takes() {
    let (mut rate, mut now_ns) = (Rate::default(), 0);
    read(&mut rate, 2, 12 * MS, 40, &mut now_ns);
    let before = rate.get();
    for _ in 0..400 {
        read(&mut rate, 1, 8 * MS, 1, &mut now_ns);
        rate.roll(100 * US, Bound::Test, now_ns);
    }
    assert_eq!(rate.get(), before);
}

#[test]
fn silence_forgets_no_rate() {
    let (mut rate, mut now_ns) = (Rate::default(), 0);
    read(&mut rate, 2, 24 * US, 40, &mut now_ns);
    let fast = rate.get();
    rate.pause();
    for _ in 0..100 {
        now_ns += 25 * MS;
        rate.roll(100 * US, Bound::Credit, now_ns);
    }
    assert_eq!(rate.get(), fast);
}

#[test]
fn small_datagrams_are_worth_what_the_wire_carries() {
    assert_eq!(worth(FULL, 1_472, 1), FULL);
    assert_eq!(worth(768, 60, 1), 2 * (60 + 42));
}

/// Rounds of 100 packets, of which `lost(slow)` are lost.
fn rounds(blame: &mut Blame, count: u64, lost: impl Fn(f64) -> u32) -> Vec<Finding> {
    let mut found = Vec::new();
    for round in 0..count {
        let lost = lost(blame.slow());
        blame.add(100 - lost, lost, 0);
        for us in [400, 800, 2_000] {
            found.extend(blame.tick(100 * US, false, round * 2 * MS + us * US));
        }
    }
    found
}

#[test]
fn loss_that_stays_is_the_paths() {
    let mut blame = Blame::new();
    let found = rounds(&mut blame, 200, |_| 8);
    assert!(found.contains(&Finding::Acquitted));
    assert!(!found.contains(&Finding::Guilty));
    assert_eq!(blame.slow(), 1.0);
    assert!((blame.harmless_loss() - 0.08).abs() < 0.01);
}

/// Before the rate is known nothing can be slowed down: loss that stays then says nothing.
#[test]
fn nobody_is_judged_while_the_rate_is_not_known() {
    let mut blame = Blame::new();
    for round in 1..20 {
        blame.add(70, 30, 0);
        let found = blame.tick(100 * US, true, round * 2 * MS);
        assert!(
            [None, Some(Finding::Overflow)].contains(&found),
            "{found:?}"
        );
    }
    assert_eq!(blame.slow(), 1.0);
}

#[test]
fn loss_that_goes_when_we_slow_down_is_ours() {
    let mut blame = Blame::new();
    let found = rounds(&mut blame, 10, |slow| if slow > 0.85 { 8 } else { 0 });
    assert!(found.contains(&Finding::Guilty));
    assert!(blame.slow() < 1.0);
    // ... and what is not lost any more lets us go faster again.
    rounds(&mut blame, 100, |_| 0);
    assert_eq!(blame.slow(), 1.0);
}

/// A queue of two packets loses what comes at once when a message begins, whatever the pace, and nothing of the rest. Rounds
/// of slow paths hold a part of a message: those without its beginning have been taken for proof that going slower
/// helps, again and again.
#[test]
fn what_begins_a_message_is_not_told_from_its_rest_by_the_pace() {
    for pattern in [
        &[5, 0, 0][..],
        &[5, 1, 0, 0],
        &[6, 0, 0, 0, 0],
        &[8, 8, 0, 0, 0, 0, 0],
    ] {
        let mut blame = Blame::new();
        for (round, lost) in (0..3_000).zip(pattern.iter().cycle()) {
            blame.add(16 - lost, *lost, 0);
            for us in [400, 800, 2_000] {
                blame.tick(100 * US, false, round * 2 * MS + us * US);
            }
        }
        assert!(blame.slow() > 0.65, "{pattern:?}: {}", blame.slow());
    }
}

/// Many that begin at a time overflow a shallow queue however little each of them sends: that has looked like a path
/// that always loses as much, and no loss was of interest any more.
#[test]
fn loss_that_goes_was_never_the_paths() {
    let mut blame = Blame::new();
    let round = Cell::new(0);
    let found = rounds(&mut blame, 200, |slow| {
        match round.replace(round.get() + 1) {
            0..10 => 20,
            _ if slow > 0.85 => 45,
            _ => 0,
        }
    });
    assert!(found.contains(&Finding::Acquitted), "{found:?}");
    let guilty = found.iter().position(|&it| it == Finding::Guilty);
    let next = guilty.and_then(|at| found.get(at + 1));
    assert_eq!(next, Some(&Finding::Overflow), "{found:?}");
}

/// Of a window of many times what the queue holds most is lost at any pace.
#[test]
fn loss_of_nearly_everything_is_nobody_elses() {
    let mut blame = Blame::new();
    let found = rounds(&mut blame, 200, |_| 80);
    assert!(found.iter().all(|&it| it == Finding::Overflow), "{found:?}");
    assert!(found.len() > 190, "{}", found.len());
    assert_eq!(blame.slow(), 1.0);
}

#[test]
fn marks_are_believed_at_once_and_a_few_are_not() {
    let mut blame = Blame::new();
    let rounds = [(2, None), (3, Some(Finding::Marked)), (0, None)];
    for (round, (marked, found)) in (1..).zip(rounds) {
        blame.add(100, 0, 0);
        blame.add_marked(marked);
        assert_eq!(blame.tick(100 * US, false, round * 2 * MS), found);
    }
    assert_eq!(blame.slow(), 1.0);
}

#[test]
fn reordering_is_not_loss() {
    let mut blame = Blame::new();
    blame.add(100, 20, 20);
    assert_eq!(blame.tick(100 * US, false, 10 * MS), None);
    assert_eq!(blame.harmless_loss(), 0.0);
    // The round is over before those come that were overtaken.
    blame.add(100, 20, 0);
    assert_eq!(blame.tick(100 * US, false, 20 * MS), None);
    blame.add(20, 0, 20);
    for us in (100..5_000).step_by(100) {
        blame.add(10, 0, 0);
        assert_eq!(blame.tick(100 * US, false, 20 * MS + us * US), None);
    }
    assert_eq!(blame.harmless_loss(), 0.0);
}

#[test]
fn a_gap_that_stays_is_an_overflow_soon() {
    let mut blame = Blame::new();
    blame.add(100, 0, 0);
    assert_eq!(blame.tick(100 * US, false, 10 * MS), None);
    blame.add(100, 20, 0);
    let mut findings = (1..=20).filter_map(|step: u64| {
        blame.add(10, 0, 0);
        let found = blame.tick(100 * US, false, 10 * MS + step * 100 * US);
        found.map(|finding| (step, finding))
    });
    let (step, finding) = findings.next().expect("it is found");
    assert_eq!(finding, Finding::Overflow);
    assert!(step <= 13, "{step}");
}

#[test]
fn an_overflow_cuts_the_queue_until_the_path_is_found_guilty() {
    let mut queue = Queue::new(FULL, 6 << 20);
    let size = queue.size();
    queue.on_overflow(0.0, 100 * US, 10 * MS);
    queue.on_overflow(0.0, 100 * US, 20 * MS);
    assert!(queue.size() < 0.5 * size);
    assert!(queue.term() <= queue.size() / 2.0);
    queue.on_acquitted();
    assert_eq!(queue.size(), size);
    queue.on_overflow(0.0, 100 * US, 30 * MS);
    queue.on_guilty();
    queue.on_acquitted();
    assert!(queue.size() < size);
}

#[test]
fn an_overflow_by_far_more_than_the_queue_says_nothing_of_it() {
    let mut queue = Queue::new(FULL, 6 << 20);
    let size = queue.size();
    queue.on_overflow(4.0 * size, 100 * US, 10 * MS);
    assert_eq!(queue.size(), size);
    queue.on_overflow(1.2 * size, 100 * US, 20 * MS);
    assert!((0.7 * size..size).contains(&queue.size()));
}

#[test]
fn what_was_on_its_way_counts_until_its_loss_does() {
    let mut blame = Blame::new();
    let round = |blame: &mut Blame, at_ns: u64| {
        blame.add(100, 0, 0);
        blame.tick(100 * US, false, at_ns);
    };
    blame.note_on_way(500);
    for (rounds, most) in [(1, 500), (2, 500), (3, 7)] {
        round(&mut blame, rounds * 10 * MS);
        blame.note_on_way(7);
        assert_eq!(blame.most_on_way(), most);
    }
}

#[test]
fn the_queue_never_falls_below_what_any_path_needs() {
    let mut queue = Queue::new(FULL, 6 << 20);
    for round in 1..100 {
        queue.on_overflow(0.0, 100 * US, round * 10 * MS);
    }
    assert_eq!(queue.size(), (8 * FULL) as f64);
}

#[test]
fn the_term_grows_while_the_link_is_not_full_and_shrinks_while_it_is() {
    let mut queue = Queue::new(FULL, 6 << 20);
    for round in 1..100 {
        queue.on_round(brought(0.8 * GIGABIT), GIGABIT, 100 * US, round * MS);
    }
    let most = queue.term();
    assert!(most > 20.0 * FULL as f64, "{most}");
    // 400 µs of the link, and no more.
    assert!(most <= 400_000.0 * GIGABIT + 1.0, "{most}");
    for round in 100..1_000 {
        queue.on_round(brought(GIGABIT), GIGABIT, 100 * US, round * MS);
    }
    assert!(queue.term() < 20.0 * FULL as f64, "{}", queue.term());
}

#[test]
fn a_size_that_overflowed_is_left_alone_for_a_while_and_then_for_longer() {
    let mut queue = Queue::new(FULL, 6 << 20);
    let grow = |queue: &mut Queue, from_ms, until_ms| {
        for round in from_ms..until_ms {
            queue.on_round(brought(0.8 * GIGABIT), GIGABIT, 100 * US, round * MS);
        }
    };
    queue.on_overflow(0.0, 100 * US, 10 * MS);
    let cut = queue.size();
    // Within that time, more of the same.
    queue.on_overflow(0.0, 100 * US, 12 * MS);
    let cut_again = queue.size();
    assert!(cut_again < cut);
    grow(&mut queue, 13, 60);
    assert!(queue.size() < 1.2 * cut_again);
    grow(&mut queue, 63, 80);
    assert!(queue.size() > 1.3 * cut_again);
    queue.on_overflow(0.0, 100 * US, 80 * MS);
    let cut = queue.size();
    grow(&mut queue, 81, 178);
    assert!(queue.size() < 1.2 * cut);
    grow(&mut queue, 181, 220);
    assert!(queue.size() > 1.3 * cut);
}

/// Hosts that answer late: each round brings what is on its way, and no more.
#[test]
fn a_rate_that_is_far_too_low_does_not_keep_itself_low() {
    let mut queue = Queue::new(FULL, 6 << 20);
    let (mut rate, late_ns) = (0.01 * GIGABIT, MS as f64);
    for round in 1..100 {
        let bring = (queue.term() / late_ns).min(GIGABIT);
        rate = bring.max(rate);
        queue.on_round(brought(bring), rate, 100 * US, round * 10 * MS);
    }
    assert!(rate > 0.9 * GIGABIT, "{}", rate / GIGABIT);
}

fn brought(rate: f64) -> Brought {
    Brought {
        rate,
        paced: 1.0,
        stretch: 1.0,
        packet: 0.0,
        duplex: false,
        alone: false,
    }
}

/// A packet in each round, as a rate.
const SLOW_PACKET: f64 = 0.005 * GIGABIT;

/// A round of ten packets at 50 Mbit/s, of which the last may come in the next.
fn slow_round(packets: f64, duplex: bool, alone: bool) -> Brought {
    Brought {
        rate: packets * SLOW_PACKET,
        paced: 1.0,
        stretch: 1.0,
        packet: SLOW_PACKET,
        duplex,
        alone,
    }
}

/// The term in full packets after each of `rounds`.
fn terms_of_a_slow_link(rounds: impl Iterator<Item = Brought>) -> Vec<f64> {
    let mut queue = Queue::new(FULL, 6 << 20);
    let after = |(at, round): (u64, Brought)| {
        queue.on_round(round, 10.0 * SLOW_PACKET, 400 * US, at * 3 * MS);
        queue.term() / FULL as f64
    };
    (1..).zip(rounds).map(after).collect()
}

/// ... after all of a thousand that bring as much as these four.
fn term_of_a_slow_link(packets: [f64; 4], duplex: bool, alone: bool) -> f64 {
    let rounds = packets.into_iter().cycle().take(1_000);
    terms_of_a_slow_link(rounds.map(|packets| slow_round(packets, duplex, alone)))[999]
}

#[test]
fn few_packets_wait_for_a_slow_link_where_several_send_to_one() {
    let full = [10.0; 4];
    assert_eq!(term_of_a_slow_link(full, false, false), 2.0);
    assert_eq!(
        term_of_a_slow_link([9.0, 11.0, 10.0, 10.0], false, false),
        2.0
    );
    assert_eq!(term_of_a_slow_link(full, false, true), 8.0);
    assert_eq!(term_of_a_slow_link(full, true, false), 8.0);
    // What covers 1.6 ms, and no more: that is eight packets.
    let term = term_of_a_slow_link([7.0; 4], false, false);
    assert!((7.9..8.1).contains(&term), "{term}");
}

/// What goes slower because of loss brings less, and with more on its way no more.
#[test]
fn a_slowed_link_is_full_at_its_pace() {
    let slowed = |paced| Brought {
        paced,
        ..slow_round(7.0, false, false)
    };
    let term_after_all = |paced| terms_of_a_slow_link(vec![slowed(paced); 1_000].into_iter())[999];
    assert_eq!(term_after_all(0.7), 2.0);
    assert!(term_after_all(1.0) > 7.9);
}

/// Rounds that last longer so that they have room for packets are fewer: what makes others wait goes as soon.
#[test]
fn a_long_term_goes_faster_in_long_rounds() {
    let rounds_until_short = |stretch| {
        let full = Brought {
            stretch,
            ..slow_round(10.0, false, false)
        };
        let terms = terms_of_a_slow_link(vec![full; 1_000].into_iter());
        terms.iter().position(|&term| term <= 4.0)
    };
    let (usual, stretched) = (rounds_until_short(1.0), rounds_until_short(4.0));
    assert!(
        2 * stretched.unwrap() < usual.unwrap(),
        "{usual:?} {stretched:?}"
    );
}

/// Several that begin to send at a time: nothing has shown that they need as much as one alone would have.
#[test]
fn start_up_leaves_a_slow_link_few_packets_where_several_send() {
    let term = |alone| {
        let mut queue = Queue::new(FULL, 6 << 20);
        queue.settle(0.0, alone, 10.0 * SLOW_PACKET, 400 * US);
        queue.term() / FULL as f64
    };
    assert_eq!((term(true), term(false)), (8.0, 2.0));
}

/// Of a path whose queue holds 48 packets.
const HOLDER: Holder = Holder {
    own: 0,
    queue: 48 * FULL,
    full: FULL,
    wish: None,
    is_terse: false,
};

#[test]
fn standing_credit_is_divided_until_it_is_not_worth_it() {
    let mut pool = Pool::new(&config());
    for (peers, packets) in [(1, 48), (2, 18), (4, 9), (8, 4), (18, 2), (19, 0), (400, 0)] {
        pool.peers = peers;
        assert_eq!(pool.share(&HOLDER), packets * FULL, "{peers}");
    }
    pool.peers = 2;
    pool.promised = 30 * FULL;
    assert_eq!(pool.share(&HOLDER), 6 * FULL);
    let again = Holder {
        own: 18 * FULL,
        ..HOLDER
    };
    assert_eq!(pool.share(&again), 18 * FULL);
    // A shallower path has less of it.
    pool.peers = 1;
    pool.promised = 0;
    let shallow = Holder {
        queue: 10 * FULL,
        ..HOLDER
    };
    assert_eq!(pool.share(&shallow), 10 * FULL);
}

#[test]
fn words_need_little_standing_credit_and_the_rest_is_for_those_who_send_more() {
    let mut pool = Pool::new(&config());
    let terse = Holder {
        is_terse: true,
        ..HOLDER
    };
    // Peers, those of them that are terse, and what both sorts get.
    let shares = [
        (4, 3, 30, 2),
        (6, 5, 26, 2),
        (6, 4, 14, 2),
        (10, 9, 18, 2),
        (11, 10, 36, 0),
        (19, 18, 36, 0),
        (400, 399, 36, 0),
        (400, 1, 0, 2),
    ];
    for (peers, of_them, ample, little) in shares {
        (pool.peers, pool.terse) = (peers, of_them);
        assert_eq!(pool.share(&HOLDER), ample * FULL, "{peers}");
        assert_eq!(pool.share(&terse), little * FULL, "{peers}");
    }
    // All of it if nobody sends more.
    (pool.peers, pool.terse) = (2, 2);
    assert_eq!(pool.share(&terse), 18 * FULL);
    pool.peers = 1;
    pool.terse = 1;
    assert_eq!(pool.share(&terse), 48 * FULL);
    // As if all that are expected were there.
    let mut pool = Pool::new(&CreditConfig {
        expected_peers: 8,
        ..config()
    });
    (pool.peers, pool.terse) = (2, 2);
    assert_eq!(pool.share(&terse), 4 * FULL);
    (pool.peers, pool.terse) = (2, 1);
    assert_eq!(pool.share(&HOLDER), 4 * FULL);
}

const PATH_NS: u64 = 100_000;

/// What the peer may be granted after it was granted ten packets that came so late.
fn after_answer(reach: &mut Reach, took_ns: u64) -> u64 {
    reach.expect(10 * FULL, || PATH_NS, 0);
    reach.on_arrival(4 * FULL, FULL, took_ns / 2);
    assert!(reach.is_waited_for());
    reach.on_arrival(6 * FULL, FULL, took_ns);
    assert!(!reach.is_waited_for());
    reach.get(0, 4)
}

#[test]
fn who_is_late_is_granted_less_until_it_answers_in_time() {
    let mut reach = Reach::default();
    assert_eq!(after_answer(&mut reach, PATH_NS), u64::MAX);
    let less = after_answer(&mut reach, 4 * PATH_NS);
    assert!(less < 5 * FULL, "{less}");
    let more = after_answer(&mut reach, PATH_NS);
    assert!(more > 10 * FULL && more < 20 * FULL, "{more}");
    // However late, a part is everybody's.
    for (peers, part) in [(2, 200), (4, 100), (9, 100)] {
        assert_eq!(reach.get(400 * FULL, peers), part * FULL);
    }
}

#[test]
fn only_what_is_waited_for_is_overdue() {
    let mut reach = Reach::default();
    assert_eq!(reach.due_ns(), u64::MAX);
    reach.expect(10 * FULL, || PATH_NS, 7);
    let due_ns = reach.due_ns();
    assert!(due_ns > 7 + PATH_NS && due_ns < 7 + 2 * PATH_NS);
    // More credit meanwhile changes nothing.
    reach.expect(20 * FULL, || PATH_NS, 9);
    assert_eq!(reach.due_ns(), due_ns);
    reach.forget();
    assert_eq!(reach.due_ns(), u64::MAX);
}

/// Trains that come alone, each with a pause behind it, show no rate, however short they are: start-up goes on.
#[test]
fn start_up_does_not_end_before_there_is_a_rate() {
    let mut link = Link::new(&config());
    let pressure = Pressure {
        limited: true,
        unused: false,
        waiting: 1,
        senders: 1,
    };
    let arrival = Arrival {
        charge: 16 * FULL,
        bytes: 16 * 1_472,
        packets: 16,
        advanced: 16 * FULL as u32,
        data: Data::Long,
        ..Arrival::default()
    };
    for train in 1..20 {
        for us in [0, 70] {
            link.on_arrival(&arrival, MS, false);
            link.tick(pressure, true, train * 10 * MS + us * US);
        }
        link.pause();
        assert!(link.is_starting() || link.rate() > 0.0, "train {train}");
    }
}

/// Rounds of 40 packets within `window`, of which `lost` are lost; what all lose together is 20 %, and not our link's doing.
struct Path {
    narrow: Narrow,
    now_ns: u64,
}

impl Path {
    fn new() -> Self {
        let narrow = Narrow::default();
        Path { narrow, now_ns: 0 }
    }

    fn rounds(&mut self, count: u64, lost: u32, window: u64) {
        let common = Common {
            acquitted: Some(0.2),
            others: None,
        };
        self.common_rounds(count, lost, common, window);
    }

    fn common_rounds(&mut self, count: u64, lost: u32, common: Common, window: u64) {
        for _ in 0..count {
            let window = window.min(self.narrow.most());
            self.arrive(40 - lost, lost, 0, window);
            self.now_ns += MS;
            self.narrow.tick(FULL, common, 100 * US, self.now_ns);
        }
    }

    fn arrive(&mut self, packets: u32, lost: u32, late: u32, window: u64) {
        let arrival = Arrival {
            packets,
            lost,
            late,
            charge: u64::from(packets) * FULL,
            ..Arrival::default()
        };
        self.narrow.on_arrival(&arrival, window);
    }
}

#[test]
fn who_loses_more_than_the_others_is_granted_less_until_it_does_not() {
    let mut path = Path::new();
    path.rounds(50, 6, 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX, "less than the others lose");
    path.rounds(3, 20, 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX, "an accident");
    path.rounds(5, 20, 100 * FULL);
    let less = path.narrow.most();
    assert!((20 * FULL..40 * FULL).contains(&less), "{less}");
    path.rounds(6, 0, 100 * FULL);
    let more = path.narrow.most();
    assert!(more > less && more < 2 * less, "{less}, {more}");
    path.rounds(6, 0, 40 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX);
}

#[test]
fn nobody_is_granted_less_before_the_link_is_acquitted() {
    let mut path = Path::new();
    path.common_rounds(50, 20, Common::default(), 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX);
}

#[test]
fn who_alone_loses_much_is_granted_less_without_a_test() {
    let others = |loss| Common {
        acquitted: None,
        others: Some(loss),
    };
    let mut path = Path::new();
    path.common_rounds(50, 20, others(0.4), 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX, "as the others do");
    path.common_rounds(50, 7, others(0.05), 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX, "by chance");
    path.common_rounds(50, 3, others(0.0), 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX, "little");
    path.common_rounds(10, 20, others(0.05), 100 * FULL);
    let less = path.narrow.most();
    assert!(less < 20 * FULL, "{less}");
}

#[test]
fn a_narrow_path_is_granted_its_window_in_the_course_of_a_round_trip() {
    let mut path = Path::new();
    path.narrow.on_grant(50 * FULL, 10 * MS, MS);
    assert_eq!(path.narrow.next_ns(), 0, "not narrow");
    path.rounds(5, 20, 100 * FULL);
    let (most, now_ns) = (path.narrow.most(), path.now_ns);
    assert!(path.narrow.quantum() <= most / 32);
    path.narrow.on_grant(most, 10 * MS, now_ns);
    let wait_ns = path.narrow.next_ns() - now_ns;
    assert!((7 * MS..=8 * MS).contains(&wait_ns), "{wait_ns}");
}

#[test]
fn what_is_lost_with_the_least_window_as_well_is_the_paths_own() {
    let mut path = Path::new();
    path.rounds(40, 16, 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX);
    path.rounds(100, 18, 100 * FULL);
    assert_eq!(path.narrow.most(), u64::MAX);
    path.rounds(10, 36, 100 * FULL);
    assert!(path.narrow.most() < 20 * FULL, "{}", path.narrow.most());
}

#[test]
fn what_comes_late_was_not_lost() {
    let mut path = Path::new();
    for _ in 0..50 {
        path.arrive(20, 20, 20, 100 * FULL);
        path.rounds(1, 0, 100 * FULL);
    }
    assert_eq!(path.narrow.most(), u64::MAX);
}
