//! Packet numbers, acknowledgements, loss, round-trip time and path MTU, against models.

use super::sent::SentLog;
use super::*;
use crate::wire::{AckRange, Frame, Prelude};
use proptest::prelude::*;
use std::collections::HashSet;
use std::ops::Range;

mod overtaken;
mod paths;
mod received;

const MS: u64 = 1_000_000;

fn told(set: &PacketSet) -> HashSet<u64> {
    let Some(largest) = set.largest() else {
        return HashSet::new();
    };
    let (first, ranges) = set.report();
    let mut start = largest + 1 - u64::from(first);
    let mut numbers: HashSet<u64> = (start..=largest).collect();
    for AckRange { gap, len } in ranges {
        let end = start - u64::from(gap);
        start = end - u64::from(len);
        numbers.extend(start..end);
    }
    numbers
}

proptest! {
    /// Never takes a packet twice, and never tells of one that did not come; with few gaps it
    /// refuses nothing else and tells of everything.
    #[test]
    fn the_packet_set_tells_the_truth(
        numbers in prop::collection::vec(0..400_u64, 1..400),
        floors in prop::collection::vec((0..400_usize, 0..400_u64), 0..4),
    ) {
        let mut set = PacketSet::default();
        let mut came = HashSet::new();
        let mut floor = 0;
        for (at, number) in numbers.into_iter().enumerate() {
            let known = came.contains(&number);
            prop_assert!(!known || set.contains(number));
            if !set.contains(number) {
                let next = set.largest().map_or(0, |largest| largest + 1);
                let arrival = set.insert(number);
                prop_assert_eq!(arrival == Arrival::Next, number == next);
                prop_assert_eq!(arrival == Arrival::Gap, number > next);
                came.insert(number);
            }
            prop_assert!(set.contains(number));
            for (_, settled) in floors.iter().filter(|(when, _)| *when == at) {
                set.settle_below(*settled);
                floor = floor.max((*settled).min(set.largest().unwrap_or(0)));
                prop_assert!((0..floor).all(|number| set.contains(number)));
            }
            prop_assert!(told(&set).is_subset(&came));
        }
        let gaps = (0..400_u64).filter(|n| came.contains(n) != came.contains(&(n + 1))).count() / 2;
        if gaps < Frame::MAX_ACK_RANGES {
            prop_assert!((floor..400).all(|n| set.contains(n) == came.contains(&n)));
            let due: HashSet<_> = came.iter().copied().filter(|&n| n >= floor).collect();
            prop_assert!(due.is_subset(&told(&set)));
        }
    }
}

#[test]
fn what_is_forgotten_is_never_acknowledged() {
    let mut set = PacketSet::default();
    (0..400).step_by(2).for_each(|even| {
        set.insert(even);
    });
    assert!(set.contains(1), "too old to tell");
    let late: Vec<u64> = (1..400).step_by(2).filter(|&n| !set.contains(n)).collect();
    for &odd in late.iter().rev() {
        set.insert(odd);
    }
    assert!(!told(&set).contains(&1));
    assert!(late.iter().all(|odd| told(&set).contains(odd)));
}

fn packet(number: u64) -> Sent {
    run(number, 1)
}

fn run(first: u64, packets: u32) -> Sent {
    Sent {
        first,
        packets,
        bytes: 1_200,
        eliciting: true,
        charged: true,
        ask: false,
        probe: false,
    }
}

/// The number of the first packet that carries it.
impl Cargo for u64 {
    fn part(self, part: Range<u32>, _: u32) -> u64 {
        self + u64::from(part.start)
    }
}

/// The numbers of the packets that carry it among them.
#[derive(Clone, Copy, Debug)]
struct Numbers(u64, u64);

impl Cargo for Numbers {
    fn part(self, part: Range<u32>, of: u32) -> Self {
        assert_eq!(self.1 - self.0, u64::from(of));
        Numbers(self.0 + u64::from(part.start), self.0 + u64::from(part.end))
    }
}

/// Numbers received, as an acknowledgement.
fn ack_of(numbers: &HashSet<u64>) -> Option<Ack> {
    let largest = *numbers.iter().max()?;
    let mut set = PacketSet::default();
    let mut sorted: Vec<_> = numbers.iter().copied().collect();
    sorted.sort_unstable();
    sorted.into_iter().for_each(|number| {
        set.insert(number);
    });
    let (first_len, ranges) = set.report();
    Some(Ack {
        largest,
        first_len,
        ranges,
        ..Ack::default()
    })
}

