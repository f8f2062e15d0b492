//! A sender's side and a receiver's, with a network between them that a property test makes lose,
//! repeat and reorder; and what each refuses.

mod bounds;

use super::*;
use crate::PeerId;
use crate::error::PeerLost;
use crate::stats::Shortage;
use crate::wire::{Entries, EntryMode, Fragment};
use proptest::prelude::*;

const SOURCE: PeerId = PeerId(4);
const LINK: LinkRef = LinkRef {
    peer: 0,
    generation: 1,
};
const CREDIT: u64 = 64 << 10;
const WINDOW: SendWindow = SendWindow {
    inline_max: crate::wire::INLINE_MAX,
    eager_max: 16 << 10,
    queue_max: 1 << 20,
    chunk_max: 1_300,
};

/// A frame on its way.
#[derive(Clone, Debug)]
enum Carried {
    Entries(u32, u16, Vec<u8>),
    Fragment(u32, u64, u64, Vec<u8>),
}

struct Pipe {
    out: Outgoing,
    incoming: Incoming,
    mailbox: Mailbox,
    flight: Vec<(Content, Carried)>,
    arrived_sends: Vec<Ticket>,
    tickets: Tickets<()>,
}

impl Pipe {
    fn new(memory: u64) -> Self {
        Self::with_share(memory, u64::MAX)
    }

    /// One whose sender may take so much of the receiver's memory.
    fn with_share(memory: u64, share: u64) -> Self {
        let mut mailbox = Mailbox::new(1, memory, share, CREDIT..=1 << 20, WINDOW.eager_max);
        let credit = LogCredit::reserve(CREDIT, &mut mailbox);
        let mut out = Outgoing::default();
        out.set_log_limit(credit.limit());
        Pipe {
            out,
            incoming: Incoming::new(credit),
            mailbox,
            flight: Vec::new(),
            arrived_sends: Vec::new(),
            tickets: Tickets::default(),
        }
    }

    fn push(&mut self, tag: u64, len: usize) -> Ticket {
        let ticket = self.tickets.insert(());
        let body = body(tag, len);
        if len <= WINDOW.inline_max {
            self.out.push_inline(tag, &body, Some(ticket), &WINDOW);
        } else {
            self.out.push_body(tag, body.into(), Some(ticket), &WINDOW);
        }
        ticket
    }

    /// Sends what may go as one frame of at most `room` bytes; returns whether there was any.
    fn send(&mut self, room: usize) -> bool {
        while let Some(content) = self.out.pop_resend(true) {
            if !self.out.still_wants(content) {
                continue;
            }
            let (content, frame) = match content {
                Content::Entries { first_id } => {
                    let frame = self.out.entries_again(first_id, room).map(carried);
                    (content, frame.expect("an entry fits any packet"))
                }
                Content::Body { id, offset, len } => {
                    let piece = self.out.fragment_again(id, offset, len, room - 24);
                    let (content, fragment) = piece.expect("still wanted");
                    (content, piece_of(fragment))
                }
                _ => panic!("never sent"),
            };
            self.flight.push((content, frame));
            return true;
        }
        let window = SendWindow {
            chunk_max: room - 80,
            ..WINDOW
        };
        if let Some((first_id, frame)) = self.out.next_entries(room, &window) {
            let frame = carried(frame);
            self.flight.push((Content::Entries { first_id }, frame));
            return true;
        }
        if let Some((content, fragment)) = self.out.next_fragment(room - 24) {
            let frame = piece_of(fragment);
            self.flight.push((content, frame));
            return true;
        }
        false
    }

    fn deliver(&mut self, frame: &Carried) -> Result<(), PeerLost> {
        let mut inbox = inbox_of(&mut self.mailbox);
        match *frame {
            Carried::Entries(first_id, count, ref log) => {
                let frame = Entries {
                    first_id,
                    count,
                    log,
                };
                Ok(self.incoming.on_entries(&frame, &mut inbox)?)
            }
            Carried::Fragment(id, total, offset, ref data) => {
                let fragment = Fragment {
                    id,
                    total,
                    offset,
                    data,
                };
                self.incoming.on_fragment(&fragment, &mut inbox)
            }
        }
    }

    fn arrived(&mut self, content: Content) {
        let done = &mut |ticket| self.arrived_sends.push(ticket);
        match content {
            Content::Entries { first_id } => self.out.on_entries_arrived(first_id, done),
            Content::Body { id, len, .. } => self.out.on_body_arrived(id, len, done),
            _ => panic!("never sent"),
        }
    }

    /// What the receiver owes the sender: grants and credit.
    fn answer(&mut self) {
        while let Some(id) = self.incoming.pop_grant() {
            if let Some(upto) = self.incoming.granted(id) {
                self.out.on_grant(id as u32, upto);
            }
        }
        self.out.set_log_limit(self.incoming.log.announce());
    }

