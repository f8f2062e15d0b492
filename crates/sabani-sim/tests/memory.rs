//! How much memory a simulation takes.

use sabani_proto::seal::{Checksum, Mode};
use sabani_sim::{Cable, Network, SEC, Switch};

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// 1,024 hosts that all send to each other are to fit into 8 GiB: this much for each pair.
const FOR_EACH_PAIR: usize = (8 << 30) / (1 << 20);

#[test]
fn many_hosts_that_all_send_to_each_other_take_little_memory() {
    const HOSTS: u32 = 128;
    let mode = Mode::Plain {
        checksum: Checksum::None,
    };
    let before = HEAP.allocated();
    let mut net = Network::mesh(1, HOSTS, &mode, |_| {});
    net.star(&Cable::default(), Switch::default());
    for from in net.host_ids() {
        for to in net.host_ids().filter(|&to| to != from) {
            net.send(from, to, 1_000);
        }
    }
    net.settle(60 * SEC).expect("all arrives");
    let for_each = (HEAP.max_allocated() - before) / (HOSTS * HOSTS) as usize;
    assert!(for_each < FOR_EACH_PAIR, "{for_each} bytes for each pair");
}