#[derive(Clone, Debug)]
enum Step {
    Send(u8),
    SendRun(u8),
    Arrive(u8),
    Ack,
    Wait(u64),
    Poll,
    GiveBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (1..6_u8).prop_map(Step::Send),
        3 => (1..12_u8).prop_map(Step::SendRun),
        6 => any::<u8>().prop_map(Step::Arrive),
        3 => Just(Step::Ack),
        2 => (0..200 * MS).prop_map(Step::Wait),
        1 => Just(Step::Poll),
        1 => Just(Step::GiveBack),
    ];
    prop::collection::vec(step, 1..200)
}

fn recoveries() -> impl Strategy<Value = Recovery> {
    prop_oneof![
        Just(Recovery::Selective),
        Just(Recovery::GoBackN),
        Just(Recovery::Timeout),
    ]
}

proptest! {
    /// Each thing that a packet carried is settled once; as arrived only if it did.
    #[test]
    fn contents_are_settled_once(steps in steps(), recovery in recoveries()) {
        let mut log = SentLog::new(recovery);
        let mut rtt = Rtt::default();
        rtt.on_sample(MS, 0);
        let mut now = MS;
        let mut received: HashSet<u64> = HashSet::new();
        let mut fates: Vec<(Fate, u64)> = Vec::new();
        let mut told = None;
        for step in steps {
            let fate = &mut |fate, Numbers(start, end)| {
                fates.extend((start..end).map(|number| (fate, number)));
            };
            match step {
                Step::Send(count) => for _ in 0..count {
                    let number = log.next_number();
                    log.push(packet(number), false, &[Numbers(number, number + 1)], now);
                },
                Step::SendRun(count) => {
                    let first = log.next_number();
                    let carried = Numbers(first, first + u64::from(count));
                    log.push(run(first, u32::from(count)), false, &[carried], now);
                }
                Step::Arrive(which) if log.next_number() > 0 => {
                    received.insert(u64::from(which) % log.next_number());
                }
                Step::Ack => if let Some(ack) = ack_of(&received) {
                    log.credit_after(0, ack.largest, 0);
                    told = Some(ack.largest);
                    prop_assert!(log.on_ack(&ack, now, 0, &mut rtt, fate).is_some());
                },
                Step::Wait(time) => {
                    now += time;
                    if log.loss_deadline().is_some_and(|at| at <= now) {
                        log.detect_losses(now, 0, &rtt, fate);
                    }
                }
                Step::Poll => log.give_back_last(fate),
                Step::GiveBack => log.give_back_all(fate),
                Step::Arrive(_) => {}
            }
            let unsettled = log.next_number() - fates.len() as u64;
            prop_assert_eq!(u64::from(log.in_flight_packets()), unsettled);
            prop_assert_eq!(log.in_flight(), log.in_flight_packets() * datagram_cost(1_200));
            prop_assert!(log.floor() <= log.next_number());
            let beyond = told.map_or(0, |told| told + 1)..log.next_number();
            let most = (beyond.end - beyond.start) as u32 * datagram_cost(1_200);
            let settled = fates.iter().filter(|(_, number)| beyond.contains(number)).count();
            prop_assert!(log.ahead() <= most);
            prop_assert!(log.ahead() + settled as u32 * datagram_cost(1_200) >= most);
        }
        let settled: HashSet<_> = fates.iter().map(|&(_, number)| number).collect();
        prop_assert_eq!(settled.len(), fates.len(), "settled twice");
        for (fate, number) in fates {
            prop_assert!(fate != Fate::Arrived || received.contains(&number));
        }
    }
}

fn ack(numbers: impl IntoIterator<Item = u64>) -> Ack {
    ack_of(&numbers.into_iter().collect()).unwrap()
}

fn log_of(count: u64) -> SentLog<u64> {
    let mut log = SentLog::new(Recovery::Selective);
    (0..count).for_each(|number| log.push(packet(number), true, &[number], 0));
    log
}

