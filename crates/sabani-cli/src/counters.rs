//! What the system counts in this network namespace.

use std::fs;

use anyhow::{Context, Result};

/// A file of counters: for each protocol a line of names and a line of figures.
pub struct Counters {
    file: &'static str,
    text: String,
}

impl Counters {
    /// Counters of RFC 1213 and the like, as they are now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn snmp() -> Result<Self> {
        Self::read("/proc/thread-self/net/snmp")
    }

    /// Linux's own, as they are now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn netstat() -> Result<Self> {
        Self::read("/proc/thread-self/net/netstat")
    }

    fn read(file: &'static str) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        Ok(Self { file, text })
    }

    /// One of a protocol's counters.
    ///
    /// # Errors
    /// If there is no such one.
    pub fn figure(&self, protocol: &str, name: &str) -> Result<u64> {
        let of_protocol = |line: &'_ str| {
            let (title, rest) = line.split_once(": ")?;
            (title == protocol).then(|| rest.to_owned())
        };
        let mut lines = self.text.lines().filter_map(of_protocol);
        let (names, figures) = (lines.next(), lines.next());
        let missing = || format!("no {name} of {protocol} in {}", self.file);
        let (names, figures) = names.zip(figures).with_context(missing)?;
        let mut pairs = names.split(' ').zip(figures.split(' '));
        let found = pairs.find(|(known, _)| *known == name);
        Ok(found.with_context(missing)?.1.parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_their_names() {
        let counters = |text: &str| Counters {
            file: "a file",
            text: text.into(),
        };
        let text = "Ip: Forwarding\nIp: 1\nTcp: MaxConn OutSegs RetransSegs\nTcp: -1 90 10\nTcpExt: X\nTcpExt: 3\n";
        let figure = |protocol, name| counters(text).figure(protocol, name).ok();
        assert_eq!(figure("Tcp", "OutSegs"), Some(90));
        assert_eq!(figure("Tcp", "RetransSegs"), Some(10));
        assert_eq!(figure("TcpExt", "X"), Some(3));
        for (protocol, name) in [("Tcp", "X"), ("Udp", "OutSegs"), ("Tcp", "MaxConn")] {
            assert_eq!(figure(protocol, name), None);
        }
        assert!(counters("").figure("Tcp", "OutSegs").is_err());
    }

    #[test]
    fn this_system_counts_what_is_asked_for() {
        assert!(Counters::snmp().unwrap().figure("Tcp", "OutSegs").is_ok());
        let netstat = Counters::netstat().unwrap();
        assert!(netstat.figure("TcpExt", "TCPTimeouts").is_ok());
    }
}
