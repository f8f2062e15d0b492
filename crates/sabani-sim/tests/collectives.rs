//! Collectives over the simulated network: every algorithm where packets are lost, a thousand ranks, and
//! what rendezvous is for.

use sabani_collective::execute::{Exchange, Fingerprint, Memory};
use sabani_collective::{
    Algorithm, Choice, Collective, Context, Counts, Mode, Parameters, Round, Schedule, Side,
};
use sabani_proto::seal::{self, Checksum};
use sabani_sim::{Cable, MS, Network, SEC, Switch};

/// Bytes of an element: a number.
const ELEMENT: usize = 8;

fn sum(from: &[u8], into: &mut [u8], _: Side) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    for (from, into) in from.chunks(ELEMENT).zip(into.chunks_mut(ELEMENT)) {
        let sum = number(from).wrapping_add(number(into));
        into.copy_from_slice(&sum.to_le_bytes());
    }
}

fn plain() -> seal::Mode {
    seal::Mode::Plain {
        checksum: Checksum::None,
    }
}

/// Element `index` of what `rank` gives.
fn given(rank: usize, index: usize) -> u64 {
    (rank * 1_000_003 + index) as u64
}

fn bytes_of(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// How many elements a rank gives and gets, and the one at a place of what it gets.
struct Task {
    input: usize,
    output: usize,
    expected: Box<dyn Fn(usize) -> u64>,
}

/// Of a collective with `len` elements for each rank, or for each pair, and root 0.
fn task(collective: Collective, size: usize, rank: usize, len: usize) -> Task {
    let at_root = |count: usize| count * usize::from(rank == 0);
    let total = move |ranks: usize, index| (0..ranks).map(|rank| given(rank, index)).sum::<u64>();
    let (input, output, expected): (_, _, Box<dyn Fn(usize) -> u64>) = match collective {
        Collective::Barrier => (0, 0, Box::new(|_| 0)),
        Collective::Bcast => (at_root(len), len, Box::new(|index| given(0, index))),
        Collective::Reduce => (len, at_root(len), Box::new(move |index| total(size, index))),
        Collective::Allreduce => (len, len, Box::new(move |index| total(size, index))),
        Collective::Gather => (
            len,
            at_root(len * size),
            Box::new(move |at| given(at / len, at % len)),
        ),
        Collective::Allgather => (
            len,
            len * size,
            Box::new(move |at| given(at / len, at % len)),
        ),
        Collective::Scatter => (
            at_root(len * size),
            len,
            Box::new(move |at| given(0, rank * len + at)),
        ),
        Collective::ReduceScatter => (
            len * size,
            len,
            Box::new(move |at| total(size, rank * len + at)),
        ),
        Collective::Alltoall => (
            len * size,
            len * size,
            Box::new(move |at| given(at / len, rank * len + at % len)),
        ),
        Collective::Scan => (len, len, Box::new(move |index| total(rank + 1, index))),
        Collective::Exscan => (
            len,
            len * usize::from(rank > 0),
            Box::new(move |index| total(rank, index)),
        ),
    };
    Task {
        input,
        output,
        expected,
    }
}

/// Runs an algorithm over a network, checks what all ranks get, and returns the time it took.
fn run(net: &mut Network, algorithm: &Algorithm, len: usize, parameters: Parameters) -> u64 {
    let size = net.host_ids().count();
    let counts = match algorithm.collective {
        Collective::Barrier => Counts::Vector(0),
        Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::ReduceScatter
        | Collective::Alltoall => Counts::Each(len),
        _ => Counts::Vector(len),
    };
    let cx = Context {
        element_bytes: ELEMENT,
        parameters,
        ..Context::new(size, counts)
    };
    let tasks: Vec<_> = (0..size)
        .map(|rank| task(algorithm.collective, size, rank, len))
        .collect();
    let buffers = |(rank, task): (usize, &Task)| {
        let input = bytes_of((0..task.input).map(|index| given(rank, index)));
        // Rank 0 of an exclusive scan gets nothing, but has a place for it.
        let exscan = algorithm.collective == Collective::Exscan;
        let elements = if exscan { len } else { task.output };
        let mut output = vec![0; elements * ELEMENT];
        if algorithm.collective == Collective::Bcast {
            output[..input.len()].copy_from_slice(&input);
        }
        let scratch = vec![0; algorithm.schedule.scratch(&cx, rank) * ELEMENT];
        (input, output, scratch)
    };
    let mut buffers: Vec<_> = tasks.iter().enumerate().map(buffers).collect();
    let fingerprint = Fingerprint {
        epoch: 0,
        sequence: 0,
        collective: algorithm.collective,
        algorithm: algorithm.id(),
        operation: 0,
        element_type: 0,
        size: len as u64,
        root: 0,
        parameters: Fingerprint::of_parameters(&parameters),
    };
    let exchange = |(rank, (input, output, scratch)): (usize, _)| {
        let memory = Memory {
            input,
            output,
            scratch,
            element_bytes: ELEMENT,
        };
        Exchange::new(algorithm.schedule, cx, rank, fingerprint, memory, &sum)
    };
    let split = buffers
        .iter_mut()
        .map(|(input, output, scratch)| (&input[..], &mut output[..], &mut scratch[..]));
    let mut ranks: Vec<_> = split.enumerate().map(exchange).collect();
    let began_ns = net.now_ns();
    let ends = net.run_collective(&mut ranks, 600 * SEC);
    let ends = ends.unwrap_or_else(|why| panic!("{algorithm:?}, {size} ranks: {why}"));
    drop(ranks);
    for (rank, (task, (_, output, _))) in tasks.iter().zip(&buffers).enumerate() {
        let expected = bytes_of((0..task.output).map(&task.expected));
        let got = &output[..expected.len()];
        assert!(got == expected, "{algorithm:?} at rank {rank} of {size}");
    }
    ends.into_iter().max().unwrap_or(began_ns) - began_ns
}

#[test]
fn every_algorithm_brings_its_data_through_a_lossy_network() {
    for (number, algorithm) in sabani_collective::ALGORITHMS.iter().enumerate() {
        for (size, len) in [(8, 300), (7, 5_000)] {
            let mut net = Network::mesh(number as u64, size, &plain(), |_| {});
            net.links(|link| link.faults.loss = 0.02);
            let small = Parameters {
                segment_bytes: 4096,
                ..Parameters::default()
            };
            let cx = Context::new(size as usize, Counts::Each(len));
            if algorithm.schedule.fits(&cx) {
                run(&mut net, algorithm, len, small);
            }
        }
    }
}

#[test]
fn a_thousand_ranks() {
    let ranks = 1024;
    let mut net = Network::mesh(1, ranks, &plain(), |_| {});
    net.star(&Cable::default(), Switch::default());
    for (collective, name) in [
        (Collective::Barrier, "dissemination"),
        (Collective::Allreduce, "recursive_doubling"),
        (Collective::Bcast, "binomial"),
    ] {
        let algorithm = collective.algorithm(name).unwrap();
        let took_ns = run(&mut net, algorithm, 8, Parameters::default());
        println!("{algorithm:?} over {ranks} ranks: {} µs", took_ns / 1000);
    }
}

/// In a ring each rank sends to one neighbour and only acknowledges to the other. What it would be allowed to send
/// to that one must not be missing to the one that sends.
#[test]
fn who_only_acknowledges_leaves_its_credit_to_who_sends() {
    // The way over the root takes longer than a message: two are under way.
    let mut net = two_fours();
    let ring = Collective::Allreduce.algorithm("ring").unwrap();
    let mut once = || {
        let took_ns = run(&mut net, ring, 8 << 10, Parameters::default());
        net.run_for(5 * MS);
        took_ns
    };
    let warm = (0..10).map(|_| once()).min();
    let took_ns = once();
    println!("{took_ns} ns, {warm:?} before");
    // Fourteen messages of 8 KiB take 9.7 ms of a link; waiting for credit made it 18.6 ms.
    assert!(took_ns < 14 * MS, "{took_ns}");
}

/// Four hosts at each of two switches, whose trunks carry a little more than what one host sends.
fn two_fours() -> Network {
    groups(2, 130_000_000)
}

/// So many groups of hosts, eight together, each at a switch of its own, with such a trunk.
fn groups(count: usize, trunk: u64) -> Network {
    let mut net = Network::mesh(1, 8, &plain(), |_| {});
    let cable = |bits_per_second| Cable {
        bits_per_second,
        ..Cable::default()
    };
    let switch = Switch::drop_tail(16 << 20);
    let root = net.add_switch(switch.clone());
    let leaf = |_| net.add_switch(switch.clone());
    let leaves: Vec<_> = (0..count).map(leaf).collect();
    for &leaf in &leaves {
        net.connect(leaf, root, &cable(trunk));
    }
    for (number, host) in net.host_ids().enumerate() {
        net.connect(host, leaves[number * count / 8], &cable(100_000_000));
    }
    net
}

/// Has what waits for hosts' own cables leave as it came, words as well.
fn keep_order(net: &mut Network) {
    for host in net.host_ids() {
        let cable = net.nic(host).expect("all have one");
        net.port(cable).keep_order();
    }
}

/// The same, and nobody can ask how much waits there.
fn keep_order_untold(net: &mut Network) {
    keep_order(net);
    for host in net.host_ids() {
        net.host(host).tells_unsent = false;
    }
}

/// Has hosts send to their peers in turn.
fn take_turns(net: &mut Network) {
    for host in net.host_ids() {
        let cable = net.nic(host).expect("all have one");
        net.port(cable).take_turns(true);
    }
}

/// In a ring that has got out of step, words about credit wait behind data for another peer, unless they leave first, or peers take
/// turns, or there is never much before them; behind trains of up to 64 packets that had begun to leave it still took 56 ms. (Until what
/// peers may send unasked was given to them again before the last message had come, it took 68 ms where words wait.)
#[test]
fn a_ring_is_quicker_where_words_do_not_wait() {
    let ring = Collective::Allgather.algorithm("ring").unwrap();
    let words_first = |_: &mut Network| {};
    let orders: [fn(&mut Network); 4] = [keep_order_untold, keep_order, words_first, take_turns];
    let [as_it_came, little, words_first, in_turn] = orders.map(|order| {
        let mut net = two_fours();
        order(&mut net);
        let mut once = || {
            let took_ns = run(&mut net, ring, 8 << 10, Parameters::default());
            net.run_for(5 * MS);
            took_ns
        };
        once();
        (once() + once()) / 2
    });
    println!("{as_it_came}, {little}, {words_first} and {in_turn} ns");
    for took_ns in [little, words_first, in_turn] {
        // Seven messages of 64 KiB take 39.6 ms of a link.
        assert!(took_ns < 45 * MS, "{took_ns}");
        assert!(took_ns < as_it_came * 85 / 100, "{took_ns} {as_it_came}");
    }
    assert!(as_it_came < 58 * MS, "{as_it_came}");
}

/// A rank hears that another one is ready while a long message still comes: else what it has for that one would wait as long, and links
/// stand still.
#[test]
fn a_word_that_a_receiver_is_ready_is_heard_beside_long_messages() {
    let bruck = Collective::Alltoall.algorithm("bruck").unwrap();
    let took = [Mode::Eager, Mode::Rendezvous].map(|mode| {
        let mut net = groups(4, 100_000_000);
        let parameters = Parameters {
            mode,
            ..Parameters::default()
        };
        let mut once = || {
            let took_ns = run(&mut net, bruck, 8 << 10, parameters);
            net.run_for(5 * MS);
            took_ns
        };
        once();
        (once() + once()) / 2
    });
    println!("{took:?} ns");
    let [eager, rendezvous] = took;
    assert!(rendezvous < eager * 11 / 10, "{rendezvous} {eager}");
}

/// Hosts at one switch that are late at times.
struct Late {
    count: u32,
    bits_per_second: u64,
    order: fn(&mut Network),
}

impl Late {
    /// Eight of them, with slow links.
    fn eight(order: fn(&mut Network)) -> Self {
        Late {
            count: 8,
            bits_per_second: 50_000_000,
            order,
        }
    }

    /// How many times as long as its bytes take on a link an all-to-all takes.
    fn alltoall(&self, algorithm: &Algorithm, len: usize, parameters: Parameters) -> f64 {
        let mut net = Network::mesh(1, self.count, &plain(), |_| {});
        for id in net.host_ids() {
            net.host(id).wake = "20us + ~20us".parse().unwrap();
        }
        let cable = Cable {
            bits_per_second: self.bits_per_second,
            ..Cable::default()
        };
        net.star(&cable, Switch::drop_tail(64 << 10));
        (self.order)(&mut net);
        let mut once = || {
            let took_ns = run(&mut net, algorithm, len, parameters);
            net.run_for(5 * MS);
            took_ns
        };
        once();
        let took_ns = once() + once();
        let bits = (self.count as usize - 1) * len * ELEMENT * 8;
        took_ns as f64 * self.bits_per_second as f64 / (2.0 * bits as f64 * 1e9)
    }
}

/// The table in docs/collectives.md: where hosts are late, who sends to all at a time has always somebody who is not.
#[test]
#[ignore = "a minute: cargo test --release -p sabani-sim --test collectives alltoalls_of_late_hosts -- --ignored --nocapture"]
fn alltoalls_of_late_hosts() {
    let choices = [
        "pairwise",
        "xor:mode=rendezvous",
        "windowed:window=4:mode=rendezvous",
        "posted",
    ]
    .map(|text| Choice::parse(Collective::Alltoall, text).unwrap());
    for (count, kib) in [
        (6, 64),
        (16, 64),
        (64, 64),
        (16, 256),
        (12, 1024),
        (8, 4096),
    ] {
        let hosts = Late {
            count,
            bits_per_second: 1_000_000_000,
            order: |_| {},
        };
        let len = (kib << 10) / ELEMENT;
        let times = choices.map(
            |Choice {
                 algorithm,
                 parameters,
             }| hosts.alltoall(algorithm, len, parameters),
        );
        println!("| {count}, {kib} KiB | {times:.2?} |");
        let best = times.into_iter().fold(f64::INFINITY, f64::min);
        assert!(times[3] < 1.1 * best, "{times:?}");
    }
}

/// Pairs that do not keep in step: what is sent need not have arrived.
struct OutOfStep(&'static dyn Schedule);

impl Schedule for OutOfStep {
    fn rounds(&self, cx: &Context) -> usize {
        self.0.rounds(cx)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        self.0.round(cx, rank, k)
    }
}

/// Out of step, pairs share links with others' messages.
#[test]
fn pairs_keep_in_step() {
    let in_step = Collective::Alltoall.algorithm("pairwise").unwrap();
    let schedule: &'static OutOfStep = Box::leak(Box::new(OutOfStep(in_step.schedule)));
    let out_of_step = Algorithm {
        schedule,
        ..*in_step
    };
    let lens = [4, 6, 8, 10, 12, 16, 24, 32].map(|len| len << 10);
    let mean = |algorithm: &Algorithm, order| {
        let hosts = Late::eight(order);
        let took = lens.map(|len| hosts.alltoall(algorithm, len, Parameters::default()));
        println!("{took:.2?}");
        took.iter().sum::<f64>() / lens.len() as f64
    };
    let [with, without] =
        [in_step, &out_of_step].map(|algorithm| mean(algorithm, keep_order_untold));
    println!("{with:.2} and {without:.2} times");
    assert!(with < 0.95 * without, "{with} {without}");
    let [words_first, little] =
        [|_: &mut Network| {}, keep_order].map(|order| mean(in_step, order));
    println!("{words_first:.2} times with words first, {little:.2} with little before them");
    for took in [words_first, little] {
        assert!(took < 0.9 * with, "{took} {with}");
    }
}

/// Who has messages for all of them has always somebody who is not late.
#[test]
fn who_sends_to_all_at_a_time_does_not_wait_for_the_late() {
    let posted = Collective::Alltoall.algorithm("posted").unwrap();
    for len in [4 << 10, 8 << 10, 64 << 10] {
        let took = Late::eight(|_| {}).alltoall(posted, len, Parameters::default());
        println!("{len}: {took:.2} times");
        assert!(took < 1.6, "{took}");
    }
}

#[test]
fn chance_changes_times_and_nothing_else() {
    let algorithm = Collective::Alltoall.algorithm("windowed").unwrap();
    let parameters = Parameters {
        window: 1,
        mode: Mode::Rendezvous,
        ..Parameters::default()
    };
    let took = |seed| {
        let mut net = Network::mesh(seed, 6, &plain(), |_| {});
        net.links(|link| link.faults.loss = 0.05);
        run(&mut net, algorithm, 2_000, parameters)
    };
    assert_eq!(took(3), took(3));
    assert!(took(3) != took(4) || took(3) != took(5));
    assert!(took(3) > MS / 10);
}
