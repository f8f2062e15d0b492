//! What everything in a lab is called. Nothing else remembers a lab.

use std::{fmt, fs, io, net::Ipv4Addr, path::PathBuf, str::FromStr};

use anyhow::{Context, Error, Result, ensure};

use crate::exit::Usage;

/// As many as one byte of their addresses tells apart.
pub const MAX_HOSTS: u16 = 250;
const MAX_NAME_CHARS: usize = 32;
/// Where `ip netns` keeps namespaces, and what it lays over `/etc` inside them.
const NAMESPACES: &str = "/run/netns";
pub const OVERLAYS: &str = "/etc/netns";

/// A lab's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab(String);

impl FromStr for Lab {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            (1..=MAX_NAME_CHARS).contains(&text.len()) && text.chars().all(plain),
            "a lab's name has up to {MAX_NAME_CHARS} lower-case letters, digits and hyphens"
        );
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Lab {
    /// The namespace that the switch is in.
    pub fn switch(&self) -> String {
        format!("sabani-{self}-switch")
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: Host) -> String {
        format!("sabani-{self}-{}", host.0)
    }

    /// The folder of files that a host sees in `/etc`.
    pub fn overlay(&self, host: Host) -> PathBuf {
        PathBuf::from(OVERLAYS).join(self.namespace(host))
    }

    /// Whether there is anything of this lab.
    ///
    /// # Errors
    /// If the namespaces can't be listed.
    pub fn exists(&self) -> Result<bool> {
        Ok(is_namespace(&self.switch())? || !self.hosts()?.is_empty())
    }

    /// The hosts that there is anything of, in order.
    ///
    /// # Errors
    /// If the namespaces can't be listed.
    pub fn hosts(&self) -> Result<Vec<Host>> {
        let mut hosts: Vec<Host> = [NAMESPACES, OVERLAYS]
            .into_iter()
            .map(list)
            .collect::<Result<Vec<_>>>()?
            .concat()
            .iter()
            .filter_map(|name| self.host_of(name))
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        Ok(hosts)
    }

    /// The hosts of a lab that is complete.
    ///
    /// # Errors
    /// If there is no such lab.
    pub fn running(&self) -> Result<Vec<Host>> {
        let hosts = self.hosts()?;
        let what = match (hosts.is_empty(), is_namespace(&self.switch())?) {
            (false, true) => return Ok(hosts),
            (true, false) => {
                format!("there is no lab `{self}`: make one with `sabani lab up --name {self}`")
            }
            (true, true) | (false, false) => self.half_made(),
        };
        Err(Usage(what).into())
    }

    /// What to say of a lab of which something is missing.
    pub fn half_made(&self) -> String {
        format!(
            "of the lab `{self}` something is missing: `sabani lab down --name {self}` removes what is there"
        )
    }

    /// Makes sure that the lab has this host.
    ///
    /// # Errors
    /// If it has not.
    pub fn check(&self, host: Host) -> Result<()> {
        if !self.running()?.contains(&host) {
            let what = format!(
                "the lab `{self}` has no host {host}: see `sabani lab status --name {self}`"
            );
            return Err(Usage(what).into());
        }
        Ok(())
    }

    fn host_of(&self, namespace: &str) -> Option<Host> {
        let rest = namespace.strip_prefix(&format!("sabani-{self}-"))?;
        let host = Host(rest.parse().ok()?);
        // `01` is not what a host is called.
        (self.namespace(host) == namespace).then_some(host)
    }
}

/// One host: the n-th, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host(pub u16);

impl FromStr for Host {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.strip_prefix('h').unwrap_or(text).parse();
        let number = number.context("a host is called h1, h2 and so on")?;
        ensure!(
            (1..=MAX_HOSTS).contains(&number),
            "hosts go from h1 to h{MAX_HOSTS}"
        );
        Ok(Self(number))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl Host {
    /// Its address. Labs don't see each other, so all of them use the same.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, 0, self.0 as u8)
    }

    /// Its hardware address.
    pub fn hardware_address(self) -> String {
        format!("02:00:00:00:00:{:02x}", self.0)
    }

    /// The switch's interface towards it.
    pub fn port(self) -> String {
        format!("port{}", self.0)
    }
}

fn list(folder: &str) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {folder}"))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// Whether there is a namespace of this name.
///
/// # Errors
/// If the namespaces can't be listed.
pub fn is_namespace(name: &str) -> Result<bool> {
    Ok(list(NAMESPACES)?.iter().any(|found| found == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_do_not_take_each_others_hosts() {
        let (a, b): (Lab, Lab) = ("a".parse().unwrap(), "a-1".parse().unwrap());
        let host = Host(3);
        assert_eq!(a.namespace(host), "sabani-a-3");
        assert_eq!(a.host_of("sabani-a-3"), Some(host));
        assert_eq!(b.host_of(&b.namespace(host)), Some(host));
        for other in [
            b.namespace(host),
            a.switch(),
            b.switch(),
            "sabani-a-03".into(),
            "sabani-a-x".into(),
        ] {
            assert_eq!(a.host_of(&other), None, "{other}");
        }
    }

    #[test]
    fn hosts_are_numbered() {
        assert_eq!("h7".parse::<Host>().unwrap(), Host(7));
        assert_eq!("7".parse::<Host>().unwrap(), Host(7));
        assert_eq!(Host(7).to_string(), "h7");
        assert_eq!(Host(250).hardware_address(), "02:00:00:00:00:fa");
        for wrong in ["h0", "251", "switch", "-1"] {
            assert!(wrong.parse::<Host>().is_err(), "{wrong}");
        }
    }
}