#[test]
fn a_gap_is_a_loss_until_the_path_shows_reordering() {
    let mut rtt = Rtt::default();
    let mut fates = Vec::new();
    let mut log = log_of(20);
    let settled = log
        .on_ack(&ack([0, 2]), 0, 0, &mut rtt, &mut |fate, n| {
            fates.push((fate, n))
        })
        .unwrap();
    assert_eq!((settled.newly_acked, settled.lost), (2, 1));
    assert!(fates.contains(&(Fate::Lost, 1)));
    let late = log
        .on_ack(&ack([0, 1, 2]), 0, 0, &mut rtt, &mut |_, _| ())
        .unwrap();
    assert_eq!(late.spurious, 1);
    let patient = log
        .on_ack(&ack([0, 1, 2, 6]), 0, 0, &mut rtt, &mut |_, _| ())
        .unwrap();
    assert_eq!(patient.lost, 1, "three behind is lost, two and one are not");
    assert!(log.loss_deadline().is_some(), "but time settles those");
}

#[test]
fn go_back_n_sends_all_again_from_the_first_that_is_missing() {
    let mut rtt = Rtt::default();
    let mut fates = Vec::new();
    let mut log = SentLog::new(Recovery::GoBackN);
    log.push(run(0, 6), true, &[Numbers(0, 6)], 0);
    let mut take = |acked: Ack| {
        let settled = log.on_ack(&acked, MS, 0, &mut rtt, &mut |fate, Numbers(start, end)| {
            fates.extend((start..end).map(|number| (fate, number)));
        });
        settled.map(|settled| (settled.newly_acked, settled.lost))
    };
    assert_eq!(take(ack([0, 1])), Some((2, 0)));
    assert_eq!(take(ack([0, 1, 3, 4])), Some((0, 4)), "2 to 5");
    assert_eq!(take(ack([0, 1, 3, 4, 5])), Some((0, 0)), "only once");
    let arrived = (0..2).map(|number| (Fate::Arrived, number));
    let lost = (2..6).map(|number| (Fate::Lost, number));
    assert_eq!(fates, arrived.chain(lost).collect::<Vec<_>>());
}

#[test]
fn go_back_n_learns_of_reordering() {
    let mut rtt = Rtt::default();
    let mut log = SentLog::new(Recovery::GoBackN);
    (0..9).for_each(|number| log.push(packet(number), true, &[number], 0));
    let mut take = |log: &mut SentLog<u64>, acked: Ack| {
        let settled = log.on_ack(&acked, MS, 0, &mut rtt, &mut |_, _| ()).unwrap();
        (settled.newly_acked, settled.lost, settled.spurious)
    };
    assert_eq!(take(&mut log, ack([1])), (0, 9, 0));
    assert_eq!(take(&mut log, ack([0, 1])), (0, 0, 1), "it was only late");
    (9..12).for_each(|number| log.push(packet(number), true, &[number], 0));
    assert_eq!(take(&mut log, ack([0, 1, 10])), (0, 0, 0));
    assert!(log.loss_deadline().is_some(), "but time settles it");
    assert_eq!(take(&mut log, ack([0, 1, 9, 10])), (2, 0, 0));
}

/// A packet that came long before it was told of says nothing of the path: with each round of POLLs
/// patience would grow, and with it the time until the next POLL.
#[test]
fn go_back_n_measures_what_came_last() {
    let mut rtt = Rtt::default();
    let mut log = SentLog::new(Recovery::GoBackN);
    (0..3).for_each(|number| log.push(packet(number), true, &[number], 0));
    log.push(packet(3), true, &[2], 100 * MS);
    let mut fates = Vec::new();
    let settled = log.on_ack(&ack([0, 3]), 101 * MS, 0, &mut rtt, &mut |fate, _| {
        fates.push(fate);
    });
    assert_eq!(rtt.latest_ns(), MS);
    assert_eq!(settled.unwrap().sample_from, Some(100 * MS));
    assert_eq!(fates, [Fate::Arrived, Fate::Lost, Fate::Lost, Fate::Lost]);
}

#[test]
fn go_back_n_sends_less_of_what_went_in_vain() {
    let mut channel = recovering(Recovery::GoBackN, 1 << 20);
    let room = |channel: &Channel<u64>| {
        let fits = |&packets: &u32| channel.may_send(1_472, packets);
        (0..64).take_while(fits).last()
    };
    let take = |channel: &mut Channel<u64>, acked: Ack| {
        let window = 1 << 20;
        channel.on_ack(&Ack { window, ..acked }, MS, &mut |_, _| ());
    };
    for (first, left) in [(0, 63), (8, 4), (16, 4)] {
        channel.on_sent(run(first, 8), &[first], 0);
        take(&mut channel, ack([first + 3]));
        assert_eq!(room(&channel), Some(left), "packets from {first}");
    }
    channel.on_sent(run(24, 2), &[24], 0);
    assert_eq!(room(&channel), Some(2));
    take(&mut channel, ack([24]));
    assert_eq!(
        room(&channel),
        Some(7),
        "twice as many, and one is on its way"
    );
}

