//! Agreement over the transport: hosts die at every turn of any process, on a network that loses
//! packets, and are found out by their silence.

use std::collections::BTreeMap;

use sabani_collective::agree::{Agreement, Decision, Message, Ranks};
use sabani_proto::seal::{self, Checksum};
use sabani_proto::{Event, Match, PeerId, RecvTicket};
use sabani_sim::{HostId, MS, Network, Reading, SEC};

const TAG: u64 = 7;
/// Whoever waits reminds the others this often.
const PATIENCE_NS: u64 = 200 * MS;

/// A rank and its node.
struct Rank {
    agreement: Agreement,
    posted: Option<RecvTicket>,
    events_seen: usize,
}

/// Ranks that agree, and what the dead ones had decided.
struct Job {
    net: Network,
    ranks: BTreeMap<usize, Rank>,
    last_words: Vec<Decision>,
}

fn host(rank: usize) -> HostId {
    HostId(rank as u32)
}

/// All but a rank's own.
fn bits(rank: usize) -> u64 {
    !(1 << rank)
}

impl Job {
    fn new(seed: u64, size: usize) -> Self {
        let mode = seal::Mode::Plain {
            checksum: Checksum::None,
        };
        let mut net = Network::mesh(seed, size as u32, &mode, |config| {
            config.dead_after_ns = SEC;
        });
        net.links(|link| link.faults.loss = 0.05);
        let begin = |rank| {
            net.host(host(rank)).program.reading = Reading::Nothing;
            let rank_of = Rank {
                agreement: Agreement::new(rank, size, bits(rank), rank as u32, &Ranks::new()),
                posted: None,
                events_seen: 0,
            };
            (rank, rank_of)
        };
        let ranks = (0..size).map(begin).collect();
        let mut job = Job {
            net,
            ranks,
            last_words: Vec::new(),
        };
        (0..size).for_each(|rank| job.advance(rank));
        job
    }

    /// A rank does what it can.
    fn advance(&mut self, rank: usize) {
        let now_ns = self.net.now_ns();
        let Some(state) = self.ranks.get_mut(&rank) else {
            return;
        };
        let host_of = self.net.host(host(rank));
        let clock_ns = host_of.clock.read(now_ns);
        for event in &host_of.program.events[state.events_seen..] {
            if let Event::Lost { peer, .. } = event {
                state.agreement.fail(&Ranks::from([peer.0 as usize]));
            }
        }
        state.events_seen = host_of.program.events.len();
        let node = host_of.node();
        let mut did = false;
        loop {
            while let Some((to, message)) = state.agreement.poll() {
                // What finds no room or no connection is sent again after a while.
                let bytes = message.encode();
                let _ = node.send_copy(clock_ns, PeerId(to as u32), TAG, &bytes, false);
                did = true;
            }
            let wanted = Match::any().tag(TAG);
            let ticket = *state.posted.get_or_insert_with(|| node.post(wanted, None));
            let Some(received) = node.take_received(ticket) else {
                break;
            };
            state.posted = None;
            did = true;
            let message = received.expect("short messages fit");
            let word = Message::decode(message.body()).expect("ranks send messages");
            state.agreement.handle(message.source.0 as usize, word);
        }
        if did {
            self.net.kick(host(rank));
        }
    }

    fn kill(&mut self, rank: usize) {
        if let Some(dead) = self.ranks.remove(&rank) {
            self.last_words.extend(dead.agreement.decision().cloned());
            self.net.crash(host(rank));
        }
    }

    /// Runs until all that live have decided; returns how many turns that took. `deaths` has turns and
    /// ranks.
    fn run(&mut self, deaths: &[(usize, usize)]) -> usize {
        let mut reminder_ns = PATIENCE_NS;
        for turn in 0.. {
            for (_, victim) in deaths.iter().filter(|(at, _)| *at == turn) {
                self.kill(*victim);
            }
            let is_done = |rank: &Rank| rank.agreement.decision().is_some();
            if self.ranks.values().all(is_done) && deaths.iter().all(|(at, _)| *at <= turn) {
                return turn;
            }
            assert!(
                self.net.now_ns() < 60 * SEC,
                "some wait forever: {deaths:?}"
            );
            match self.net.next_turn(reminder_ns) {
                Some(id) => self.advance(id.0 as usize),
                None => {
                    reminder_ns += PATIENCE_NS;
                    for rank in self.ranks.keys().copied().collect::<Vec<_>>() {
                        if let Some(state) = self.ranks.get_mut(&rank) {
                            state.agreement.remind();
                        }
                        self.advance(rank);
                    }
                }
            }
        }
        unreachable!("it ends above")
    }

    /// All have decided the same, also those that died afterwards, and it is what it should be.
    fn check(&self, size: usize, deaths: &[(usize, usize)]) {
        let decided = self.ranks.values().filter_map(|r| r.agreement.decision());
        let mut decisions = decided.chain(&self.last_words);
        let Some(first) = decisions.next() else {
            return;
        };
        assert!(decisions.all(|other| other == first), "{deaths:?}");
        let victims: Ranks = deaths.iter().map(|(_, victim)| *victim).collect();
        assert!(first.failed.is_subset(&victims), "{first:?}: {deaths:?}");
        let contributors = (0..size).filter(|rank| !first.failed.contains(rank));
        assert_eq!(
            first.bits,
            contributors.fold(u64::MAX, |all, rank| all & bits(rank))
        );
    }
}

fn run(seed: u64, size: usize, deaths: &[(usize, usize)]) -> usize {
    let mut job = Job::new(seed, size);
    let turns = job.run(deaths);
    job.check(size, deaths);
    turns
}

#[test]
fn any_rank_may_die_at_any_turn() {
    for size in 1..=8 {
        let turns = run(size as u64, size, &[]);
        for victim in 0..size {
            for turn in 0..=turns {
                run(size as u64, size, &[(turn, victim)]);
            }
        }
    }
}

#[test]
fn several_ranks_may_die() {
    for seed in 0..500_u64 {
        let size = 2 + seed as usize % 11;
        let dies = |number: u64| {
            let chance = (seed + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(7 * number as u32);
            (
                chance as usize % (20 * size),
                (chance >> 32) as usize % size,
            )
        };
        let deaths: Vec<_> = (0..seed % 4).map(dies).collect();
        run(seed, size, &deaths);
    }
}
