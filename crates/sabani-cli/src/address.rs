//! Addresses as people write them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU16;

use anyhow::{Context, Result, anyhow};

use crate::exit::Usage;

/// Finds the address of `HOST:PORT`, or of `HOST` with a default port.
///
/// # Errors
/// If there is no such host or port.
pub fn resolve(text: &str, default_port: u16) -> Result<SocketAddr> {
    let (host, port) = divide(text);
    let port = match port {
        Some(port) => port
            .parse::<NonZeroU16>()
            .map_err(|_| wrong_port(port))?
            .get(),
        None => default_port,
    };
    let found = (host, port).to_socket_addrs();
    let mut found = found.with_context(|| format!("finding the address of {host}"))?;
    found
        .next()
        .with_context(|| format!("{host} has no address"))
}

/// Reads an address of this machine, with a port; for the command line.
///
/// # Errors
/// If it is none.
pub fn parse_local(text: &str) -> Result<SocketAddr> {
    if let (_, Some(port)) = divide(text) {
        port.parse::<u16>().map_err(|_| wrong_port(port))?;
    }
    let example = "expected an address and a port, as in 0.0.0.0:7000 or [::]:0";
    text.parse().map_err(|_| anyhow!(example))
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

fn wrong_port(port: &str) -> Usage {
    Usage(format!(
        "`{port}` is no port: ports are numbers up to 65,535"
    ))
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
        ] {
            assert_eq!(resolve(text, 7).unwrap().to_string(), expected);
        }
        assert!(resolve("", 7).is_err());
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
            assert!(
                error.is::<Usage>() && error.to_string().contains("65,535"),
                "{text}"
            );
        }
    }

    #[test]
    fn local_addresses_have_a_port() {
        assert_eq!(parse_local("[::]:0").unwrap().to_string(), "[::]:0");
        for (text, said) in [
            ("0.0.0.0:70000", "65,535"),
            ("7000", "0.0.0.0:7000"),
            ("::1", "[::]:0"),
        ] {
            let error = parse_local(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