#[test]
fn timeouts_alone_take_their_time_and_nothing_else_is_lost() {
    let mut channel = recovering(Recovery::Timeout, 100_000);
    (0..4).for_each(|number| channel.on_sent(packet(number), &[number], 0));
    let mut fates = Vec::new();
    channel.on_ack(&ack([0, 2]), MS, &mut |fate, n| fates.push((fate, n)));
    assert_eq!(fates, [(Fate::Arrived, 0), (Fate::Arrived, 2)]);
    let at = channel.deadline(MS).unwrap();
    assert_eq!(at, 200 * MS, "after the oldest of them left");
    let due = channel.on_deadline(at, &mut |fate, n| fates.push((fate, n)));
    assert_eq!((due.poll, due.lost), (true, 0));
    assert_eq!(fates[2..], [(Fate::Again, 3)]);
    channel.on_sent(packet(4), &[3], at);
    assert_eq!(channel.deadline(at), Some(at + 400 * MS), "twice as long");
}

/// The packet that asks tells what of the others has come: they don't all go again.
#[test]
fn a_timeout_gives_up_what_the_answer_does_not_name() {
    let mut channel = recovering(Recovery::Timeout, 100_000);
    (0..4).for_each(|number| channel.on_sent(packet(number), &[number], 0));
    let mut fates = Vec::new();
    let at = channel.deadline(0).unwrap();
    let due = channel.on_deadline(at, &mut |fate, n| fates.push((fate, n)));
    assert_eq!((due.poll, due.lost), (true, 0));
    channel.on_sent(packet(4), &[3], at);
    let answer = ack([0, 2, 4]);
    channel.on_ack(&answer, at + MS, &mut |fate, n| fates.push((fate, n)));
    assert_eq!(fates[0], (Fate::Again, 3));
    fates[1..].sort_by_key(|&(_, n)| n);
    let arrived = |n| (Fate::Arrived, n);
    let expected = [arrived(0), (Fate::Lost, 1), arrived(2), arrived(3)];
    assert_eq!(fates[1..], expected);
}

#[test]
fn packets_never_sent_cannot_be_acknowledged() {
    let nothing = &mut |_, _| panic!("settles nothing");
    assert!(
        log_of(3)
            .on_ack(&ack([3]), 0, 0, &mut Rtt::default(), nothing)
            .is_none()
    );
}

#[test]
fn a_sample_is_the_time_since_the_largest_left() {
    let mut rtt = Rtt::default();
    let mut log = SentLog::new(Recovery::Selective);
    log.push(packet(0), false, &[0], 5);
    log.push(packet(1), false, &[1], 9);
    let mut take = |acked: Ack| {
        log.on_ack(&acked, 20, 0, &mut rtt, &mut |_, _: u64| ())
            .unwrap()
    };
    assert_eq!(take(ack([0, 1])).sample_from, Some(9));
    assert_eq!(take(ack([0, 1])).sample_from, None, "only once");
}

/// All waited for the same link: the half that is acknowledged last waited for both.
#[test]
fn a_burst_is_as_far_away_in_two_acknowledgements_as_in_one() {
    let after = |steps: &[u64]| {
        let mut path = FarEnd::new(12_000);
        path.log.push(run(0, 40), false, &[0], MS);
        for &end in steps {
            path.answer(0..end, MS, (end - 1) * 12_000);
        }
        (path.rtt.smoothed_ns(), path.rtt.patience_ns() < 4 * TRIP_NS)
    };
    assert_eq!(after(&[40]), (TRIP_NS, true));
    assert_eq!(after(&[20, 40]), (TRIP_NS, true));
    assert_eq!(after(&[10, 20, 30, 40]), (TRIP_NS, true));
}

/// What others keep waiting is no burst of one's own, however long one goes on.
#[test]
fn a_stream_that_is_acknowledged_packet_by_packet_sees_the_path_grow_longer() {
    let mut path = FarEnd::new(21_000);
    for number in 0..10_000 {
        let sent_ns = MS + number * 20_000;
        path.log.push(packet(number), false, &[number], sent_ns);
        path.answer(0..number + 1, sent_ns, 300_000);
    }
    assert!(path.rtt.smoothed_ns() > TRIP_NS + 280_000, "{:?}", path.rtt);
}

