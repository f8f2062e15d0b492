//! How far senders are ahead of what passes. Where receivers grant credit, a sender's link takes what it has to send, messages
//! to several receivers in equal parts. What doesn't pass at once stands in a queue on the way, and a queue lets pass what
//! stands there in the order in which it came: who has sent ahead goes on as he did, and who comes later waits at first.
//!
//! So each message's part of what it passes with others is the most that it ever had standing on its way: as much as it is
//! ahead, it keeps off those that come later.

use super::traffic::Flow;
use crate::share::Use;

/// What a message has sent ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// The sender's link, as a resource.
    pub link: usize,
    link_bytes_per_ns: f64,
    /// Bytes on the wire that have left.
    sent_bytes: f64,
    /// How many leave in a nanosecond.
    bytes_per_ns: f64,
    /// No more of them pass in a nanosecond.
    pub most_bytes_per_ns: f64,
}

impl Ahead {
    /// So much has left; the link takes `sending` messages from now on, with this one.
    pub fn new(link: Use, sending: u32, sent_bytes: f64) -> Self {
        let link_bytes_per_ns = 1.0 / link.part;
        let bytes_per_ns = link_bytes_per_ns / f64::from(sending);
        Ahead {
            link: link.resource as usize,
            link_bytes_per_ns,
            sent_bytes,
            bytes_per_ns,
            most_bytes_per_ns: bytes_per_ns,
        }
    }

    /// How many bytes its link takes in a nanosecond.
    pub fn link_bytes_per_ns(&self) -> f64 {
        self.link_bytes_per_ns
    }

    /// Bytes on the wire that have left.
    pub fn sent_bytes(&self) -> f64 {
        self.sent_bytes
    }

    /// Whether its link takes more of it, as far as was known when messages were weighed.
    pub fn is_sending(&self) -> bool {
        self.bytes_per_ns > 0.0
    }

    /// Time has passed, and so much in all of so much.
    pub fn go_on(&mut self, ns: f64, passed_bytes: f64, total_bytes: f64) {
        let sent_bytes = self.sent_bytes + self.bytes_per_ns * ns;
        self.sent_bytes = sent_bytes.clamp(passed_bytes, total_bytes);
    }
}

impl Flow {
    /// Gives it the part that it has by what it has sent ahead, where each link takes so many messages. Whether it is still being sent.
    pub(super) fn weigh(&mut self, sending: &[u32], packet_bytes: f64) -> bool {
        let (total_bytes, passed_bytes) = (self.message.cost.wire_bytes, self.passed_bytes());
        let Some(ahead) = &mut self.ahead else {
            return false;
        };
        let standing_bytes = ahead.sent_bytes - passed_bytes;
        let sends = ahead.sent_bytes < total_bytes;
        ahead.bytes_per_ns = if sends {
            ahead.link_bytes_per_ns / f64::from(sending[ahead.link])
        } else {
            0.0
        };
        ahead.most_bytes_per_ns = if sends && standing_bytes < packet_bytes {
            ahead.bytes_per_ns
        } else {
            ahead.link_bytes_per_ns
        };
        if standing_bytes > self.weight {
            self.weight = standing_bytes;
        }
        sends
    }
}

#[cfg(test)]
pub(super) mod tests {
    use sabani_collective::Collective;
    use sabani_collective::execute::MessageId;

    use crate::network::{Capacity, Network};
    use crate::route::Routes;
    use crate::simulate::traffic::tests::by_traffic;
    use crate::simulate::traffic::{Content, Message};
    use crate::task::Task;
    use crate::testing::{LINK, switched};

    /// What a megabyte takes a link.
    const MS_PER_MB: f64 = 1e9 / LINK;

    /// When each message has passed, in milliseconds: sender, receiver, when it begins in milliseconds, and its bytes. The
    /// first host's port is half as fast as all others.
    fn ends_ms(messages: &[(usize, usize, f64, usize)], granted: bool) -> Vec<f64> {
        let mut network = switched(4);
        network.graph.hosts[0].into = Capacity::exact(LINK / 2.0);
        ends_in(network, messages, granted)
    }

