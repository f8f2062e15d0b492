//! Receives that wait for the node's memory, and those that are posted meanwhile.

use super::*;
use crate::message::RecvTicket;

const MIB: usize = 1 << 20;
const LARGE: u64 = 9;
const SMALL: u64 = 1;
const UNTAKEN: u64 = 5;

/// Senders with many messages of so many bytes, of which the last one sends one of 8 MiB after the first few; and their receiver, which has no
/// more than that.
struct Crowd {
    receiver: Node,
    senders: Vec<Node>,
    now_ns: u64,
}

fn addr(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + id as u8], 7_000))
}

impl Crowd {
    fn new(senders: u32, bytes: usize) -> Self {
        let node = |id| {
            let mut config = Config::new(PeerId(id), modes()[1].clone());
            config.memory_bytes = 8 * MIB as u64;
            config.send_queue_bytes = 1 << 30;
            Node::new(config, [id as u8 + 1; 32])
        };
        let mut crowd = Crowd {
            receiver: node(0),
            senders: (1..=senders).map(node).collect(),
            now_ns: 1_000_000,
        };
        for sender in &mut crowd.senders {
            sender.add_peer(PeerId(0), addr(0));
            crowd.receiver.add_peer(sender.id(), addr(sender.id().0));
        }
        let last = PeerId(senders);
        for sender in &mut crowd.senders {
            let id = sender.id();
            let mut send = |tag, bytes| {
                let body = vec![tag as u8; bytes].into();
                sender.send(1, PeerId(0), tag, body, false).unwrap();
            };
            // Nobody takes it, and so there is no memory for others to come unasked.
            send(UNTAKEN, 2 * MIB);
            for at in 0..100 {
                // Not all of them are here at the same time.
                send(
                    SMALL,
                    bytes + (7 * at + 3 * id.0 as usize) % 10 * bytes / 20,
                );
                if at == 3 && id == last {
                    send(LARGE, 8 * MIB);
                }
            }
        }
        crowd
    }

    fn step(&mut self) {
        self.now_ns += 10_000;
        let (now_ns, mut buffer) = (self.now_ns, vec![0; 65_536]);
        self.receiver.handle_deadline(now_ns);
        while let Some(train) = self.receiver.poll_transmit(now_ns, &mut buffer) {
            let to = self
                .senders
                .iter_mut()
                .find(|node| addr(node.id().0) == train.to);
            let bytes = &mut buffer[..train.bytes];
            // One that has stopped hears nothing.
            if let Some(to) = to {
                to.handle_datagrams(now_ns, addr(0), None, train.segment, false, bytes);
            }
        }
        for sender in &mut self.senders {
            sender.handle_deadline(now_ns);
            // One train at a time: messages of several come side by side.
            if let Some(train) = sender.poll_transmit(now_ns, &mut buffer) {
                let (from, bytes) = (addr(sender.id().0), &mut buffer[..train.bytes]);
                self.receiver
                    .handle_datagrams(now_ns, from, None, train.segment, false, bytes);
            }
        }
    }

    fn post(&mut self, sender: u32, tag: u64) -> (u32, RecvTicket) {
        let wanted = Match::any().from(PeerId(sender)).tag(tag);
        (sender, self.receiver.post(wanted, None))
    }

    /// Goes on until a receive has its message, which it takes; whether it gets it.
    fn has_come(&mut self, ticket: RecvTicket) -> bool {
        let waits = (0..50_000).find(|_| {
            self.step();
            self.receiver.has_ended(ticket)
        });
        waits.is_some() && self.receiver.take_received(ticket).unwrap().is_ok()
    }

    /// Keeps so many receives for small messages of each sender posted until the large one has come; how many of those have come by
    /// then.
    fn small_before_large(&mut self, posted: usize) -> Option<usize> {
        let last = self.senders.len() as u32;
        let mut small = Vec::new();
        for sender in (1..=last).cycle().take(posted * last as usize) {
            small.push(self.post(sender, SMALL));
        }
        while self.receiver.stats().posted_bytes == 0 {
            self.step();
        }
        let (_, large) = self.post(last, LARGE);
        let mut come = 0;
        for _ in 0..100_000 {
            self.step();
            for receive in &mut small {
                if let Some(message) = self.receiver.take_received(receive.1) {
                    assert_eq!(message.unwrap().tag, SMALL);
                    come += 1;
                    *receive = self.post(receive.0, SMALL);
                }
            }
            if self.receiver.has_ended(large) {
                return Some(come);
            }
        }
        None
    }
}

#[test]
fn what_needs_much_memory_comes_however_many_that_need_less_are_posted() {
    for (senders, posted, bytes) in [(1, 3, MIB / 2), (3, 1, 9 * MIB / 8), (3, 2, 9 * MIB / 8)] {
        let mut crowd = Crowd::new(senders, bytes);
        let before = crowd.small_before_large(posted);
        let before = before.unwrap_or_else(|| panic!("{senders}, {posted}: it never comes"));
        assert!(before < 60, "{senders}, {posted}: {before} came before it");
    }
}