    fn take(&mut self) -> Option<Message> {
        let any = Match::any();
        if let Some((message, taken)) = self.mailbox.try_take(&any) {
            let Taken::Credit { log, unasked, .. } = taken else {
                panic!("a whole message is bound");
            };
            self.incoming.on_taken(log, unasked);
            let mut inbox = inbox_of(&mut self.mailbox);
            self.incoming.prefetch_left(&mut inbox);
            return Some(message);
        }
        let (_, id) = self.mailbox.pending(&any)?;
        self.incoming.want(id, &mut inbox_of(&mut self.mailbox));
        None
    }

    /// The rest goes over a good network; returns what arrives.
    fn finish(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        for _ in 0..100_000 {
            self.answer();
            self.send(1_200);
            for (content, frame) in std::mem::take(&mut self.flight) {
                self.deliver(&frame).unwrap();
                self.arrived(content);
            }
            messages.extend(self.take());
            if self.out.is_settled() && self.mailbox.arrived_len() == 0 {
                return messages;
            }
        }
        panic!("no end: {} bytes queued", self.out.queued_bytes());
    }
}

fn inbox_of(mailbox: &mut Mailbox) -> Inbox<'_> {
    Inbox {
        mailbox,
        source: SOURCE,
        link: LINK,
    }
}

fn carried(frame: Entries<'_>) -> Carried {
    Carried::Entries(frame.first_id, frame.count, frame.log.to_vec())
}

fn piece_of(fragment: Fragment<'_>) -> Carried {
    let Fragment {
        id,
        total,
        offset,
        data,
    } = fragment;
    Carried::Fragment(id, total, offset, data.to_vec())
}

fn body(tag: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + tag) as u8).collect()
}

/// A frame of one entry, as a hostile peer might write it.
fn entry(id: u32, mode: EntryMode, len: u64) -> Carried {
    let body = vec![
        0;
        if mode == EntryMode::Inline {
            len as usize
        } else {
            0
        }
    ];
    let mut log = Vec::new();
    crate::wire::Entry {
        tag: 1,
        len,
        mode,
        body: &body,
    }
    .append(&mut log);
    Carried::Entries(id, 1, log)
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..=100_usize,
        900..=1_100_usize,
        1_025..20_000_usize,
        20_000..90_000_usize
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every message arrives once, whole and in order, and its sender hears of it once, however
    /// packets are lost, repeated and reordered while their size changes.
    #[test]
    fn messages_survive_the_network(
        sizes in prop::collection::vec(size(), 1..25),
        steps in prop::collection::vec((0..12_u8, any::<prop::sample::Index>(), 1_100..1_500_usize), 0..300),
    ) {
        let mut pipe = Pipe::new(1 << 20);
        let sends: Vec<_> = (0..).zip(&sizes).map(|(tag, &len)| pipe.push(tag, len)).collect();
        let mut messages = Vec::new();
        for (what, which, room) in steps {
            match what {
                0..=4 => drop(pipe.send(room)),
                5 => pipe.answer(),
                6 => messages.extend(pipe.take()),
                _ if pipe.flight.is_empty() => {}
                7 => {
                    let (content, _) = pipe.flight.swap_remove(which.index(pipe.flight.len()));
                    pipe.out.send_again(content, room % 2 == 0);
                }
                8 => {
                    let frame = pipe.flight[which.index(pipe.flight.len())].1.clone();
                    pipe.deliver(&frame).unwrap();
                }
                9 => {
                    // It arrives, but its acknowledgement comes too late.
                    let (content, frame) = pipe.flight.remove(which.index(pipe.flight.len()));
                    pipe.deliver(&frame).unwrap();
                    pipe.out.send_again(content, false);
                }
                _ => {
                    let (content, frame) = pipe.flight.remove(which.index(pipe.flight.len()));
                    pipe.deliver(&frame).unwrap();
                    pipe.arrived(content);
                }
            }
        }
        messages.extend(pipe.finish());
        prop_assert_eq!(messages.len(), sizes.len());
        for ((tag, &len), message) in (0..).zip(&sizes).zip(&messages) {
            prop_assert_eq!((message.source, message.tag), (SOURCE, tag));
            prop_assert!(*message.body == *body(tag, len));
        }
        prop_assert_eq!(pipe.out.queued_bytes(), 0);
        prop_assert_eq!(pipe.incoming.backlog_bytes(), 0);
        prop_assert_eq!(pipe.mailbox.posted.used(), 0);
        pipe.arrived_sends.sort_by_key(|ticket| sends.iter().position(|send| send == ticket));
        prop_assert_eq!(pipe.arrived_sends, sends);
    }

    /// Overlapping pieces in any order make the body.
    #[test]
    fn a_body_is_made_of_pieces_in_any_order(
        pieces in prop::collection::vec((0..4_000_u64, 1..900_u64), 0..40),
    ) {
        let mut pipe = Pipe::new(1 << 20);
        let whole = body(7, 4_000);
        let whole_pieces = (0..4_000).step_by(500).map(|at| (at, 500));
        for (offset, len) in pieces.into_iter().chain(whole_pieces) {
            let end = (offset + len).min(4_000);
            let data = whole[offset as usize..end as usize].to_vec();
            pipe.deliver(&Carried::Fragment(0, 4_000, offset, data)).unwrap();
        }
        prop_assert!(pipe.take().is_none(), "its envelope is not here");
        pipe.deliver(&entry(0, EntryMode::Eager, 4_000)).unwrap();
        prop_assert!(*pipe.take().unwrap().body == *whole);
    }
}

