//! What the switch's ports have done.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{
    args::Rate,
    names::{Host, Lab},
};
use crate::tools;

/// A port's settings and counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port {
    /// What it sends at most.
    pub rate: Rate,
    /// What its queue holds, in bytes.
    pub queue_bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
}

/// What `tc` says of a queue.
#[derive(Deserialize)]
struct Queue {
    kind: String,
    #[serde(default)]
    options: Options,
    packets: u64,
    drops: u64,
}

#[derive(Default, Deserialize)]
struct Options {
    #[serde(default)]
    limit: u64,
}

impl Port {
    /// Asks a lab's switch about its port towards a host.
    ///
    /// # Errors
    /// If it can't be asked, or has no such port.
    pub fn of(lab: &Lab, host: Host) -> Result<Self> {
        Self::named(lab, &host.port())
    }

    /// Asks a lab's switches about one of their ports.
    ///
    /// # Errors
    /// If they can't be asked, or none has such a port.
    pub fn named(lab: &Lab, port: &str) -> Result<Self> {
        let ask = |what: &str| {
            let switch = lab.switch();
            tools::run("tc", &format!("-n {switch} -s -j {what} show dev {port}"))
        };
        parse(&ask("qdisc")?, &ask("class")?)
    }
}

/// Queues come as JSON; classes as text, whatever is asked for.
fn parse(queues: &str, classes: &str) -> Result<Port> {
    let queues: Vec<Queue> = serde_json::from_str(queues).context("cannot understand `tc`")?;
    let queue = queues.into_iter().find(|queue| queue.kind == "bfifo");
    let queue = queue.context("the switch's port has no queue")?;
    let mut words = classes.split_whitespace();
    let rate = words
        .by_ref()
        .find(|word| *word == "rate")
        .and(words.next());
    Ok(Port {
        rate: rate.context("the switch's port has no rate")?.parse()?,
        queue_bytes: queue.options.limit,
        packets: queue.packets,
        dropped: queue.drops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: &str = r#"[{"kind":"htb","handle":"1:","root":true,"refcnt":3,"options":{"r2q":10,
        "default":"0x1","direct_packets_stat":0,"direct_qlen":1000},"bytes":1514,"packets":1,"drops":0,
        "overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"bfifo","handle":"80ef:","parent":"1:1",
        "options":{"limit":65536},"bytes":3028,"packets":2,"drops":7,"overlimits":0,"requeues":0,
        "backlog":0,"qlen":0}]"#;
    const CLASSES: &str = "class htb 1:1 root leaf 80ef: prio 0 rate 2500Mbit ceil 2500Mbit burst \
        3000b cburst 3000b \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n";

    #[test]
    fn reads_what_tc_says() {
        let expected = Port {
            rate: Rate(2_500_000_000),
            queue_bytes: 65_536,
            packets: 2,
            dropped: 7,
        };
        assert_eq!(parse(QUEUES, CLASSES).unwrap(), expected);
        assert!(parse(&QUEUES.replace("bfifo", "noqueue"), CLASSES).is_err());
        assert!(parse(QUEUES, "").is_err());
        assert!(parse("Sent 0 bytes", CLASSES).is_err());
    }
}
