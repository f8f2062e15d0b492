//! Probes between the hosts of a simulated network, in virtual time.

use anyhow::{Context, Result};
use sabani::{Congestion, PeerId};
use sabani_model::measure::{Label, Outcome, Part, Probe, Seen, Traffic};
use sabani_sim::traffic::Reading;
use sabani_sim::{HostId, MS, Network, SEC};

use super::{any_probe, tag_of};

/// A probe in which for so long nothing is sent and nothing comes has failed. All of it may take longer, where links are slow.
const PATIENCE_NS: u64 = 120 * SEC;
/// What is left under way when a probe ends has ended by then.
const REST_NS: u64 = 5 * MS;

/// Runs a probe: host `i` is host `i`.
///
/// # Errors
/// If it does not come to its end.
pub fn run(net: &mut Network, probe: &Probe) -> Result<Outcome> {
    let hosts: Vec<HostId> = net.host_ids().collect();
    let began_ns = net.now_ns();
    let lost_before = lost_packets(net, &hosts);
    prepare(net, probe);
    let part = |host: &HostId| Part::new(probe, host.0 as usize, began_ns);
    let mut parts: Vec<Part> = hosts.iter().map(part).collect();
    let wanted = any_probe();
    let body = vec![0; probe.flows.iter().map(|flow| flow.bytes).max().unwrap_or(0)];
    for (&host, part) in hosts.iter().zip(&parts) {
        net.host(host).program.reading = Reading::Nothing;
        net.kick(host);
        if let Some(deadline_ns) = part.deadline_ns() {
            net.at(deadline_ns, move |net| net.kick(host));
        }
    }
    let mut went_on_ns = began_ns;
    while !parts.iter().all(Part::is_done) {
        let turn = net.next_turn(went_on_ns + PATIENCE_NS);
        let host = turn.context("a probe was not done in time")?;
        let now_ns = net.now_ns();
        let part = &mut parts[host.0 as usize];
        let clock_ns = net.host(host).clock.read(now_ns);
        let node = net.host(host).node();
        let mut did = false;
        while let Some(message) = node.try_take(&wanted) {
            part.handle(Label(message.tag as u32), now_ns, 0);
            did = true;
        }
        loop {
            let waiting = |host: usize| {
                let stats = node.peer_stats(PeerId(host as u32));
                stats.map_or(0, |stats| stats.queued_messages as usize)
            };
            let Some(send) = part.poll(now_ns, waiting) else {
                break;
            };
            let (peer, tag) = (PeerId(send.to as u32), tag_of(send.label));
            let bytes = &body[..send.bytes];
            if node.send_copy(clock_ns, peer, tag, bytes, false).is_err() {
                break;
            }
            part.sent(&send, now_ns, 0);
            did = true;
        }
        if did {
            went_on_ns = now_ns;
            net.kick(host);
        }
    }
    let took_ns = net.now_ns() - began_ns;
    net.run_for(REST_NS);
    let mut seen = vec![Seen::Trips(Vec::new()); probe.flows.len()];
    for (flow, of_flow) in parts.into_iter().flat_map(Part::seen) {
        seen[flow] = of_flow;
    }
    Ok(Outcome {
        seen,
        lost_packets: lost_packets(net, &hosts) - lost_before,
        took_ns,
    })
}

/// What all of them have found lost so far.
fn lost_packets(net: &mut Network, hosts: &[HostId]) -> u64 {
    let of = |host: &HostId| net.host(*host).node().stats().counters.packets_lost;
    hosts.iter().map(of).sum()
}

/// Gives way to others, or not, as the probe wants it.
fn prepare(net: &mut Network, probe: &Probe) {
    let now_ns = net.now_ns();
    for flow in &probe.flows {
        let kind = match flow.traffic {
            Traffic::Stream { yields: true, .. } => Congestion::Cubic,
            _ => Congestion::None,
        };
        let host = net.host(HostId(flow.from as u32));
        let clock_ns = host.clock.read(now_ns);
        let peer = PeerId(flow.to as u32);
        let set = host.node().set_congestion(clock_ns, peer, Some(kind));
        set.expect("all hosts know each other");
    }
}