const TRIP_NS: u64 = 50_000;

/// The sending half of a channel over a path that takes `packet_ns` for each packet.
struct FarEnd {
    log: SentLog<u64>,
    rtt: Rtt,
    packet_ns: u32,
}

impl FarEnd {
    fn new(packet_ns: u32) -> Self {
        let mut rtt = Rtt::default();
        rtt.on_sample(TRIP_NS, 0);
        FarEnd {
            log: SentLog::new(Recovery::Selective),
            rtt,
            packet_ns,
        }
    }

    /// What left at `sent_ns` is acknowledged a round trip and `waited_ns` later.
    fn answer(&mut self, numbers: Range<u64>, sent_ns: u64, waited_ns: u64) {
        let now_ns = sent_ns + TRIP_NS + waited_ns;
        let (packet_ns, rtt) = (self.packet_ns, &mut self.rtt);
        self.log
            .on_ack(&ack(numbers), now_ns, packet_ns, rtt, &mut |_, _| ());
    }
}

proptest! {
    #[test]
    fn the_round_trip_estimate_stays_among_its_samples(
        samples in prop::collection::vec((1..1_u64 << 40, any::<u32>()), 1..50),
    ) {
        let mut rtt = Rtt::default();
        for &(elapsed, delay) in &samples {
            rtt.on_sample(elapsed, u64::from(delay));
            prop_assert!(rtt.min_ns() <= rtt.smoothed_ns());
            prop_assert!(rtt.patience_ns() > rtt.smoothed_ns());
        }
        let largest = samples.iter().map(|&(elapsed, _)| elapsed).max().unwrap();
        prop_assert!(rtt.smoothed_ns() <= largest);
    }
}

#[test]
fn a_delay_is_taken_off_but_not_below_the_shortest_round_trip() {
    let mut rtt = Rtt::default();
    rtt.on_sample(10 * MS, 0);
    rtt.on_sample(12 * MS, 2 * MS);
    assert_eq!(rtt.smoothed_ns(), 10 * MS);
    rtt.on_sample(10 * MS, 9 * MS);
    assert_eq!(rtt.min_ns(), 10 * MS);
}

#[test]
fn what_a_stall_broke_is_no_sample() {
    let mut rtt = Rtt::default();
    rtt.on_answer(5 * MS, 6 * MS, 2 * MS, 0);
    assert_eq!(rtt.min_ns(), 0, "held back for longer than it took");
    rtt.begin_at(10 * MS);
    rtt.on_answer(9 * MS, 12 * MS, 0, 0);
    assert_eq!(rtt.min_ns(), 0, "sent before the stall");
    rtt.on_answer(10 * MS, 12 * MS, 0, 0);
    assert_eq!(rtt.min_ns(), 2 * MS);
}

/// The path has become slower than a POLL is patient: answers to what has been given back since
/// measure nothing, so only patience helps.
#[test]
fn polls_are_not_hurried_by_answers_that_measure_nothing() {
    let mut channel = channel(1 << 20);
    channel.rtt.on_sample(MS / 10, 0);
    for number in 0..2 {
        channel.on_sent(packet(number), &[number], 0);
    }
    let mut now = 0;
    for number in 2..5 {
        now = channel.deadline(now).unwrap();
        assert!(channel.on_deadline(now, &mut |_, _| ()).poll);
        let poll = Sent {
            ask: true,
            ..packet(number)
        };
        channel.on_sent(poll, &[number], now);
    }
    // The first POLL has come; packet 0 is news, and no sample.
    channel.on_ack(&ack([0, 1, 2]), now, &mut |_, _| ());
    assert_eq!(channel.polls_unanswered, 3);
    channel.on_ack(&ack([0, 1, 2, 3, 4]), now + MS, &mut |_, _| ());
    assert_eq!(channel.polls_unanswered, 0);
}

