//! How many events per second the simulator handles: 50 hosts in full exchange, sealed.

use std::time::Instant;

use sabani_sim::{Network, SEC, sealed};

fn main() -> Result<(), sabani_sim::Failure> {
    let mut net = Network::mesh(1, 50, &sealed(), |_| {});
    for from in net.host_ids() {
        for to in net.host_ids().filter(|&to| to != from) {
            net.send(from, to, 50_000);
        }
    }
    let began = Instant::now();
    net.settle(SEC)?;
    let seconds = began.elapsed().as_secs_f64();
    let rate = net.events() as f64 / seconds;
    println!(
        "{} events in {seconds:.2} s: {rate:.0} events/s",
        net.events()
    );
    Ok(())
}
