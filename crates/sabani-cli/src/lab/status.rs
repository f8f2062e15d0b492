//! Showing a lab.

use anyhow::{Context, Result};

use super::{
    args::NameArgs,
    down::programs,
    loss::losses,
    names::{Host, Lab},
    ports::Port,
    trunks,
};
use crate::{
    report::text::align,
    tell::{print, say},
    tools,
    units::format_size,
};

/// Runs `sabani lab status`.
///
/// # Errors
/// Without root, or if there is no such lab, or not all of it.
pub fn run(args: &NameArgs) -> Result<()> {
    tools::need_root("")?;
    let lab = &args.lab;
    let hosts = lab.running()?;
    show_hosts(lab, &hosts)?;
    show_trunks(lab)
}

fn show_hosts(lab: &Lab, hosts: &[Host]) -> Result<()> {
    let losses = losses(lab)?;
    let header = [
        "host", "address", "rate", "queue", "loss", "lost", "sent", "dropped", "programs",
    ];
    let mut rows = vec![header.map(String::from).to_vec()];
    for &host in hosts {
        let port = Port::of(lab, host).with_context(|| lab.half_made())?;
        let loss = losses.get(&host).copied().unwrap_or_default();
        rows.push(vec![
            host.to_string(),
            host.address().to_string(),
            port.rate.to_string(),
            format_size(port.queue_bytes as usize),
            format!("{} %", f64::from(loss.ppm) / 1e4),
            loss.packets.to_string(),
            port.packets.to_string(),
            port.dropped.to_string(),
            programs(&lab.namespace(host))?.len().to_string(),
        ]);
    }
    print(align(&rows))
}

fn show_trunks(lab: &Lab) -> Result<()> {
    let groups = trunks::groups(lab)?;
    if groups.is_empty() {
        return Ok(());
    }
    let header = ["trunk", "", "rate", "queue", "sent", "dropped"];
    let mut rows = vec![header.map(String::from).to_vec()];
    for (group, hosts) in groups {
        let of = match hosts[..] {
            [first, .., last] => format!("{first} to {last}"),
            [..] => hosts.iter().map(Host::to_string).collect(),
        };
        for (way, port) in [("from", group.up()), ("to", group.down())] {
            let port = Port::named(lab, &port).with_context(|| lab.half_made())?;
            rows.push(vec![
                format!("{way} {of}"),
                String::new(),
                port.rate.to_string(),
                format_size(port.queue_bytes as usize),
                port.packets.to_string(),
                port.dropped.to_string(),
            ]);
        }
    }
    say(format_args!("\n{}", align(&rows).trim_end()))
}
