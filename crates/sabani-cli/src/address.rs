//! Addresses as people write them.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result};

/// Finds the address of `HOST:PORT`, or of `HOST` with a default port.
///
/// # Errors
/// If there is no such host.
pub fn resolve(text: &str, default_port: u16) -> Result<SocketAddr> {
    let found = match text.to_socket_addrs() {
        Ok(found) => Ok(found),
        Err(_) => (text.trim_matches(['[', ']']), default_port).to_socket_addrs(),
    };
    let mut found = found.with_context(|| format!("finding the address of {text}"))?;
    found
        .next()
        .with_context(|| format!("{text} has no address"))
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
        ] {
            assert_eq!(resolve(text, 7).unwrap().to_string(), expected);
        }
        assert!(resolve("", 7).is_err());
    }
}
