//! Whose message a receive gets when several have sent some.

use super::*;
use crate::message::matching::steps;
use crate::wire::{Entry, EntryMode};

const SLOW: PeerId = PeerId(1);
const QUICK: PeerId = PeerId(2);
const OTHER: PeerId = PeerId(3);
const LEN: usize = 100_000;

fn link(of: PeerId) -> LinkRef {
    LinkRef {
        peer: of.0,
        generation: 1,
    }
}

struct Arrivals(Mailbox);

impl Arrivals {
    fn new() -> Self {
        Arrivals(Mailbox::new(1, 1 << 30, 1 << 28, 0..=1 << 20, 16 << 10))
    }

    /// The announcement of a message that is still to come.
    fn announce(&mut self, source: PeerId, tag: u64, comes: bool) -> ArrivedKey {
        let pending = Arrived::Pending(Pending {
            link: link(source),
            id: tag,
            len: LEN as u64,
        });
        self.0.keep(source, tag, pending, comes)
    }

    /// A whole message.
    fn keep(&mut self, source: PeerId, tag: u64) {
        let whole = Arrived::Whole {
            body: Body::copy_of(&[0; 100]),
            link: link(source),
            charge: Charge::default(),
        };
        self.0.keep(source, tag, whole, false);
    }

    /// A whole message that is not spread out for matching yet.
    fn keep_unread(&mut self, source: PeerId, tag: u64) {
        let mut log = Vec::new();
        let entry = Entry {
            tag,
            len: 4,
            mode: EntryMode::Inline,
            body: &[1; 4],
        };
        entry.append(&mut log);
        let frame = Entries {
            first_id: 0,
            count: 1,
            log: &log,
        };
        self.0.keep_unread(source, link(source), &frame);
    }

    fn complete(&mut self, key: ArrivedKey) {
        let filled = self.0.pool.take(LEN).unwrap();
        self.0.complete_arrived(key, filled, Charge::default());
    }

    /// Senders and tags of the messages that are taken until there are no more.
    fn take_all(&mut self, wanted: Match) -> Vec<(PeerId, u64)> {
        let messages = std::iter::from_fn(|| self.0.try_take(&wanted));
        messages.map(|(m, _)| (m.source, m.tag)).collect()
    }
}

#[test]
fn what_is_here_does_not_wait_for_what_another_sender_announced_before() {
    let mut mailbox = Arrivals::new();
    let slow = mailbox.announce(SLOW, 1, true);
    mailbox.keep(SLOW, 2);
    mailbox.keep(QUICK, 3);
    mailbox.keep_unread(QUICK, 4);
    mailbox.keep_unread(SLOW, 5);
    let any = Match::any();
    assert_eq!(mailbox.take_all(any), [(QUICK, 3), (QUICK, 4)]);
    assert_eq!(mailbox.0.peek(&any).unwrap().tag, 1, "the next to come");
    assert_eq!(mailbox.take_all(any.from(SLOW)), []);
    mailbox.complete(slow);
    assert_eq!(mailbox.take_all(any), [(SLOW, 1), (SLOW, 2), (SLOW, 5)]);
}

#[test]
fn what_does_not_come_unasked_has_its_turn() {
    let mut mailbox = Arrivals::new();
    mailbox.keep(QUICK, 1);
    mailbox.announce(SLOW, 2, false);
    mailbox.keep(QUICK, 3);
    let any = Match::any();
    assert_eq!(mailbox.take_all(any), [(QUICK, 1)]);
    assert_eq!(mailbox.0.pending(&any), Some((link(SLOW), 2)));
}

/// Also where those behind it could not be had before: it is taken by a receive, thrown away, or expires.
#[test]
fn what_leaves_lets_those_behind_it_pass() {
    let leave: [fn(&mut Mailbox, ArrivedKey); 4] = [
        |mailbox, _| assert!(mailbox.post(Match::any(), None, u64::MAX).1.is_some()),
        |mailbox, _| assert!(mailbox.discard(&Match::any()).is_some()),
        |mailbox, key| assert!(mailbox.drop_arrived(key)),
        |mailbox, _| mailbox.on_link_lost(SLOW, link(SLOW), &PeerLost::Closed),
    ];
    for leave in leave {
        let mut mailbox = Arrivals::new();
        let slow = mailbox.announce(SLOW, 1, true);
        mailbox.keep(SLOW, 2);
        let last = mailbox.announce(SLOW, 3, true);
        mailbox.keep(QUICK, 4);
        assert_eq!(mailbox.take_all(Match::any()), [(QUICK, 4)]);
        leave(&mut mailbox.0, slow);
        assert_eq!(mailbox.take_all(Match::any()), [(SLOW, 2)]);
        mailbox.complete(last);
    }
}