#[test]
fn who_lost_their_tails_together_ask_together_only_once() {
    let asked_at = |salt| {
        let mut channel = Channel::new(
            &ChannelConfig {
                salt,
                ..config(Recovery::Selective, 1 << 20)
            },
            0,
        );
        channel.on_sent(packet(0), &[0], 0);
        [1, 2].map(|number| {
            let now = channel.deadline(0).unwrap();
            assert!(channel.on_deadline(now, &mut |_, _| ()).poll);
            channel.on_sent(packet(number), &[number], now);
            now
        })
    };
    let all: Vec<_> = (0..=u8::MAX).map(asked_at).collect();
    let first = all[0][0];
    assert!(all.iter().all(|&[at, _]| at == first));
    let second: std::collections::BTreeSet<_> = all.iter().map(|&[_, at]| at).collect();
    assert!(second.len() > 100, "{}", second.len());
    let (least, most) = (second.first().unwrap(), second.last().unwrap());
    assert!(least - first >= first);
    assert!(
        most - first <= 2 * (first + 2 * MS),
        "as long as all the time, at most"
    );
}

#[test]
fn the_mtu_search_finds_what_the_path_carries() {
    for path in [1_200, 1_250, 1_400, 1_452, 1_472, 4_052, 8_972, 9_500] {
        let mut mtu = MtuSearch::new(1_200, 9_500);
        for _ in 0..40 {
            let Some(size) = mtu.probe(0) else { break };
            assert!(
                size > mtu.current() && mtu.probe(0).is_none(),
                "one at a time"
            );
            if size <= path {
                mtu.on_probe_arrived(size, 0);
            } else {
                mtu.on_probe_lost(size, false, 0);
            }
        }
        assert_eq!(mtu.probe(0), None, "the search ends");
        assert!(mtu.current() <= path);
        let found = [
            9_500, 8_972, 8_952, 4_052, 1_472, 1_452, 1_412, 1_332, 1_200,
        ];
        let best = found.into_iter().find(|&size| size <= path).unwrap();
        assert_eq!(mtu.current(), best);
        assert_eq!(
            mtu.probe(601_000 * MS).is_some(),
            best < 9_500,
            "later again"
        );
    }
}

#[test]
fn a_size_whose_probes_pass_alone_is_probed_ever_later() {
    let mut mtu = MtuSearch::new(1_200, 8_972);
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let since = now;
        while mtu.probe(now).is_none() {
            now += 100 * MS;
        }
        pauses.push((now - since) / (1_000 * MS));
        mtu.on_probe_arrived(8_972, now);
        mtu.on_full_size(0, 12, now);
        assert_eq!(mtu.current(), 1_200);
        mtu.probe(now);
        mtu.on_probe_arrived(1_200, now);
    }
    assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    // Another way has no such history.
    mtu.on_probe_arrived(8_972, now);
    mtu.on_new_path(now);
    assert_eq!(mtu.current(), 1_200);
    assert!(mtu.probe(now).is_some());
    mtu.on_probe_arrived(8_972, now);
    mtu.on_full_size(0, 12, now);
    // Of use for long: what goes wrong then has another cause.
    now += 1_000_000 * MS;
    assert!(mtu.probe(now).is_some());
    mtu.on_probe_arrived(8_972, now);
    now += 601_000 * MS;
    mtu.on_full_size(0, 12, now);
    assert!(mtu.probe(now).is_some());
}

#[test]
fn a_black_hole_leads_back_to_the_base() {
    let mut mtu = MtuSearch::new(1_472, 1_472);
    mtu.on_full_size(0, 11, 0);
    mtu.on_full_size(1, 5, 0);
    assert_eq!(mtu.current(), 1_472, "some arrive");
    mtu.on_full_size(0, 12, 0);
    assert_eq!(mtu.current(), BASE_DATAGRAM);
    assert_eq!(mtu.probe(0), Some(1_472), "and the search begins anew");
}

/// Who gives credit for large datagrams must hear that there are none any more.
#[test]
fn a_fall_that_changes_what_a_datagram_is_charged_is_told_by_a_probe() {
    for tries in 1..=3 {
        let mut mtu = MtuSearch::new(1_472, 8_972);
        mtu.on_probe_arrived(8_972, 0);
        mtu.on_full_size(0, 12, 0);
        for _ in 0..tries {
            assert_eq!(mtu.probe(0), Some(BASE_DATAGRAM));
            assert_eq!(mtu.probe(0), None, "one at a time");
            match tries {
                1 => mtu.on_probe_arrived(BASE_DATAGRAM, 0),
                _ => mtu.on_probe_lost(BASE_DATAGRAM, false, 0),
            }
        }
        let next = if tries == 2 { BASE_DATAGRAM } else { 8_972 };
        assert_eq!(mtu.probe(0), Some(next), "after {tries} tries");
    }
}

