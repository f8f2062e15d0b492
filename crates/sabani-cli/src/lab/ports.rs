//! What the switch's ports have done.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::names::{Host, Lab};
use crate::tools;

/// A port's settings and counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port {
    /// Bits per second.
    pub rate: u64,
    /// What its queue holds, in bytes.
    pub queue_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, with Ethernet headers.
    pub bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
}

/// What `tc` says of a queue.
#[derive(Deserialize)]
struct Queue {
    kind: String,
    #[serde(default)]
    options: Options,
    bytes: u64,
    packets: u64,
    drops: u64,
}

/// The rate is in bytes per second, the latency that its limit stands for in µs.
#[derive(Default, Deserialize)]
struct Options {
    #[serde(default)]
    rate: u64,
    #[serde(default)]
    burst: u64,
    #[serde(default)]
    lat: u64,
}

impl Port {
    /// Asks the switch about its port towards a host.
    ///
    /// # Errors
    /// If it can't be asked, or has no such port.
    pub fn of(lab: &Lab, host: Host) -> Result<Self> {
        let arguments = format!("-n {} -s -j qdisc show dev {}", lab.switch(), host.port());
        parse(&tools::run("tc", &arguments)?)
    }
}

fn parse(text: &str) -> Result<Port> {
    let queues: Vec<Queue> = serde_json::from_str(text).context("cannot understand `tc`")?;
    let queue = queues.into_iter().find(|queue| queue.kind == "tbf");
    let queue = queue.context("the switch's port has no queue")?;
    let Options { rate, burst, lat } = queue.options;
    Ok(Port {
        rate: rate * 8,
        queue_bytes: rate * lat / 1_000_000 + burst,
        packets: queue.packets,
        bytes: queue.bytes,
        dropped: queue.drops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"[{"kind":"tbf","handle":"8055:","root":true,"refcnt":3,
        "options":{"rate":125000000,"burst":1500,"lat":512},"bytes":3028,"packets":2,"drops":7,
        "overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;

    #[test]
    fn reads_what_tc_says() {
        let expected = Port {
            rate: 1_000_000_000,
            queue_bytes: 65_500,
            packets: 2,
            bytes: 3028,
            dropped: 7,
        };
        assert_eq!(parse(SAID).unwrap(), expected);
        assert!(parse(&SAID.replace("tbf", "noqueue")).is_err());
        assert!(parse("Sent 0 bytes").is_err());
    }
}
