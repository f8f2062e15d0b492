//! Addresses as people write them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use anyhow::{Result, anyhow, bail};

use crate::exit::Usage;

/// Finds the address that the option `--to` names: `HOST:PORT`, or `HOST` with a default port.
///
/// # Errors
/// [`Usage`], if there is no such host or port.
pub fn resolve(to: &str, default_port: u16) -> Result<SocketAddr> {
    if let Some((ip, port)) = unbracketed(to) {
        let problem = format!(
            "`--to {to}`: is {port} the port? Write `[{ip}]:{port}`, or `[{to}]` if it is part of the address"
        );
        return Err(Usage(problem).into());
    }
    let (host, port) = divide(to);
    if host.is_empty() {
        let problem = format!("`--to {to}` names no host: expected HOST or HOST:PORT");
        return Err(Usage(problem).into());
    }
    let port = match port {
        Some(port) => parse_port(port).filter(|&port| port > 0).ok_or_else(|| {
            Usage(format!(
                "`--to {to}`: nobody can be reached at port `{port}`: name one from 1 to 65,535"
            ))
        })?,
        None => default_port,
    };
    let unknown = |why: String| {
        Usage(format!(
            "`--to {to}`: no address is found for `{host}`{why}: is the name right? `getent hosts` asks \
             for it, too"
        ))
    };
    let found = (host, port).to_socket_addrs();
    let mut found = found.map_err(|error| unknown(format!(" ({error})")))?;
    let found = found.next().map(canonical);
    let found = found.ok_or_else(|| unknown(String::new()))?;
    Ok(reachable(found).map_err(|error| Usage(format!("`--to {to}`: {error}")))?)
}

/// Reads an address of this machine, with a port; for the command line.
///
/// # Errors
/// If it is none.
pub fn parse_local(text: &str) -> Result<SocketAddr> {
    if let (_, Some(port)) = divide(text) {
        parse_port(port)
            .ok_or_else(|| anyhow!("`{port}` is no port: ports are numbers up to 65,535"))?;
    }
    let example = "expected an address and a port, as in 0.0.0.0:7000, [::]:0 or [fe80::1%eth0]:0";
    let found = text.parse().ok().or_else(|| scoped(text));
    let found = found.map(canonical).ok_or_else(|| anyhow!(example))?;
    reachable(found)
}

/// An address of one link is of no use without its interface.
fn reachable(addr: SocketAddr) -> Result<SocketAddr> {
    match addr {
        SocketAddr::V6(addr) if addr.ip().is_unicast_link_local() && addr.scope_id() == 0 => bail!(
            "{} is the address of one interface: name it, as in [{0}%eth0]:{}; `ip -6 address` shows which has it",
            addr.ip(),
            addr.port()
        ),
        _ => Ok(addr),
    }
}

/// An IPv6 address with the name of an interface, which the system looks up as it does names.
fn scoped(text: &str) -> Option<SocketAddr> {
    let (host, port) = divide(text);
    let (ip, _) = host.split_once('%')?;
    ip.parse::<Ipv6Addr>().ok()?;
    (host, parse_port(port?)?).to_socket_addrs().ok()?.next()
}

/// The address in the notation of its own version of IP: `::ffff:a.b.c.d` is an IPv4 address.
fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => (ip, addr.port()).into(),
        // As it was: an IPv6 address may have a scope.
        IpAddr::V6(_) => addr,
    }
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok()
}

/// An IPv6 address, and what looks like a port behind it, without the brackets that tell them apart. So do the last
/// four digits of some addresses look; those with brackets don't.
fn unbracketed(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let (ip, _) = host.split_once('%').unwrap_or((host, ""));
    ip.parse::<Ipv6Addr>().ok()?;
    let is_port = port.len() >= 4 && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some((host, port))
}

/// Host and port. An IPv6 address with a port has brackets, and may have them without.
fn divide(text: &str) -> (&str, Option<&str>) {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match (bracketed, text.split_once(':')) {
        (Some((host, rest)), _) => (host, rest.strip_prefix(':')),
        (None, Some((host, port))) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_may_be_left_out() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:7"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("::1", "[::1]:7"),
            ("[::1]", "[::1]:7"),
            ("[::1]:9", "[::1]:9"),
            ("[fe80::1%1]:9", "[fe80::1%1]:9"),
            ("::ffff:127.0.0.1", "127.0.0.1:7"),
            ("[::ffff:127.0.0.1]:9", "127.0.0.1:9"),
        ] {
            assert_eq!(resolve(text, 7).unwrap().to_string(), expected);
        }
        for text in ["", ":7226"] {
            let error = resolve(text, 7).unwrap_err();
            assert!(error.is::<Usage>(), "{error}");
        }
        let error = resolve("[fe80::1]:7000", 7).unwrap_err();
        let said = error.to_string();
        assert!(
            error.is::<Usage>() && said.contains("[fe80::1%eth0]:7000"),
            "{said}"
        );
        let error = resolve("a..b", 7).unwrap_err();
        let said = error.to_string();
        assert!(
            error.is::<Usage>() && said.contains("found for `a..b`"),
            "{said}"
        );
    }

    #[test]
    fn a_port_behind_an_address_without_brackets_is_told_with_them() {
        for (text, cure) in [
            ("::1:7400", "`[::1]:7400`"),
            ("2001:db8::1:17400", "`[2001:db8::1]:17400`"),
            ("fe80::1%lo:7400", "`[fe80::1%lo]:7400`"),
        ] {
            let error = resolve(text, 7).unwrap_err();
            let said = error.to_string();
            assert!(error.is::<Usage>() && said.contains(cure), "{said}");
        }
        for (text, expected) in [
            ("[::1:7400]", "[::1:7400]:7"),
            ("2001:db8::1:2", "[2001:db8::1:2]:7"),
            ("2001:db8:1:2:3:4:5:7400", "[2001:db8:1:2:3:4:5:7400]:7"),
        ] {
            assert_eq!(resolve(text, 7).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_wrong_with_a_port_is_said() {
        for text in [
            "127.0.0.1:99999",
            "[::1]:65536",
            "localhost:",
            "localhost:0",
            "localhost:http",
        ] {
            let error = resolve(text, 7).unwrap_err();
            let said = error.to_string();
            assert!(
                error.is::<Usage>() && said.starts_with("`--to ") && said.contains("1 to 65,535"),
                "{said}"
            );
        }
    }

    #[test]
    fn local_addresses_have_a_port() {
        assert_eq!(parse_local("[::]:0").unwrap().to_string(), "[::]:0");
        let mapped = parse_local("[::ffff:127.0.0.1]:0").unwrap();
        assert_eq!(mapped.to_string(), "127.0.0.1:0");
        let named = parse_local("[fe80::1%lo]:9").unwrap();
        assert!(
            matches!(named, SocketAddr::V6(addr) if addr.scope_id() > 0),
            "{named}"
        );
        for (text, said) in [
            ("0.0.0.0:70000", "65,535"),
            ("7000", "0.0.0.0:7000"),
            ("::1", "[::]:0"),
            ("[fe80::1]:7300", "[fe80::1%eth0]:7300"),
        ] {
            let error = parse_local(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