/// It says nothing of what has left since it came.
#[test]
fn an_acknowledgement_that_is_taken_in_late_does_what_it_would_have_done_when_it_came() {
    let ack = Ack {
        window: 1 << 20,
        ..ack_of(&HashSet::from([0])).expect("it names one")
    };
    let states = [false, true].map(|late| {
        let mut channel = channel(1 << 20);
        let take = |channel: &mut Channel<u64>| channel.on_ack(&ack, MS, &mut |_, _| {});
        channel.on_sent(packet(0), &[0], 0);
        assert!(channel.is_plain(&ack));
        if !late {
            take(&mut channel);
        }
        channel.on_sent(packet(1), &[1], 2 * MS);
        if late {
            take(&mut channel);
        }
        let (sent, rtt) = (&channel.sent, &channel.rtt);
        (
            (channel.credit, sent.ahead(), sent.in_flight_packets()),
            (rtt.latest_ns(), channel.stuck_ns(9 * MS), channel.packet_ns),
            channel.deadline(2 * MS),
        )
    });
    assert_eq!(states[0], states[1]);
    assert_eq!(states[0].1.1, 9 * MS - 3 * MS, "a round trip after it left");
}

fn channel(window: u32) -> Channel<u64> {
    recovering(Recovery::Selective, window)
}

fn config(recovery: Recovery, window: u32) -> ChannelConfig {
    ChannelConfig {
        ack_policy: AckPolicy::WhenAsked,
        recovery,
        congestion: Congestion::None,
        ack_delay_ns: 0,
        late_ack_ns: 0,
        peer_ack_delay_ns: 2 * MS as u32,
        peer_late_ack_ns: 0,
        salt: 0,
        spare_ns: 0,
        window,
        max_datagram: 1_472,
        proven_datagram: 1_472,
    }
}

fn recovering(recovery: Recovery, window: u32) -> Channel<u64> {
    Channel::new(&config(recovery, window), 0)
}

#[test]
fn credit_counts_from_the_newest_packet_that_arrived() {
    let cost = datagram_cost(1_200);
    let mut channel = channel(10 * cost);
    channel.on_sent(run(0, 8), &[0], 0);
    assert!(channel.has_credit(1_200, 2) && !channel.has_credit(1_200, 3));
    assert!(!channel.may_request());
    let told = |window, numbers: Vec<u64>| Ack {
        window,
        ..ack(numbers)
    };
    // The lost ones are behind the newest, so they do not count any more.
    channel.on_ack(&told(4 * cost, vec![5]), 0, &mut |_, _| ());
    assert!(channel.has_credit(1_200, 2) && !channel.has_credit(1_200, 3));
    channel.on_ack(&told(0, vec![6, 7]), 0, &mut |_, _| ());
    assert!(!channel.has_credit(1_200, 1) && channel.may_request());
    // What was given later for the same packet counts, whichever comes first.
    for window in [3 * cost, 2 * cost] {
        channel.on_ack(&told(window, vec![6, 7]), 0, &mut |_, _| ());
        assert!(channel.has_credit(1_200, 3));
    }
}

/// Where congestion control keeps packets to what the path carries, probes of its MTU are lost as a rule, and are larger
/// than all that may be on its way at first.
#[test]
fn a_lost_probe_is_no_congestion_and_takes_nobodys_place() {
    let config = ChannelConfig {
        congestion: Congestion::Cubic,
        max_datagram: MAX_DATAGRAM,
        proven_datagram: BASE_DATAGRAM,
        ..config(Recovery::Selective, 1 << 20)
    };
    let mut channel = Channel::new(&config, 0);
    let window = |channel: &Channel<u64>| channel.governor().map(|governor| governor.window());
    let first = window(&channel);
    for number in [0, 2, 4] {
        let probe = Sent {
            bytes: MAX_DATAGRAM,
            probe: true,
            ..packet(number)
        };
        let now = number * MS;
        assert_eq!(channel.mtu.probe(now), Some(MAX_DATAGRAM));
        channel.on_sent(probe, &[number], now);
        channel.refresh(now);
        assert!(channel.may_send(BASE_DATAGRAM, 2));
        channel.on_sent(packet(number + 1), &[number + 1], now);
        let mut lost = Vec::new();
        let told = Ack {
            window: 1 << 20,
            ..ack([number + 1])
        };
        channel.on_ack(&told, now + MS, &mut |fate, number| {
            lost.extend((fate == Fate::Lost).then_some(number));
        });
        assert_eq!(lost, [number]);
        channel.mtu.on_probe_lost(MAX_DATAGRAM, false, now + MS);
        assert!(window(&channel) >= first);
    }
}

