//! Cookies against floods of handshakes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use aws_lc_rs::{constant_time, hmac};

use super::Entropy;

/// Bytes of a cookie: its period's low byte, and the code.
const COOKIE_LEN: usize = 24;

/// How long a new cookie is issued before the next one.
const PERIOD_NS: u64 = 60_000_000_000;

/// Makes and checks cookies without remembering any.
///
/// While a node is flooded with first messages it answers them with a cookie, and goes on only with
/// those that bring it back: their sender can be reached at the address it claims. A cookie holds for
/// one address and one message 1, for at least 60 s and less than 120 s after it was issued: the
/// period (a minute) is part of what it authenticates, which limits its life as a new secret every
/// minute would, and needs no state that changes.
pub struct CookieJar {
    secret: hmac::Key,
}

impl CookieJar {
    /// Bytes of a cookie.
    pub const COOKIE_LEN: usize = COOKIE_LEN;

    /// A jar with a new secret; cookies of other jars don't pass.
    pub fn new(entropy: &mut Entropy) -> Self {
        CookieJar {
            secret: hmac::Key::new(hmac::HMAC_SHA256, &entropy.array::<32>()),
        }
    }

    /// The cookie for who sends `message1` (without a cookie) `from` there. `now_ns` never goes back.
    /// Costs about 0.4 µs.
    pub fn issue(&self, now_ns: u64, from: SocketAddr, message1: &[u8]) -> [u8; COOKIE_LEN] {
        self.bake(now_ns / PERIOD_NS, from, message1)
    }

    /// Whether `cookie` was issued for this sender and this message, in this period or the one before.
    /// Costs about 0.4 µs; takes the same time for every wrong code.
    pub fn verify(
        &self,
        now_ns: u64,
        from: SocketAddr,
        message1: &[u8],
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let period = now_ns / PERIOD_NS;
        let issued = match (period as u8).wrapping_sub(cookie[0]) {
            0 => period,
            1 if period > 0 => period - 1,
            _ => return false,
        };
        let expected = self.bake(issued, from, message1);
        constant_time::verify_slices_are_equal(&expected, cookie).is_ok()
    }

    fn bake(&self, period: u64, from: SocketAddr, message1: &[u8]) -> [u8; COOKIE_LEN] {
        let mut context = hmac::Context::with_key(&self.secret);
        context.update(&period.to_le_bytes());
        context.update(&address_bytes(from));
        context.update(message1);
        let code = context.sign();
        let mut cookie = [period as u8; COOKIE_LEN];
        cookie[1..].copy_from_slice(&code.as_ref()[..COOKIE_LEN - 1]);
        cookie
    }
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieJar(..)")
    }
}

/// Address and port in a fixed form, IPv4 as IPv4-mapped IPv6.
fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn jar(seed: u8) -> CookieJar {
        CookieJar::new(&mut Entropy::from_seed([seed; 32]))
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_cookie_lives_one_to_two_minutes() {
        let (jar, from) = (jar(1), address("10.0.0.1:7"));
        for issued_at in [0, 1, 59, 60, 61, 255 * 60, 256 * 60, 1 << 33] {
            let cookie = jar.issue(issued_at * SECOND, from, b"hello");
            let good = |age: u64| jar.verify((issued_at + age) * SECOND, from, b"hello", &cookie);
            assert!(good(0) && good(60));
            assert!(!good(120) && !good(256 * 60));
        }
    }

    #[test]
    fn a_cookie_is_for_one_sender_and_one_message() {
        let (ours, from) = (jar(1), address("10.0.0.1:7"));
        let cookie = ours.issue(0, from, b"hello");
        assert!(ours.verify(0, address("[::ffff:10.0.0.1]:7"), b"hello", &cookie));
        for other in ["10.0.0.1:8", "10.0.0.2:7", "[::1]:7"] {
            assert!(!ours.verify(0, address(other), b"hello", &cookie));
        }
        assert!(!ours.verify(0, from, b"hellO", &cookie));
        assert!(!ours.verify(0, from, b"hello!", &cookie));
        assert!(!jar(2).verify(0, from, b"hello", &cookie));
        assert!(!ours.verify(0, from, b"hello", &[0; COOKIE_LEN]));
        for at in 0..COOKIE_LEN {
            let mut changed = cookie;
            changed[at] ^= 1;
            assert!(!ours.verify(0, from, b"hello", &changed));
            assert!(!ours.verify(60 * SECOND, from, b"hello", &changed));
        }
    }
}