#[test]
fn small_bodies_go_at_once_and_large_ones_wait_for_a_grant() {
    let mut pipe = Pipe::new(1 << 20);
    pipe.push(0, 10_000);
    pipe.push(1, 100_000);
    while pipe.send(1_400) {}
    let sent: usize = pipe.flight.iter().map(|(_, frame)| data_len(frame)).sum();
    assert_eq!(sent, 10_000, "only the eager one");
    pipe.out.on_grant(1, 50_000);
    while pipe.send(1_400) {}
    let sent: usize = pipe.flight.iter().map(|(_, frame)| data_len(frame)).sum();
    assert_eq!(sent, 60_000, "as far as granted");
}

#[test]
fn a_granted_body_gets_on_however_many_come_that_need_no_grant() {
    let mut pipe = Pipe::new(1 << 20);
    pipe.out.set_log_limit(1 << 20);
    pipe.push(0, 100_000);
    while pipe.send(1_400) {}
    pipe.out.on_grant(0, 100_000);
    // Each has an entry and two pieces: so much leaves, too.
    for tag in 1..300 {
        pipe.push(tag, 2_000);
        (0..3).for_each(|_| assert!(pipe.send(1_400)));
    }
    let granted = pipe.flight.iter().map(|(_, frame)| frame);
    let granted = granted.filter(|frame| matches!(frame, Carried::Fragment(0, ..)));
    assert_eq!(granted.map(data_len).sum::<usize>(), 100_000);
}

/// One packet at a time, each with a search for both, such bodies went at two thirds of the speed.
#[test]
fn a_granted_body_that_goes_before_a_new_one_goes_in_a_run() {
    let mut pipe = Pipe::new(1 << 20);
    pipe.out.set_log_limit(1 << 20);
    pipe.push(0, 100_000);
    while pipe.send(1_400) {}
    pipe.out.on_grant(0, 100_000);
    assert!(pipe.out.next_fragment(90_000).is_some());
    pipe.push(1, 16_000);
    assert!(pipe.send(1_400), "the entry");
    let run = pipe.out.next_bulk(1_000, 30).map(|(content, _)| content);
    let (id, offset, len) = (0, 90_000, 9_000);
    assert_eq!(run, Some(Content::Body { id, offset, len }));
}

fn data_len(frame: &Carried) -> usize {
    match frame {
        Carried::Fragment(.., data) => data.len(),
        Carried::Entries(..) => 0,
    }
}

#[test]
fn the_log_limit_holds_entries_back() {
    let mut pipe = Pipe::new(1 << 20);
    for tag in 0..1_000 {
        pipe.push(tag, 100);
    }
    while pipe.send(1_400) {}
    assert!(pipe.out.is_blocked());
    let sent: u64 = pipe
        .flight
        .iter()
        .map(|(_, frame)| match frame {
            Carried::Entries(_, count, _) => u64::from(*count) * (ENTRY_CHARGE + 100),
            Carried::Fragment(..) => 0,
        })
        .sum();
    assert!(sent <= CREDIT && sent > CREDIT - 16 * (ENTRY_CHARGE + 100));
    assert_eq!(pipe.finish().len(), 1_000);
}

#[test]
fn a_receiver_knows_what_waits_beyond_the_log_limit() {
    let mut pipe = Pipe::new(1 << 20);
    for tag in 0..1_000 {
        pipe.push(tag, 100);
    }
    let all = 1_000 * (ENTRY_CHARGE + 100);
    assert_eq!(pipe.out.charge_to_tell(0), Some(all));
    assert_eq!(pipe.out.charge_to_tell(all), None);
    // It is told again once it knows of less than half of what waits beyond the limit.
    let beyond = all - CREDIT;
    assert_eq!(pipe.out.charge_to_tell(CREDIT + beyond / 2 - 1), Some(all));
    assert_eq!(pipe.out.charge_to_tell(CREDIT + beyond / 2 + 1), None);

    pipe.incoming.on_request(all);
    assert_eq!(pipe.incoming.remaining_bytes(), CREDIT);
    while pipe.send(1_400) {}
    assert!(pipe.out.is_blocked());
    let (limit, mailbox) = (pipe.out.log_limit(), &mut pipe.mailbox);
    mailbox.log_windows = CREDIT..=CREDIT;
    pipe.incoming.on_blocked(limit, mailbox);
    for (_, frame) in std::mem::take(&mut pipe.flight) {
        pipe.deliver(&frame).unwrap();
    }
    assert_eq!(pipe.incoming.remaining_bytes(), 0, "no other fits");
}

