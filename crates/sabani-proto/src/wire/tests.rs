//! Round trips, refusals, and bytes that mean nothing.

use super::*;
use crate::PeerId;
use proptest::prelude::*;

fn entry_parts() -> impl Strategy<Value = (u64, u64, u8, Vec<u8>)> {
    let number = || prop_oneof![0..300_u64, any::<u32>().prop_map(u64::from), any::<u64>()];
    let body = prop::collection::vec(any::<u8>(), 0..80);
    (number(), number(), 0..3_u8, body)
}

fn entry<'a>(parts: &'a (u64, u64, u8, Vec<u8>)) -> Entry<'a> {
    let (tag, len, mode, body) = parts;
    let apart = |mode| Entry {
        tag: *tag,
        len: *len,
        mode,
        body: &[],
    };
    match mode {
        0 => Entry {
            len: body.len() as u64,
            body,
            ..apart(EntryMode::Inline)
        },
        1 => apart(EntryMode::Eager),
        _ => apart(EntryMode::Granted),
    }
}

fn ack() -> impl Strategy<Value = Ack> {
    let ranges = prop::collection::vec((1..1_000_u32, 1..1_000_u32), 0..=Frame::MAX_ACK_RANGES);
    (
        100_000..Prelude::MAX_PACKET_NUMBER,
        any::<[u32; 3]>(),
        ranges,
    )
        .prop_map(|(largest, [delay_ns, answers, window], ranges)| Ack {
            largest,
            first_len: 7,
            delay_ns,
            answers,
            window,
            ranges: ranges
                .into_iter()
                .map(|(gap, len)| AckRange { gap, len })
                .collect(),
        })
}

fn terms(n: u64) -> Terms {
    let some = |bit: u32| (n >> bit & 1 == 1).then_some((n >> bit) as u32 & 0x7fff_ffff);
    Terms {
        window_bytes: some(0),
        allowance_bytes: some(1),
        memory_bytes: some(2),
        ack_every: some(3),
        ack_delay_us: some(4),
    }
}

/// Frames that borrow from `log` and `data`.
fn frames<'a>(log: &'a [u8], count: u16, data: &'a [u8], ack: Ack, n: u64) -> Vec<Frame<'a>> {
    vec![
        Frame::Entries(Entries {
            first_id: n as u32,
            count,
            log,
        }),
        Frame::Fragment(Fragment {
            id: n as u32,
            total: (n >> 1) + data.len() as u64,
            offset: n >> 1,
            data,
        }),
        Frame::Ack(ack),
        Frame::Grant(Grant {
            id: n as u32,
            upto: n,
        }),
        Frame::LogLimit(n),
        Frame::Blocked(n),
        Frame::Ping,
        Frame::Close(CloseReason::from_wire(n as u8)),
        Frame::Floor(n),
        Frame::Credit,
        Frame::Request(n),
        Frame::Disconnect(n),
        Frame::PathChallenge(n),
        Frame::PathResponse(n),
        Frame::Expire(n as u32),
        Frame::Marked(n as u32),
        Frame::Arrived(n),
        Frame::Returned(n as u16),
        Frame::Wish {
            number: n as u32,
            terms: terms(n),
        },
        Frame::Terms {
            number: n as u32,
            terms: terms(!n),
        },
    ]
}

impl CloseReason {
    fn from_wire(code: u8) -> Self {
        match code {
            0 => CloseReason::Finished,
            1 => CloseReason::Violation,
            code => CloseReason::Other(code),
        }
    }
}

fn written(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; frames.iter().map(Frame::wire_len).sum()];
    let mut out = Writer::new(&mut bytes);
    for frame in frames {
        let before = out.at;
        frame.write(&mut out);
        assert_eq!(out.at - before, frame.wire_len());
    }
    assert_eq!(out.room(), 0);
    bytes
}