#[test]
fn what_tells_of_credit_uses_up_none() {
    let cost = datagram_cost(1_200);
    let mut channel = channel(cost);
    let control = |first| Sent {
        charged: false,
        ..run(first, 1)
    };
    channel.on_sent(control(0), &[0], 0);
    channel.on_sent(control(1), &[1], 0);
    assert!(channel.has_credit(1_200, 1));
    assert!(channel.sent.in_flight() > 0);
    let told = Ack {
        window: cost,
        ..ack([0])
    };
    channel.on_ack(&told, 0, &mut |_, _| ());
    assert!(channel.has_credit(1_200, 1));
}

#[test]
fn absurd_credit_is_bounded() {
    let mut channel = channel(u32::MAX);
    channel.on_sent(packet(0), &[0], 0);
    let ack = Ack {
        window: u32::MAX,
        ..ack([0])
    };
    channel.on_ack(&ack, 0, &mut |_, _| ());
    assert!(channel.has_credit(1_472, 1) && channel.run_room(1_472) < 1 << 20);
}

#[test]
fn credit_that_rests_is_void() {
    let mut channel = channel(1 << 20);
    channel.forget_idle_credit(DECAY_NS - 1);
    assert!(channel.has_credit(1_472, 1));
    channel.forget_idle_credit(DECAY_NS);
    assert!(!channel.has_credit(1_472, 1) && channel.may_request());
}

#[test]
fn who_only_acknowledges_rests_and_who_has_just_been_given_credit_does_not() {
    let mut channel = channel(1 << 20);
    let word = Sent {
        charged: false,
        ..packet(0)
    };
    channel.on_sent(word, &[0], DECAY_NS / 2);
    let told = |window| Ack {
        window,
        ..ack(0..1)
    };
    channel.on_ack(&told(1 << 20), DECAY_NS / 2, &mut |_, _| ());
    channel.forget_idle_credit(DECAY_NS);
    assert!(!channel.has_credit(1_472, 1));
    // On a long path an answer takes longer than credit lasts.
    channel.on_sent(packet(1), &[1], DECAY_NS);
    let told = Ack {
        window: 1 << 20,
        ..ack(0..2)
    };
    channel.on_ack(&told, 5 * DECAY_NS, &mut |_, _| ());
    channel.forget_idle_credit(6 * DECAY_NS - 1);
    assert!(channel.has_credit(1_472, 1));
}

#[test]
fn an_older_acknowledgement_does_not_change_the_window() {
    let mut channel = channel(100_000);
    (0..3).for_each(|number| channel.on_sent(packet(number), &[number], 0));
    let told = |window, numbers: std::ops::Range<u64>| Ack {
        window,
        ..ack(numbers)
    };
    channel.on_ack(&told(50_000, 0..3), 0, &mut |_, _| ());
    channel.on_ack(&told(70_000, 0..2), 0, &mut |_, _| ());
    assert_eq!(channel.credit, 50_000);
}

#[test]
fn an_unanswered_tail_is_asked_for_again_and_ever_more_slowly() {
    let mut channel = channel(100_000);
    channel.on_sent(packet(0), &[0], 0);
    let (mut now, mut waits, mut again) = (0, Vec::new(), Vec::new());
    for number in 1..8 {
        let at = channel.deadline(0).unwrap();
        waits.push(at - now);
        now = at;
        let due = channel.on_deadline(now, &mut |fate, content| again.push((fate, content)));
        assert!(due.poll);
        channel.on_sent(packet(number), &[number], now);
    }
    assert!(waits.is_sorted() && waits[1] > waits[0]);
    assert!(waits.iter().all(|&wait| wait <= 2_000 * MS));
    assert_eq!(again[0], (Fate::Again, 0), "its contents go along");
    assert_eq!(again.len(), 7);
    let ack = Ack::default();
    let ack = Ack {
        largest: 7,
        first_len: 1,
        window: 100_000,
        ..ack
    };
    channel.on_ack(&ack, now + MS, &mut |_, _| ());
    assert_eq!(channel.polls_unanswered, 0);
}
