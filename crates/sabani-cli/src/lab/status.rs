//! Showing a lab.

use anyhow::Result;

use super::{
    args::{NameArgs, Rate},
    down::programs,
    loss::losses,
    ports::Port,
};
use crate::tools;

/// Runs `sabani lab status`.
///
/// # Errors
/// Without root, or if there is no such lab.
pub fn run(args: &NameArgs) -> Result<()> {
    tools::need_root("")?;
    let lab = &args.lab;
    let hosts = lab.running()?;
    let losses = losses(lab)?;
    println!(
        "{:<6}{:<14}{:>9}{:>10}{:>9}{:>12}{:>10}{:>10}",
        "host", "address", "rate", "queue", "loss", "sent", "dropped", "programs"
    );
    for host in hosts {
        let port = Port::of(lab, host)?;
        let loss = losses.get(&host).copied().unwrap_or(0);
        println!(
            "{:<6}{:<14}{:>9}{:>10}{:>9}{:>12}{:>10}{:>10}",
            host.to_string(),
            host.address().to_string(),
            Rate(port.rate).to_string(),
            format!("{:.0} KiB", port.queue_bytes as f64 / 1024.0),
            format!("{} %", f64::from(loss) / 1e4),
            port.packets,
            port.dropped,
            programs(&lab.namespace(host)).len(),
        );
    }
    Ok(())
}
