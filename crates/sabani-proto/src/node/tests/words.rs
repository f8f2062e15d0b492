//! What leaves first where the driver does not take all that could leave.

use super::*;

/// Two nodes that have a long body for each other, and have heard of each other's.
fn both_with_much_to_send() -> Pair {
    let mut pair = Pair::with(modes()[0].clone(), |config| config.max_datagram = 1_452);
    for from in 0..2 {
        let to = PeerId(1 - from as u32);
        let hello = pair.nodes[from].send_copy(pair.now_ns, to, 1, b"hello", false);
        hello.unwrap();
        pair.carry();
    }
    for from in 0..2 {
        let to = PeerId(1 - from as u32);
        pair.nodes[from].post(Match::any(), None);
        let body = vec![from as u8; 4 << 20];
        let sent = pair.nodes[from].send_copy(pair.now_ns, to, 2, &body, false);
        sent.unwrap();
    }
    pair
}

/// Has both send a train of full datagrams in each turn, for which there is room, and what is shorter before it; more waits
/// behind each. Returns how many were short, and how many full.
fn sent_by_turns(pair: &mut Pair, room: usize) -> [u32; 2] {
    let mut buffer = vec![0; 65_536];
    let mut sent = [0; 2];
    for _ in 0..200 {
        pair.now_ns += 20_000;
        for (from, addr) in ADDRS.iter().enumerate() {
            pair.nodes[from].handle_deadline(pair.now_ns);
            while let Some(train) = pair.nodes[from].poll_transmit(pair.now_ns, &mut buffer[..room])
            {
                let is_full = train.bytes > room / 2;
                sent[usize::from(is_full)] += 1;
                let (addr, bytes) = (addr.parse().unwrap(), &mut buffer[..train.bytes]);
                let to = &mut pair.nodes[1 - from];
                to.handle_datagrams(pair.now_ns, addr, None, train.segment, false, bytes);
                if is_full {
                    break;
                }
            }
        }
    }
    sent
}

#[test]
fn words_about_credit_do_not_wait_for_data_that_wait_for_the_link() {
    let mut pair = both_with_much_to_send();
    let [words, full] = sent_by_turns(&mut pair, 3_000);
    assert!(full > 300, "{full}: data wait for nothing here");
    // Two leave before data where they wait for their turn.
    assert!(words > 15, "{words} words, {full} trains");
}

#[test]
fn where_all_leaves_at_once_words_travel_with_data() {
    let mut pair = both_with_much_to_send();
    let mut buffer = vec![0; 65_536];
    let (mut alone, mut trains) = (0, 0);
    for _ in 0..100 {
        pair.now_ns += 20_000;
        for (from, addr) in ADDRS.iter().enumerate() {
            pair.nodes[from].handle_deadline(pair.now_ns);
            while let Some(train) = pair.nodes[from].poll_transmit(pair.now_ns, &mut buffer) {
                alone += u32::from(train.bytes < 200);
                trains += 1;
                let (addr, bytes) = (addr.parse().unwrap(), &mut buffer[..train.bytes]);
                let to = &mut pair.nodes[1 - from];
                to.handle_datagrams(pair.now_ns, addr, None, train.segment, false, bytes);
            }
        }
    }
    assert!(trains > 100 && 2 * alone < trains, "{alone} of {trains}");
}
