//! What the host of many ranks takes. A process of its own: nothing else takes memory meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use sabani_launch::rendezvous::Host;

const RANKS: u32 = 300;

/// The most that this process has taken so far, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

/// As postcard writes numbers.
fn varint(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [varint(text.len() as u32), text.into()].concat()
}

fn frame(parts: &[Vec<u8>]) -> Vec<u8> {
    let bytes = parts.concat();
    [(bytes.len() as u32).to_le_bytes().to_vec(), bytes].concat()
}

#[test]
fn what_all_tell_all_at_a_fence_is_there_once() {
    let mut host = Host::of_children(RANKS, "00".repeat(32));
    let value = "x".repeat(1_000);
    let mut ends = Vec::new();
    for rank in 0..RANKS {
        let mut end = host.add_child(rank).unwrap();
        let join = frame(&[vec![0], varint(rank), varint(RANKS)]);
        let put = frame(&[vec![1], text("card"), text(&value)]);
        let fence = frame(&[vec![2]]);
        end.write_all(&[join, put, fence].concat()).unwrap();
        ends.push(end);
    }
    let before = peak();
    host.progress();
    let taken = peak() - before;
    // 300 KB of values for each of 300 ranks would be 90 MB.
    assert!(taken < 16 << 10, "it took {taken} KiB");

    // And each hears all of it.
    let end = &mut ends[7];
    end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut heard, mut piece) = (0, [0; 1 << 14]);
    while heard < (RANKS * 1_000) as usize {
        heard += end.read(&mut piece).expect("there is more to hear");
        host.progress();
    }
}