#[test]
fn a_withdrawn_receive_puts_its_message_back_behind_older_ones_of_its_sender() {
    for of_another in [false, true] {
        let mut mailbox = Arrivals::new();
        let slow = mailbox.announce(SLOW, 1, true);
        mailbox.keep(SLOW, 2);
        mailbox.keep(SLOW, 3);
        let (ticket, _) = mailbox.0.post(Match::any().tag(2), None, u64::MAX);
        let Cancelled::Done { result, stamp } = mailbox.0.cancel(ticket) else {
            panic!("it was here");
        };
        if of_another {
            mailbox.keep(QUICK, 4);
        }
        mailbox.0.abandon(stamp, result.unwrap());
        assert_eq!(mailbox.take_all(Match::any().from(SLOW)), []);
        let quick = mailbox.take_all(Match::any());
        assert_eq!(!quick.is_empty(), of_another, "{quick:?}");
        mailbox.complete(slow);
        if of_another {
            mailbox.keep(QUICK, 5);
        }
        let mut order = mailbox.take_all(Match::any());
        order.retain(|&(source, _)| source == SLOW);
        assert_eq!(order, [(SLOW, 1), (SLOW, 2), (SLOW, 3)]);
    }
}

/// What a receive that is withdrawn had been given.
fn withdraw(mailbox: &mut Arrivals, wanted: Match) {
    let (ticket, _) = mailbox.0.post(wanted, None, u64::MAX);
    match mailbox.0.cancel(ticket) {
        Cancelled::Done { result, stamp } => mailbox.0.abandon(stamp, result.unwrap()),
        Cancelled::Filling {
            link, id, stamp, ..
        } => {
            let (source, len) = (PeerId(link.peer), LEN as u64);
            mailbox.0.park(stamp, source, id, Pending { link, id, len });
        }
        Cancelled::Withdrawn(_) => panic!("there was one"),
    }
}

#[test]
fn a_withdrawn_receive_of_what_is_coming_holds_up_nobody_else() {
    let mut mailbox = Arrivals::new();
    mailbox.announce(QUICK, 1, true);
    mailbox.announce(SLOW, 2, true);
    withdraw(&mut mailbox, Match::any().tag(2));
    mailbox.keep_unread(OTHER, 3);
    let any = Match::any();
    assert_eq!(mailbox.take_all(any), [(OTHER, 3)]);
    assert_eq!(mailbox.0.peek(&any).unwrap().tag, 2, "the next to come");
    let filled = mailbox.0.pool.take(LEN).unwrap();
    let charge = Charge::default();
    mailbox.0.complete_parked(link(SLOW), 2, filled, charge);
    mailbox.keep(OTHER, 4);
    assert_eq!(mailbox.take_all(any), [(SLOW, 2), (OTHER, 4)]);
}

#[test]
fn several_withdrawn_receives_keep_the_order_of_each_sender() {
    let mut mailbox = Arrivals::new();
    let slow = mailbox.announce(SLOW, 1, true);
    mailbox.keep(SLOW, 2);
    mailbox.keep(QUICK, 2);
    // Of the two that match it is the one that can be had.
    withdraw(&mut mailbox, Match::any().from(SLOW).tag(2));
    withdraw(&mut mailbox, Match::any().from(QUICK).tag(2));
    mailbox.keep(QUICK, 3);
    let any = Match::any();
    assert_eq!(mailbox.take_all(any), [(QUICK, 2), (QUICK, 3)]);
    mailbox.complete(slow);
    assert_eq!(mailbox.take_all(any), [(SLOW, 1), (SLOW, 2)]);
}

#[test]
fn what_waits_behind_other_tags_of_its_sender_can_be_had_by_its_own() {
    let mut mailbox = Arrivals::new();
    let stopped = mailbox.announce(OTHER, 2, true);
    let slow = mailbox.announce(SLOW, 1, true);
    mailbox.keep(SLOW, 2);
    assert_eq!(mailbox.take_all(Match::any().tag(2)), [(SLOW, 2)]);
    assert_eq!(mailbox.take_all(Match::any()), []);
    mailbox.complete(slow);
    mailbox.complete(stopped);
    assert_eq!(mailbox.take_all(Match::any()), [(SLOW, 1), (OTHER, 2)]);
}

/// Statistics ask for it, however many others wait.
#[test]
fn what_holds_memory_of_receives_is_found_without_looking_at_all_that_wait() {
    let mut mailbox = Arrivals::new();
    let asked = mailbox.announce(SLOW, 1, false);
    for tag in 2..1_000 {
        mailbox.keep(QUICK, tag);
    }
    assert!(mailbox.0.posted.charge(LEN as u64));
    let filled = mailbox.0.pool.take(LEN).unwrap();
    let charge = Charge {
        posted: LEN as u64,
        ..Charge::default()
    };
    mailbox.0.complete_arrived(asked, filled, charge);
    let mut held = Vec::new();
    let steps = steps::during(|| {
        held.extend(
            mailbox
                .0
                .held()
                .map(|(_, envelope, bytes)| (envelope.tag, bytes)),
        );
    });
    assert_eq!(held, [(1, LEN as u64)]);
    assert_eq!(steps, 1, "nothing else is looked at");
    assert!(mailbox.0.try_take(&Match::any().tag(1)).is_some());
    assert_eq!(mailbox.0.held().count(), 0);
    assert!(mailbox.0.looked_for.is_empty());
}