/// A window that has grown falls back to the first one when its sender does not use it, and neither of the two believes
/// that the other may do more than it may.
#[test]
fn log_credit_that_is_not_used_is_given_back() {
    let mut pipe = Pipe::new(4 << 20);
    assert!(pipe.incoming.log.widen(1 << 20, &mut pipe.mailbox));
    pipe.answer();
    assert_eq!(pipe.out.log_limit(), 1 << 20);
    pipe.push(0, 1_000);
    assert!(!pipe.out.return_credit(0), "something is on its way");
    pipe.finish();
    assert!(!pipe.out.return_credit(1 << 20), "it was wished for");
    assert!(pipe.out.return_credit(0));
    let (returned, mailbox) = (pipe.out.returned(), &mut pipe.mailbox);
    pipe.incoming.on_returned(returned, mailbox).unwrap();
    pipe.incoming.on_returned(returned, mailbox).unwrap();
    assert_eq!(pipe.incoming.log.window(), pipe.mailbox.logs.used);
    assert!((256 << 10..321 << 10).contains(&pipe.mailbox.logs.used));
    assert!(!pipe.out.return_credit(0), "the rest is kept");
    // It grows again as it is needed.
    pipe.answer();
    let (limit, window) = (pipe.out.log_limit(), pipe.incoming.log.window());
    pipe.incoming.on_blocked(limit, &mut pipe.mailbox);
    assert_eq!(pipe.incoming.log.window(), 2 * window);
    assert_eq!(pipe.mailbox.logs.used, 2 * window);

    let too_much = returned + 1_024;
    let given_back = pipe.incoming.on_returned(too_much, &mut pipe.mailbox);
    assert!(given_back.is_err(), "more than there was");
}

/// Credit for the path that nobody can use is kept, and all that the next limit allows leaves at once.
#[test]
fn what_remains_of_small_messages_is_what_they_take_on_the_wire() {
    let mut pipe = Pipe::new(4 << 20);
    pipe.incoming.log.widen(1 << 20, &mut pipe.mailbox);
    pipe.answer();
    for tag in 0..2_000 {
        pipe.push(tag, 60);
    }
    let charge = 2_000 * (ENTRY_CHARGE + 60);
    pipe.incoming.on_request(charge);
    assert_eq!(pipe.incoming.remaining_bytes(), charge, "nothing is known");
    while pipe.send(1_400) {}
    let mut frames = std::mem::take(&mut pipe.flight).into_iter();
    for (_, frame) in frames.by_ref().take(40) {
        pipe.deliver(&frame).unwrap();
    }
    let rest: Vec<_> = frames.map(|(_, frame)| frame).collect();
    let left = |pipe: &Pipe| pipe.incoming.remaining_bytes();
    let bytes = |frame: &Carried| match frame {
        Carried::Entries(_, _, log) => log.len() as u64,
        Carried::Fragment(..) => 0,
    };
    let wire: u64 = rest.iter().map(bytes).sum();
    assert!((wire..wire * 5 / 4).contains(&left(&pipe)), "{wire}");
    // All but one of them are here, and wait for it.
    let missing = bytes(&rest[0]);
    for frame in &rest[1..] {
        pipe.deliver(frame).unwrap();
    }
    assert!((missing..missing * 5 / 4).contains(&left(&pipe)));
    pipe.deliver(&rest[0]).unwrap();
    assert_eq!(left(&pipe), 0);
}

#[test]
fn less_left_of_the_log_limit_than_is_on_its_way_curbs() {
    let mut pipe = Pipe::new(1 << 20);
    let fits = CREDIT / (ENTRY_CHARGE + 1_000);
    for tag in 0..fits {
        pipe.push(tag, 1_000);
    }
    for _ in 0..fits - 1 {
        assert!(pipe.send(1_400));
    }
    assert!(!pipe.out.is_curbed(), "nothing waits for the next limit");
    let mut pipe = Pipe::new(1 << 20);
    for tag in 0..2 * fits {
        pipe.push(tag, 1_000);
    }
    for sent in 0..fits - 1 {
        assert_eq!(pipe.out.is_curbed(), sent > fits / 2, "{sent} of {fits}");
        assert!(pipe.send(1_400));
    }
}