    /// The same in a network of four hosts.
    pub fn ends_in(
        mut network: Network,
        messages: &[(usize, usize, f64, usize)],
        granted: bool,
    ) -> Vec<f64> {
        let tcp = network.transports.get_mut("tcp").unwrap();
        tcp.recovery.granted = granted;
        let tcp = &network.transports["tcp"];
        let task = Task::new(Collective::Barrier, 4, 0, &network);
        let routes = Routes::new(&network, tcp, &task, &mut |estimate| estimate.value);
        let messages = messages.iter().enumerate();
        let messages = messages.map(|(number, &(from, to, begin_ms, bytes))| {
            let message = Message {
                from,
                to,
                name: MessageId {
                    round: number,
                    lane: 0,
                },
                content: Content::Data,
                cost: routes.cost(bytes),
            };
            (begin_ms * 1e6, message)
        });
        let messages: Vec<_> = messages.collect();
        let ends = by_traffic(&routes, &tcp.recovery, &messages);
        ends.iter().map(|ns| ns / 1e6).collect()
    }

    #[test]
    fn who_has_sent_ahead_keeps_off_who_comes_later() {
        // The second one begins when half of the first one has passed, and the other half stands before the port.
        let begin_ms = 0.5 * MS_PER_MB;
        let both = |bytes| [(1, 0, 0.0, 500_000), (2, 0, begin_ms, bytes)];
        let (shared, queued) = (
            ends_ms(&both(100_000), false),
            ends_ms(&both(100_000), true),
        );
        // By equal shares, the second one has passed after 0.4 of these. In the order in which they came, it is the last.
        assert!(
            (shared[1] - begin_ms - 0.4 * MS_PER_MB).abs() < 0.1,
            "{shared:?}"
        );
        assert!(
            queued[1] > queued[0] && queued[0] < shared[0],
            "{queued:?} {shared:?}"
        );
        // The port is busy all the time in either case.
        assert!((queued[1] - shared[0]).abs() < 0.1, "{queued:?} {shared:?}");
    }

    #[test]
    fn who_begin_together_share_evenly() {
        let both = [(1, 0, 0.0, 500_000), (2, 0, 0.0, 500_000)];
        let ends = ends_ms(&both, true);
        assert!((ends[0] - 2.0 * MS_PER_MB).abs() < 0.1, "{ends:?}");
        assert!((ends[1] - 2.0 * MS_PER_MB).abs() < 0.1, "{ends:?}");
    }

    #[test]
    fn what_stands_elsewhere_leaves_the_senders_link_to_others() {
        // All of the first one has left after half of these, and the link is free, though half of it is still to pass.
        let begin_ms = 0.52 * MS_PER_MB;
        let ends = ends_ms(&[(1, 0, 0.0, 500_000), (1, 2, begin_ms, 500_000)], true);
        assert!((ends[0] - MS_PER_MB).abs() < 0.1, "{ends:?}");
        assert!(
            (ends[1] - begin_ms - 0.5 * MS_PER_MB).abs() < 0.1,
            "{ends:?}"
        );
        // Both at once share it, and half of it is what the slow port takes.
        let ends = ends_ms(&[(1, 0, 0.0, 500_000), (1, 2, 0.0, 500_000)], true);
        assert!((ends[1] - MS_PER_MB).abs() < 0.1, "{ends:?}");
    }

    #[test]
    fn what_follows_to_the_same_host_goes_on_where_the_one_before_it_was() {
        // Ten messages to the slow port, one after the other; and another host's, which comes when three of them have passed. It
        // waits for longer than its equal share would take (0.6 ms), and than if each message were the first one (0.9 ms).
        let begin_ms = 0.3 * MS_PER_MB;
        let stream = (0..10).map(|_| (1, 0, 0.0, 50_000));
        let ends = ends_ms(
            &stream.chain([(2, 0, begin_ms, 20_000)]).collect::<Vec<_>>(),
            true,
        );
        assert!(ends[10] - begin_ms > 1.05, "{ends:?}");
        assert!((ends[9] - 1.04 * MS_PER_MB).abs() < 0.2, "{ends:?}");
    }
}
