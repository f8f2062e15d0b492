//! Words about credit. A host that receives from several others at a time grants each of them a little at a time, and tells it so
//! each time. These words leave over the same links as what it sends itself, which is slower for it. Who is the only one to send is
//! granted more, and ahead, and what such words cost is part of what was measured between two hosts.

use super::ahead::Ahead;
use super::loss::Losses;
use super::traffic::Message;
use crate::route::Routes;

/// Bytes of a word on the wire.
const WORD_BYTES: f64 = 130.0;
/// There is one for so many packets, and for what the link takes in so many nanoseconds: about as many as where eight hosts send 64 KiB,
/// 47 packets, to each other. `sabani sim exchange --hosts 8 --bytes 64KiB --link 100mbit` tells of one packet more for 1.7 of those, of
/// one for 2.7 at 1 Gbit/s, and for 10 at 10 Gbit/s.
const EVERY_PACKETS: f64 = 1.75;
const EVERY_NS: f64 = 13_000.0;
/// So many who send are several.
const SEVERAL: u32 = 2;

/// Where receivers grant credit, and to how many each of them does.
pub(super) struct Words<'r> {
    routes: &'r Routes,
    packet_bytes: f64,
    /// Shorter messages need no grants; infinite where receivers give none.
    window_bytes: f64,
    /// For each host: how many messages it receives now that need grants.
    granted: Vec<u32>,
}

impl<'r> Words<'r> {
    /// Nothing is on its way.
    pub fn new(routes: &'r Routes, losses: &Losses) -> Self {
        let window_bytes = match losses.granted {
            true => losses.window_bytes,
            false => f64::INFINITY,
        };
        Words {
            routes,
            packet_bytes: losses.packet_bytes,
            window_bytes,
            granted: vec![0; routes.hosts()],
        }
    }

    /// A message leaves its host.
    pub fn begin(&mut self, message: &Message) {
        if self.needs_grants(message) {
            self.granted[self.routes.host(message.to)] += 1;
        }
    }

    /// All of it has passed.
    pub fn end(&mut self, message: &Message) {
        if self.needs_grants(message) {
            self.granted[self.routes.host(message.to)] -= 1;
        }
    }

    fn needs_grants(&self, message: &Message) -> bool {
        let hosts = [message.from, message.to].map(|rank| self.routes.host(rank));
        message.cost.wire_bytes > self.window_bytes && hosts[0] != hosts[1]
    }

    /// What part of its rate words leave to a message.
    pub fn leave(&self, message: &Message, ahead: Option<Ahead>) -> f64 {
        let several = self.granted[self.routes.host(message.from)] >= SEVERAL;
        let Some(ahead) = ahead.filter(|_| several && self.needs_grants(message)) else {
            return 1.0;
        };
        let every_bytes = EVERY_PACKETS * self.packet_bytes + EVERY_NS * ahead.link_bytes_per_ns();
        every_bytes / (every_bytes + WORD_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use crate::simulate::ahead::tests::ends_in;
    use crate::testing::switched;

    /// How much longer the first host takes to send while these send to it.
    fn slower(senders: &[usize], bytes: usize, granted: bool) -> f64 {
        let own = (0, 3, 0.0, 500_000);
        let others = senders.iter().map(|&from| (from, 0, 0.0, bytes));
        let messages: Vec<_> = [own].into_iter().chain(others).collect();
        let end_ms = |messages| ends_in(switched(4), messages, granted)[0];
        end_ms(&messages) / end_ms(&[own])
    }

    #[test]
    fn who_receives_from_several_sends_slower() {
        let is_one = |factor: f64| (factor - 1.0).abs() < 1e-9;
        // At 1 Gbit/s there is a word of 130 bytes for each 4,160.
        let factor = slower(&[1, 2], 500_000, true);
        assert!((1.03..1.033).contains(&factor), "{factor}");
        assert!(is_one(slower(&[1], 1_000_000, true)), "granted ahead");
        assert!(is_one(slower(&[1, 2], 10_000, true)), "no grants");
        assert!(is_one(slower(&[1, 2], 500_000, false)), "nobody grants");
        // Only as long as they do.
        let factor = slower(&[1, 2], 50_000, true);
        assert!((1.005..1.008).contains(&factor), "{factor}");
    }
}