#[test]
fn the_granted_body_with_least_left_goes_first() {
    let mut pipe = Pipe::new(1 << 20);
    pipe.push(0, 90_000);
    pipe.push(1, 30_000);
    pipe.push(2, 60_000);
    for (id, bytes) in [(0, 90_000), (1, 30_000), (2, 60_000)] {
        pipe.out.on_grant(id, bytes);
    }
    let mut order = Vec::new();
    while let Some((Content::Body { id, .. }, _)) = pipe.out.next_fragment(1_000) {
        order.push(id);
    }
    order.dedup();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn an_endless_stream_of_short_bodies_does_not_hold_a_long_one_back() {
    let mut pipe = Pipe::new(1 << 20);
    pipe.push(0, 90_000);
    pipe.out.on_grant(0, 90_000);
    let mut before = 0;
    for short in 1..100 {
        pipe.push(u64::from(short), 30_000);
        pipe.out.on_grant(short, 30_000);
        match pipe.out.next_fragment(30_000) {
            Some((Content::Body { id: 0, .. }, _)) => {
                assert_eq!(before, 4 * 90_000);
                return;
            }
            Some(_) => before += 30_000,
            None => panic!("something is granted"),
        }
    }
    panic!("{before} bytes have gone before it");
}

#[test]
fn what_arrived_behind_a_gap_is_not_safe_yet() {
    let mut pipe = Pipe::new(1 << 20);
    let sends = [(0, 100), (1, 100), (2, 5_000)].map(|(tag, len)| pipe.push(tag, len));
    while pipe.send(250) {}
    let mut flight = std::mem::take(&mut pipe.flight).into_iter();
    let (first, _) = flight.next().expect("something was sent");
    flight.for_each(|(content, _)| pipe.arrived(content));
    assert!(
        pipe.arrived_sends.is_empty(),
        "the receiver can't pass them on"
    );
    pipe.arrived(first);
    assert_eq!(pipe.arrived_sends, sends);
}

#[test]
fn one_message_larger_than_all_room_is_taken() {
    let mut pipe = Pipe::new(1 << 20);
    let (large, small) = (10 << 20, 10);
    pipe.push(0, small);
    assert!(
        pipe.out.has_room(large, &WINDOW),
        "small ones take none of it"
    );
    pipe.push(0, large);
    assert!(!pipe.out.has_room(large, &WINDOW));
    assert!(!pipe.out.has_room(usize::MAX, &WINDOW));
    assert!(pipe.out.has_room(1_000, &WINDOW));
}

#[test]
fn what_is_inside_its_entry_is_not_large() {
    let window = SendWindow {
        eager_max: 0,
        queue_max: 10_000,
        ..WINDOW
    };
    let mut pipe = Pipe::new(1 << 20);
    let mut taken = 0;
    while pipe.out.has_room(1_000, &window) && taken < 20 {
        pipe.push(1, 1_000);
        taken += 1;
    }
    assert!((5..=10).contains(&taken), "{taken}");
}

#[test]
fn a_large_body_that_nobody_asks_for_leaves_room_for_others() {
    let mut pipe = Pipe::new(1 << 20);
    let (large, eager) = (10 << 20, 16 << 10);
    pipe.push(0, large);
    assert!(!pipe.out.has_room(eager + 1, &WINDOW), "large as well");
    let mut taken = 0;
    while pipe.out.has_room(eager, &WINDOW) {
        pipe.push(1, eager);
        taken += eager;
    }
    let most = WINDOW.queue_max;
    assert!((most / 2..=2 * most).contains(&taken), "{taken}");
    let short = WINDOW.inline_max;
    assert!(
        pipe.out.has_room(short, &WINDOW),
        "what has to be asked for leaves room for what has not"
    );
}

#[test]
fn promises_broken_are_violations() {
    let refused = |frames: &[Carried]| {
        let mut pipe = Pipe::new(1 << 20);
        let (last, before) = frames.split_last().unwrap();
        before.iter().for_each(|frame| pipe.deliver(frame).unwrap());
        pipe.deliver(last).is_err()
    };
    let piece = |id, total, offset, len| Carried::Fragment(id, total, offset, vec![0; len]);
    let granted = entry(0, EntryMode::Granted, 800_000);
    assert!(!refused(std::slice::from_ref(&granted)));
    assert!(refused(&[granted, piece(0, 800_000, 0, 10)]), "not granted");
    assert!(
        refused(&[entry(0, EntryMode::Eager, CREDIT)]),
        "more than its credit"
    );
    assert!(refused(&[entry(0, EntryMode::Eager, u64::MAX)]));
    assert!(
        refused(&[piece(0, CREDIT, 0, 10)]),
        "early, beyond the credit"
    );
    assert!(refused(&[piece(0, u64::MAX, 0, 10)]));
    let early = piece(0, 5_000, 0, 10);
    assert!(refused(&[early.clone(), entry(0, EntryMode::Eager, 5_001)]));
    assert!(refused(&[early.clone(), piece(0, 5_001, 0, 10)]));
    assert!(refused(&[early, entry(0, EntryMode::Granted, 5_000)]));
    assert!(
        refused(&[Carried::Entries(0, 2, vec![0, 1])]),
        "fewer than said"
    );
    assert!(refused(&[Carried::Entries(u32::MAX, 1, Vec::new())]));
    assert!(refused(&[Carried::Entries(1 << 31, 1, Vec::new())]));
}

#[test]
fn what_comes_early_is_bounded_even_if_empty() {
    let mut pipe = Pipe::new(1 << 20);
    let most =
        (1..=u32::MAX).take_while(|&id| pipe.deliver(&Carried::Entries(id, 1, Vec::new())).is_ok());
    assert!(most.count() as u64 <= CREDIT / ENTRY_CHARGE);
    let mut pipe = Pipe::new(1 << 20);
    let most = (0..=u32::MAX).take_while(|&id| {
        pipe.deliver(&Carried::Fragment(id, 0, 0, Vec::new()))
            .is_ok()
    });
    assert!(most.count() as u64 <= CREDIT / ENTRY_CHARGE);
}

#[test]
fn a_frame_without_entries_is_nothing() {
    for id in [0, 1, 40, u32::MAX] {
        for log in [vec![], vec![0; 30]] {
            let mut pipe = Pipe::new(1 << 20);
            pipe.deliver(&Carried::Entries(id, 0, log)).unwrap();
            assert!(pipe.take().is_none());
            pipe.deliver(&entry(0, EntryMode::Eager, 0)).unwrap();
            assert!(pipe.take().is_some());
        }
    }
}

#[test]
fn crumbs_are_refused() {
    let mut pipe = Pipe::new(1 << 20);
    let mut crumbs = (1..30_000_u64)
        .step_by(2)
        .map(|at| pipe.deliver(&Carried::Fragment(0, 30_000, at, vec![0])));
    let refused = crumbs.position(|result| result.is_err());
    assert!(refused.is_some_and(|at| at < 1_000));
}

#[test]
fn a_withdrawn_receive_leaves_its_message_to_another() {
    let mut pipe = Pipe::new(1 << 20);
    pipe.push(0, 10_000);
    pipe.push(1, 10);
    let (ticket, _) = pipe
        .mailbox
        .post(Match::any(), Some(vec![9; 20_000]), u64::MAX);
    for _ in 0..3 {
        pipe.send(1_400);
    }
    for (content, frame) in std::mem::take(&mut pipe.flight) {
        pipe.deliver(&frame).unwrap();
        pipe.arrived(content);
    }
    let Cancelled::Filling { id, stamp, .. } = pipe.mailbox.cancel(ticket) else {
        panic!("the message has begun to fill it");
    };
    let mut inbox = inbox_of(&mut pipe.mailbox);
    let buffer = pipe.incoming.detach(id, stamp, &mut inbox);
    assert_eq!(buffer.map(|buffer| buffer.len()), Some(20_000));
    assert!(pipe.mailbox.result(ticket).is_none(), "its ticket is stale");
    let messages = pipe.finish();
    let tags: Vec<_> = messages.iter().map(|message| message.tag).collect();
    assert_eq!(tags, [0, 1], "in the old order");
    assert!(*messages[0].body == *body(0, 10_000));
}

#[test]
fn a_budget_gives_what_it_has() {
    let mut budget = Budget::new(10);
    assert!(budget.charge(7) && !budget.charge(4) && budget.charge(3));
    budget.release(5);
    assert!(budget.charge(5) && !budget.charge(1) && !budget.charge(u64::MAX));
}

#[test]
fn receives_starved_of_memory_get_it_in_turn() {
    let mut pipe = Pipe::new(200_000);
    let post = |pipe: &mut Pipe| pipe.mailbox.post(Match::any(), None, u64::MAX).0;
    let tickets = [post(&mut pipe), post(&mut pipe), post(&mut pipe)];
    for (id, len) in [(0, 150_000), (1, 150_000), (2, 40_000)] {
        pipe.deliver(&entry(id, EntryMode::Granted, len)).unwrap();
    }
    assert_eq!(pipe.mailbox.posted.used(), 190_000, "the middle one waits");
    let mut inbox = inbox_of(&mut pipe.mailbox);
    for _ in 0..3 {
        inbox.mailbox.posted.turn = Turn::Anybody;
        pipe.incoming.retry_starved(&mut inbox);
    }
    assert_eq!(pipe.mailbox.posted.used(), 190_000, "trying costs nothing");
    for at in (0..150_000).step_by(50_000) {
        pipe.deliver(&Carried::Fragment(0, 150_000, at, vec![3; 50_000]))
            .unwrap();
    }
    assert!(pipe.mailbox.result(tickets[0]).unwrap().is_ok());
    assert!(pipe.mailbox.may_feed(), "memory has come back");
    let mut inbox = inbox_of(&mut pipe.mailbox);
    inbox.mailbox.posted.turn = Turn::Anybody;
    pipe.incoming.retry_starved(&mut inbox);
    assert_eq!(pipe.mailbox.posted.used(), 190_000);
}

#[test]
fn the_shorter_bodies_have_room_of_their_own() {
    let mut room = Room::new(800);
    assert!(room.charge(800) && !room.charge(101) && room.charge(60) && room.charge(40));
    assert!(
        !room.charge(1),
        "all is used, and what is kept for short ones"
    );
    assert_eq!(room.used(), 900);
    room.release(60);
    assert!(room.take_freed() && !room.charge(61) && room.charge(60));
    room.release(800);
    for _ in 0..8 {
        assert!(
            room.charge(100),
            "what is beyond their own takes of the rest"
        );
    }
    assert!(!room.charge(1) && room.used() == 900);
    for bytes in [100; 8] {
        room.release(bytes);
    }
    assert!(
        room.charge(800),
        "what is their own never keeps a long one out"
    );
}

#[test]
fn what_is_set_aside_for_one_is_not_given_to_others() {
    let mut room = Room::new(800);
    assert!(room.charge(200));
    assert_eq!((room.keep(700), room.keep(500)), (None, Some(500)));
    assert_eq!(room.keep(200), None);
    assert!(
        !room.charge(101) && room.charge(100),
        "short ones have their own"
    );
    assert!(room.charge(100) && !room.charge(1));
    room.unkeep(500);
    assert!(room.charge(500));
}

#[test]
fn who_takes_what_is_its_own_overtakes_nobody() {
    let mut pipe = Pipe::new(800_000);
    let entry = |id, len| entry(id, EntryMode::Granted, len);
    for (id, len) in [(0, 800_000), (1, 400_000)] {
        pipe.mailbox.post(Match::any(), None, u64::MAX);
        pipe.deliver(&entry(id, len)).unwrap();
    }
    for id in 2..12 {
        pipe.mailbox.post(Match::any(), None, u64::MAX);
        pipe.deliver(&entry(id, 100_000)).unwrap();
        let whole = Carried::Fragment(id, 100_000, 0, vec![3; 100_000]);
        pipe.deliver(&whole).unwrap();
        assert!(pipe.mailbox.posted.may_overtake(800_000), "{id}");
    }
}

#[test]
fn a_short_body_does_not_wait_behind_a_long_one() {
    let mut pipe = Pipe::new(200_000);
    let post = |pipe: &mut Pipe| pipe.mailbox.post(Match::any(), None, u64::MAX).0;
    let tickets = [(); 5].map(|()| post(&mut pipe));
    for (id, len) in (0..).zip([200_000, 150_000, 25_000, 25_000, 10_000]) {
        pipe.deliver(&entry(id, EntryMode::Granted, len)).unwrap();
    }
    let granted =
        |pipe: &mut Pipe| -> Vec<_> { (0..5).map(|id| pipe.incoming.granted(id)).collect() };
    let none = Some(0);
    assert_eq!(
        granted(&mut pipe),
        [Some(200_000), none, Some(25_000), none, none]
    );
    let whole = Carried::Fragment(2, 25_000, 0, vec![3; 25_000]);
    pipe.deliver(&whole).unwrap();
    assert!(pipe.mailbox.result(tickets[2]).unwrap().is_ok());
    assert!(pipe.mailbox.may_feed(), "memory has come back");
    pipe.mailbox.posted.turn = Turn::Anybody;
    let mut inbox = inbox_of(&mut pipe.mailbox);
    pipe.incoming.retry_starved(&mut inbox);
    let (first, next) = (Some(200_000), Some(25_000));
    assert_eq!(
        granted(&mut pipe),
        [first, none, None, next, none],
        "in turn"
    );
}

/// More than any machine has.
const ABSURD: u64 = 1 << 60;

#[test]
fn a_body_that_the_system_has_no_memory_for_gets_no_credit() {
    let mut pipe = Pipe::new(u64::MAX);
    let post = |pipe: &mut Pipe| pipe.mailbox.post(Match::any(), None, u64::MAX).0;
    let tickets = [post(&mut pipe), post(&mut pipe)];
    pipe.deliver(&entry(0, EntryMode::Granted, ABSURD)).unwrap();
    assert_eq!(pipe.incoming.granted(0), Some(0));
    assert_eq!(
        pipe.incoming.shortage(&pipe.mailbox),
        Some(Shortage::System)
    );
    pipe.deliver(&entry(1, EntryMode::Granted, 60_000)).unwrap();
    let whole = Carried::Fragment(1, 60_000, 0, vec![3; 60_000]);
    pipe.deliver(&whole).unwrap();
    assert!(pipe.mailbox.result(tickets[1]).unwrap().is_ok());
    assert_eq!(pipe.mailbox.posted.used(), 0);
    assert!(pipe.mailbox.may_feed(), "it is tried again now");
    pipe.mailbox.denied = false;
    pipe.incoming
        .retry_starved(&mut inbox_of(&mut pipe.mailbox));
    assert_eq!(
        pipe.incoming.shortage(&pipe.mailbox),
        Some(Shortage::System)
    );
    assert!(pipe.mailbox.result(tickets[0]).is_none());
}

#[test]
fn a_body_that_nobody_asked_for_and_has_no_memory_stays_where_it_is() {
    let mut pipe = Pipe::new(u64::MAX);
    let before = pipe.mailbox.unmatched.used;
    pipe.deliver(&entry(0, EntryMode::Granted, ABSURD)).unwrap();
    assert_eq!(pipe.incoming.granted(0), Some(0));
    assert_eq!(pipe.mailbox.unmatched.used, before);
}

#[test]
fn a_body_that_comes_without_a_grant_and_has_no_memory_ends_the_connection() {
    let mut pipe = Pipe::new(u64::MAX);
    pipe.incoming.log = LogCredit::reserve(2 * ABSURD, &mut pipe.mailbox);
    let piece = Carried::Fragment(0, ABSURD, 0, vec![3; 1_000]);
    assert_eq!(pipe.deliver(&piece), Err(PeerLost::NoMemory(ABSURD)));
}

#[test]
fn a_copy_that_the_system_has_no_memory_for_is_refused() {
    assert!(Pool::default().take(ABSURD as usize).is_none());
}

#[test]
fn a_peer_gets_no_more_than_its_share() {
    let mut pipe = Pipe::with_share(1_000_000, 100_000);
    let post = |pipe: &mut Pipe| pipe.mailbox.post(Match::any(), None, u64::MAX).0;
    let tickets = [post(&mut pipe), post(&mut pipe), post(&mut pipe)];
    for (id, len) in [(0, 60_000), (1, 60_000), (2, 150_000)] {
        pipe.deliver(&entry(id, EntryMode::Granted, len)).unwrap();
    }
    assert_eq!(pipe.mailbox.posted.used(), 60_000, "the others wait");
    assert_eq!(pipe.incoming.shortage(&pipe.mailbox), Some(Shortage::Peer));
    for (at, len, next) in [(0, 60_000, 60_000), (1, 60_000, 150_000), (2, 150_000, 0)] {
        let whole = Carried::Fragment(at, len, 0, vec![3; len as usize]);
        pipe.deliver(&whole).unwrap();
        assert!(pipe.mailbox.result(tickets[at as usize]).unwrap().is_ok());
        assert_eq!(pipe.mailbox.posted.used(), next, "one by one");
    }
    assert_eq!(pipe.incoming.shortage(&pipe.mailbox), None);
}

#[test]
fn what_nobody_asked_for_gets_no_more_than_its_share() {
    let mut pipe = Pipe::with_share(1_000_000, 100_000);
    for tag in 0..3 {
        pipe.push(tag, 40_000);
    }
    for _ in 0..200 {
        pipe.answer();
        pipe.send(1_200);
        for (content, frame) in std::mem::take(&mut pipe.flight) {
            pipe.deliver(&frame).unwrap();
            pipe.arrived(content);
        }
    }
    assert_eq!(pipe.mailbox.unmatched.used, 80_000);
    assert_eq!(pipe.finish().len(), 3);
    assert_eq!(pipe.mailbox.unmatched.used, 0, "all of it came back");
    assert_eq!(pipe.mailbox.logs.used, CREDIT);
    assert_eq!(pipe.mailbox.posted.used(), 0);
}

#[test]
fn what_nobody_asked_for_comes_as_what_came_before_is_taken() {
    let mut pipe = Pipe::with_share(1_000_000, 100_000);
    let lens = [60_000, 60_000, 150_000, 40_000, 40_000];
    for (id, len) in (0..).zip(lens) {
        pipe.deliver(&entry(id, EntryMode::Granted, len)).unwrap();
    }
    let granted =
        |pipe: &mut Pipe| -> Vec<_> { std::iter::from_fn(|| pipe.incoming.pop_grant()).collect() };
    assert_eq!(granted(&mut pipe), [0, 3], "what fits beside the first");
    let whole = Carried::Fragment(0, 60_000, 0, vec![3; 60_000]);
    pipe.deliver(&whole).unwrap();
    assert_eq!(granted(&mut pipe), [], "it is here, but not taken");
    assert!(pipe.take().is_some());
    assert_eq!(
        granted(&mut pipe),
        [1],
        "more than the share never comes unasked"
    );
}

#[test]
fn ids_of_bodies_are_restored_however_old_they_are() {
    for next in [0_u64, 5, 1 << 31, 1 << 32, (1 << 40) + 7] {
        for id in [
            next.saturating_sub(MOST_IDS),
            next.saturating_sub(1 << 31),
            next,
            next + 70_000,
        ] {
            assert_eq!(expand_body_id(id as u32, next), id, "{next}");
        }
    }
}

#[test]
fn ids_are_restored_near_the_next_one() {
    for near in [0, 5, 1 << 31, 1 << 32, (1 << 40) + 7] {
        for off in [-100_i64, -1, 0, 1, 1_000_000, i64::from(i32::MAX)] {
            let id = near + off as u64 * u64::from(off >= 0);
            assert_eq!(expand_id(id as u32, near), id);
        }
    }
}

/// By how much the window for what comes unasked grows where a body has to be asked for behind some that were taken.
fn grows(len: usize) -> u64 {
    let mut pipe = Pipe::new(1 << 24);
    let carry = |pipe: &mut Pipe| {
        while pipe.send(1_200) {}
        for (content, frame) in std::mem::take(&mut pipe.flight) {
            pipe.deliver(&frame).unwrap();
            pipe.arrived(content);
        }
    };
    for tag in 0..3 {
        pipe.push(tag, 15 << 10);
    }
    carry(&mut pipe);
    while pipe.take().is_some() {}
    // Nobody tells that.
    pipe.push(3, len);
    assert!(pipe.out.asks());
    carry(&mut pipe);
    let window = pipe.incoming.log.window();
    assert_eq!(pipe.finish().len(), 1);
    pipe.incoming.log.window() - window
}

#[test]
fn the_window_grows_where_a_body_is_asked_for_that_could_have_come_unasked() {
    assert_eq!(grows(15 << 10), CREDIT);
    assert_eq!(grows(17 << 10), 0, "it always has to be asked for");
}
