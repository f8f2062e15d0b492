//! What a peer may make a receiver hold, and who is next when something of that comes back.

use super::*;

/// A receive without a buffer for whatever comes next.
fn post(pipe: &mut Pipe) {
    pipe.mailbox.post(Match::any(), None, u64::MAX);
}

#[test]
fn what_waits_behind_a_gap_is_within_the_credit() {
    let mut pipe = Pipe::new(1 << 20);
    let len = crate::wire::INLINE_MAX as u64;
    let mut keep = |id| pipe.deliver(&entry(id, EntryMode::Inline, len)).is_ok();
    let kept = (1..1_000).take_while(|&id| keep(id)).count() as u64;
    let bytes = kept * (ENTRY_CHARGE + len);
    assert!((CREDIT / 2..=CREDIT).contains(&bytes), "{bytes}");
}

#[test]
fn a_body_of_a_message_that_is_inside_its_entry_is_refused() {
    let mut pipe = Pipe::new(1 << 20);
    let early = Carried::Fragment(0, 10_000, 0, vec![0; 10]);
    pipe.deliver(&early).unwrap();
    assert!(pipe.deliver(&entry(0, EntryMode::Inline, 10)).is_err());
}

#[test]
fn the_end_of_a_peer_that_waits_for_memory_lets_others_have_it() {
    let mut pipe = Pipe::new(200_000);
    let mut other = Incoming::new(LogCredit::reserve(CREDIT, &mut pipe.mailbox));
    let link = LinkRef {
        peer: 1,
        generation: 1,
    };
    fn of_other(mailbox: &mut Mailbox, link: LinkRef) -> Inbox<'_> {
        Inbox {
            mailbox,
            source: PeerId(5),
            link,
        }
    }
    for (id, len) in [(0, 100_000), (1, 60_000), (2, 50_000)] {
        post(&mut pipe);
        pipe.deliver(&entry(id, EntryMode::Granted, len)).unwrap();
    }
    post(&mut pipe);
    let Carried::Entries(first_id, count, log) = entry(0, EntryMode::Granted, 150_000) else {
        unreachable!()
    };
    let frame = Entries {
        first_id,
        count,
        log: &log,
    };
    let mut inbox = of_other(&mut pipe.mailbox, link);
    other.on_entries(&frame, &mut inbox).unwrap();
    let whole = Carried::Fragment(1, 60_000, 0, vec![3; 60_000]);
    pipe.deliver(&whole).unwrap();
    assert!(pipe.mailbox.may_feed());
    pipe.mailbox.posted.turn = Turn::Anybody;
    other.retry_starved(&mut of_other(&mut pipe.mailbox, link));
    let mut inbox = inbox_of(&mut pipe.mailbox);
    pipe.incoming.retry_starved(&mut inbox);
    assert_eq!(pipe.incoming.granted(2), Some(0), "it is the other's turn");

    other.on_lost(&mut of_other(&mut pipe.mailbox, link), &PeerLost::Closed);
    assert!(pipe.mailbox.may_feed());
    pipe.mailbox.posted.turn = Turn::Anybody;
    let mut inbox = inbox_of(&mut pipe.mailbox);
    pipe.incoming.retry_starved(&mut inbox);
    assert_eq!(pipe.incoming.granted(2), Some(50_000));
}

#[test]
fn the_next_body_comes_when_one_before_it_has_expired() {
    let mut pipe = Pipe::with_share(1_000_000, 100_000);
    for id in 0..2 {
        let announced = entry(id, EntryMode::Granted, 60_000);
        pipe.deliver(&announced).unwrap();
    }
    assert_eq!(pipe.incoming.pop_grant(), Some(0));
    assert_eq!(pipe.incoming.pop_grant(), None, "it is beyond the share");
    let mut inbox = inbox_of(&mut pipe.mailbox);
    let expiry = pipe.incoming.on_expire(0, &mut inbox);
    assert!(matches!(expiry, Expiry::Untold(_)));
    assert_eq!(pipe.incoming.pop_grant(), Some(1));
}

/// A long body that nobody asks for, while others pass it, as many as can be told from it.
#[test]
fn a_body_is_granted_and_comes_however_many_messages_have_passed_it() {
    let mut pipe = Pipe::new(1 << 20);
    let long = body(1, 100_000);
    pipe.out.push_body(1, long.into(), None, &WINDOW);
    let (first_id, _) = pipe.out.next_entries(1_300, &WINDOW).unwrap();
    pipe.out.on_entries_arrived(first_id, &mut |_| ());
    let announced = entry(0, EntryMode::Granted, 100_000);
    pipe.deliver(&announced).unwrap();

    pipe.out.pass_ids(MOST_IDS - 2);
    pipe.incoming.pass_ids(MOST_IDS - 2);
    assert!(pipe.out.has_room(1, &WINDOW));
    pipe.out.on_grant(0, 100_000);
    assert!(pipe.out.has_sendable());
    let first = Carried::Fragment(0, 100_000, 0, vec![1; 1_000]);
    pipe.deliver(&first).unwrap();

    pipe.out.pass_ids(1);
    assert!(
        !pipe.out.has_room(1, &WINDOW),
        "the next ones would be taken for it"
    );
}