fn parsed(bytes: &[u8]) -> Result<Vec<Frame<'_>>, Malformed> {
    Frames::new(bytes).collect()
}

proptest! {
    #[test]
    fn frames_survive_the_wire(
        parts in prop::collection::vec(entry_parts(), 0..8),
        data in prop::collection::vec(any::<u8>(), 0..200),
        ack in ack(),
        n in any::<u64>(),
        padding in 0..50_usize,
    ) {
        let mut log = Vec::new();
        for parts in &parts {
            entry(parts).append(&mut log);
        }
        let frames = frames(&log, parts.len() as u16, &data, ack, n);
        let mut bytes = written(&frames);
        bytes.resize(bytes.len() + padding, 0);
        let again = parsed(&bytes).unwrap();
        prop_assert_eq!(&again, &frames);
        let Frame::Entries(entries) = &again[0] else { unreachable!() };
        let entries: Result<Vec<_>, _> = entries.iter().collect();
        prop_assert_eq!(entries.unwrap(), parts.iter().map(entry).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let understood: Vec<_> = Frames::new(&bytes).map_while(Result::ok).collect();
        let again = written(&understood);
        prop_assert_eq!(parsed(&again).unwrap(), understood);
        let _ = Prelude::parse(&bytes);
        let _ = Init::parse(&bytes);
        let _ = Reject::parse(&bytes);
        let _ = Hello::decode(&bytes);
    }

    #[test]
    fn a_packet_cut_anywhere_gives_whole_frames_or_an_error(
        data in prop::collection::vec(any::<u8>(), 0..60),
        ack in ack(),
        cut in any::<prop::sample::Index>(),
    ) {
        let frames = frames(&[], 0, &data, ack, 5);
        let bytes = written(&frames);
        let cut = cut.index(bytes.len());
        let good: Vec<_> = Frames::new(&bytes[..cut]).map_while(Result::ok).collect();
        prop_assert_eq!(&good[..], &frames[..good.len()]);
        let len: usize = good.iter().map(Frame::wire_len).sum();
        prop_assert_eq!(parsed(&bytes[..cut]).is_err(), len != cut);
    }

    #[test]
    fn preludes_survive_the_wire(
        kind in 0..5_u8,
        flags in any::<u8>(),
        packet_number in 0..=Prelude::MAX_PACKET_NUMBER,
        connection in any::<u64>(),
    ) {
        let kinds = [Kind::Data, Kind::Init, Kind::Reply, Kind::Cookie, Kind::Reject];
        let prelude = Prelude {
            kind: kinds[usize::from(kind)],
            flags,
            packet_number,
            connection: ConnectionId(connection),
        };
        prop_assert_eq!(Prelude::parse(&prelude.encode()), Ok((prelude, VERSION)));
    }

    #[test]
    fn handshake_messages_survive_the_wire(
        ids in any::<[u32; 2]>(),
        numbers in any::<[u64; 4]>(),
        small in any::<[u32; 4]>(),
        message in prop::collection::vec(any::<u8>(), 0..300),
        sealed in any::<bool>(),
        code in any::<u8>(),
    ) {
        let hello = Hello {
            sender: PeerId(ids[0]),
            receiver: PeerId(ids[1]),
            incarnation: numbers[0],
            connection: ConnectionId(numbers[1]),
            features: numbers[2],
            window: small[0],
            ack_delay_us: small[1],
            log_limit: numbers[3],
            max_datagram: small[2],
            late_ack_us: small[3],
        };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let mut longer = hello.encode().to_vec();
        longer.push(1);
        prop_assert_eq!(Hello::decode(&longer), Ok(hello));
        prop_assert!(Hello::decode(&longer[..Hello::LEN - 1]).is_err());

        let init = Init { versions: (1, code), sealed, cookie: [code; 24], message: &message };
        let mut bytes = vec![0xff; 1_200];
        init.write(&mut Writer::new(&mut bytes));
        prop_assert_eq!(Init::parse(&bytes), Ok(init));
        prop_assert!(Init::parse(&bytes[..Init::HEADER + message.len()]).is_ok());

        let reject = Reject::parse(&[code, 1, 2, sealed.into(), 0, 0, 0, 0]).unwrap();
        prop_assert_eq!(Reject::parse(&reject.encode()), Ok(reject));
    }
}

#[test]
fn unknown_frames_are_skipped() {
    let mut bytes = vec![77, 3, 5, 0, 1, 2, 3, 4, 5];
    bytes.extend(written(&[Frame::Ping]));
    assert_eq!(parsed(&bytes), Ok(vec![Frame::Unknown(77), Frame::Ping]));
    assert!(parsed(&[77, 0, 5, 0, 1]).is_err(), "but not if cut short");
}

#[test]
fn known_frames_may_be_longer_in_later_versions() {
    let mut bytes = written(&[Frame::LogLimit(9)]);
    bytes[2] += 4;
    bytes.extend([1, 2, 3, 4]);
    assert_eq!(parsed(&bytes), Ok(vec![Frame::LogLimit(9)]));
}

#[test]
fn absurd_acknowledgements_are_refused() {
    let refused = |largest: u64, first_len: u32, ranges: &[(u32, u32)]| {
        let range = |&(gap, len): &(u32, u32)| AckRange { gap, len };
        let ack = Ack {
            largest,
            first_len,
            ranges: ranges.iter().map(range).collect(),
            ..Ack::default()
        };
        parsed(&written(&[Frame::Ack(ack)])).is_err()
    };
    assert!(!refused(5, 6, &[]));
    assert!(!refused(5, 1, &[(2, 3)]));
    assert!(refused(5, 7, &[]), "below packet 0");
    assert!(refused(5, 0, &[]), "an empty run");
    assert!(refused(5, 1, &[(0, 1)]), "no gap");
    assert!(refused(5, 1, &[(1, 0)]), "an empty range");
    assert!(refused(5, 1, &[(2, 4)]), "below packet 0 in a range");
    assert!(refused(u64::MAX, 1, &[]), "no packet has this number");
    assert!(refused(1 << 40, 1, &[(1, 1); 33]), "more than is ever sent");
    assert!(refused(1 << 20, 1, &[(u32::MAX, u32::MAX)]));
}

#[test]
fn fragments_stay_inside_their_message() {
    let refused = |total, offset| {
        let data = &[1, 2, 3];
        let fragment = Fragment {
            id: 1,
            total,
            offset,
            data,
        };
        parsed(&written(&[Frame::Fragment(fragment)])).is_err()
    };
    assert!(!refused(10, 7));
    assert!(refused(10, 8));
    assert!(refused(u64::MAX, u64::MAX - 1), "the end overflows");
}

#[test]
fn entries_are_checked() {
    let first = |log: &[u8]| {
        let entries = Entries {
            first_id: 0,
            count: 1,
            log,
        };
        entries.iter().next().unwrap().map(|entry| entry.len)
    };
    assert_eq!(first(&[0, 7, 1, 9]), Ok(1));
    assert!(first(&[0, 7, 2, 9]).is_err(), "body cut short");
    assert!(first(&[0x30, 7, 1, 9]).is_err(), "unknown mode");
    let long = [&[0b0100, 7, 0x31, 4][..], &[0; 1_073]].concat();
    assert!(first(&long).is_err(), "too long to be inline");
}

#[test]
fn other_versions_are_named_but_not_understood() {
    let mut bytes = [0; Prelude::LEN];
    bytes[0] = 0x20;
    assert!(Prelude::parse(&bytes).is_err(), "data");
    bytes[0] = 0x21;
    assert_eq!(Prelude::parse(&bytes).unwrap().1, 2, "an Init");
    bytes[0] = 0x15;
    assert!(Prelude::parse(&bytes).is_err(), "unknown kind");
}