/// Two nodes with 32 MiB each, of which one peer may have 8 MiB; 8 MiB have come that nobody takes, so that nothing else comes unasked, and these
/// messages of so many MiB, with tags from one on, are known.
fn with_a_share(mib: &[usize]) -> Pair {
    let mut pair = Pair::with(modes()[1].clone(), |config| {
        config.memory_bytes = 32 * MIB as u64;
        config.peer_memory_bytes = 8 * MIB as u64;
        config.send_queue_bytes = 64 * MIB;
    });
    let mut send = |tag, mib| {
        let body = vec![tag as u8; mib * MIB].into();
        let sent = pair.nodes[0].send(pair.now_ns, PeerId(1), tag, body, false);
        sent.unwrap();
    };
    send(100, 8);
    for (tag, &mib) in (1..).zip(mib) {
        send(tag, mib);
    }
    pair.carry();
    pair
}

/// What has come and is kept takes nothing of its peer's share any more, though the node's memory is not back.
#[test]
fn who_waits_for_its_peers_share_gets_it_when_the_last_on_its_way_is_here() {
    let mut pair = with_a_share(&[3, 6, 4]);
    let [_, waits] = [1, 2].map(|tag| pair.nodes[1].post(Match::any().tag(tag), None));
    // The program looks for one that comes later, and overtakes.
    let looked_for = Match::any().tag(3);
    assert!(pair.nodes[1].try_take(&looked_for).is_none());
    pair.carry();
    assert!(pair.nodes[1].probe(&looked_for).unwrap().complete);
    assert!(pair.nodes[1].hindrance_of(waits).is_none());
    assert!(pair.nodes[1].has_ended(waits), "4 of 32 MiB are taken");
}

/// A peer that has filled its share and stops keeps others from nothing that is free: what waits there needs room of its own only.
#[test]
fn who_waits_for_its_peers_share_keeps_no_free_memory_from_others() {
    let node = |id| {
        let mut config = Config::new(PeerId(id), modes()[1].clone());
        config.memory_bytes = 32 * MIB as u64;
        config.peer_memory_bytes = 8 * MIB as u64;
        config.send_queue_bytes = 1 << 30;
        Node::new(config, [id as u8 + 1; 32])
    };
    let mut crowd = Crowd {
        receiver: node(0),
        senders: [1, 2].map(node).into(),
        now_ns: 1_000_000,
    };
    for sender in &mut crowd.senders {
        sender.add_peer(PeerId(0), addr(0));
        crowd.receiver.add_peer(sender.id(), addr(sender.id().0));
    }
    let mut send = |sender: usize, tag, mib| {
        let body = vec![tag as u8; mib * MIB].into();
        let sent = crowd.senders[sender].send(1, PeerId(0), tag, body, false);
        sent.unwrap();
    };
    for (tag, mib) in [(100, 8), (1, 3), (2, 6), (3, 4), (4, 2)] {
        send(0, tag, mib);
    }
    send(1, 100, 8);
    for tag in 0..20 {
        send(1, tag, 5);
    }
    (0..20_000).for_each(|_| crowd.step());
    let [first, waits, overtakes, last] = [1, 2, 3, 4].map(|tag| crowd.post(1, tag).1);
    assert_eq!(crowd.receiver.stats().posted_bytes, 7 * MIB as u64);
    assert!(crowd.has_come(first) && !crowd.receiver.has_ended(overtakes));
    let stops = crowd.senders.remove(0);
    for tag in 0..20 {
        let (_, ticket) = crowd.post(2, tag);
        assert!(crowd.has_come(ticket), "{tag}");
    }
    crowd.senders.push(stops);
    for ticket in [overtakes, waits, last] {
        assert!(crowd.has_come(ticket));
    }
    let mailbox = &crowd.receiver.hub.mailbox;
    assert!(mailbox.posted.used() == 0 && mailbox.posted.has_room(32 * MIB as u64));
}

#[test]
fn what_overtook_one_that_was_withdrawn_does_not_count_for_the_next() {
    let mut pair = with_a_share(&[]);
    let node = &mut pair.nodes[1];
    let all = 32 * MIB as u64;
    node.hub.mailbox.posted.wait(all);
    node.hub.mailbox.posted.note_overtaking(all);
    node.hub.mailbox.posted.wait(1);
    assert!(!node.hub.mailbox.posted.may_overtake(1));
    // Nobody waits any more.
    node.hub.mailbox.posted.leave();
    node.handle_deadline(pair.now_ns);
    node.hub.mailbox.posted.wait(1);
    assert!(node.hub.mailbox.posted.may_overtake(all));
}
