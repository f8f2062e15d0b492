//! The packet parser: any bytes are refused or understood, and what was understood survives being
//! written and parsed again.

use sabani_proto::wire::{EntryMode, Frame, Frames, Hello, Init, Malformed, Prelude, Reject};

use crate::encode::{self, Fields};
use crate::rng::Rng;
use crate::script::Script;

/// Parses `data` as everything that it could be.
pub fn run(data: &[u8]) {
    prelude(data);
    frames(data);
    if let Some(body) = data.get(Prelude::LEN..) {
        frames(body);
        if let Ok(init) = Init::parse(body) {
            assert!(init.message.len() <= body.len() - Init::HEADER);
        }
        if let Ok(reject) = Reject::parse(body) {
            assert_eq!(Reject::parse(&reject.encode()), Ok(reject));
        }
    }
    if let Ok(hello) = Hello::decode(data) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
}

fn prelude(data: &[u8]) {
    let Ok((prelude, version)) = Prelude::parse(data) else {
        return;
    };
    let mut bytes = prelude.encode();
    assert_eq!(bytes[1..], data[1..Prelude::LEN]);
    bytes[0] = bytes[0] & 0x0f | version << 4;
    assert_eq!(bytes[0], data[0]);
}

fn frames(payload: &[u8]) {
    let parsed: Vec<Result<Frame<'_>, Malformed>> = Frames::new(payload).collect();
    let (good, bad) = match parsed.split_last() {
        Some((Err(_), good)) => (good, 1),
        _ => (&parsed[..], 0),
    };
    assert!(
        good.iter().all(Result::is_ok),
        "went on behind a malformed frame"
    );
    let good: Vec<_> = good.iter().flatten().collect();
    let mut again = Vec::new();
    for frame in &good {
        let before = again.len();
        encode::again(frame, &mut again);
        assert_eq!(again.len() - before, frame.wire_len());
        if let Frame::Entries(entries) = frame {
            let body: usize = entries.iter().flatten().map(|entry| entry.body.len()).sum();
            assert!(body <= entries.log.len());
        }
    }
    let reparsed: Vec<_> = Frames::new(&again).collect();
    assert_eq!(good.len() + bad, parsed.len());
    assert!(reparsed.iter().flatten().eq(good), "frames changed");
}

/// A valid packet of random frames.
pub fn begin(rng: &mut Rng) -> Vec<u8> {
    let random = rng.bytes(256);
    let mut script = Script(&random);
    let mut out = encode::prelude(script.below(5) as u8, script.byte(), script.number(0), 7);
    for _ in 0..=script.below(6) {
        frame(&mut script, &mut out);
    }
    match rng.below(4) {
        0 => out.drain(..Prelude::LEN).for_each(drop),
        1 => out = encode::hello(1, 2, rng.draw()).encode().to_vec(),
        2 => out = encode::init(rng.draw(), true, &random[..112]),
        _ => {}
    }
    out
}

fn frame(script: &mut Script<'_>, out: &mut Vec<u8>) {
    let any = script.number(1 << 20);
    let fields = Fields::default();
    let (kind, body) = match script.below(10) {
        1 => {
            let entry = encode::entry(EntryMode::Inline, any, 3, b"abc");
            (1, fields.u32(any as u32).u32(2).bytes(&entry).bytes(&entry))
        }
        2 => (
            2,
            fields.u32(any as u32).u64(1 << 20).u64(100).bytes(&[5; 40]),
        ),
        3 => {
            let ack = fields.u64(1 << 20).u32(5).u32(any as u32).u64(any);
            (3, ack.u32(1).u32(7).u32(100).u32(1))
        }
        4 => (4, fields.u32(any as u32).u64(any)),
        8 => (8, fields.u32(any as u32)),
        other => (other as u8 + 5, fields.u64(any)),
    };
    encode::frame(kind, &body.0, out);
}
