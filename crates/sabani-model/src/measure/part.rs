//! What one host does of a probe, without input and output.

use super::probe::{Flow, Probe, Seen, Traffic, Trip};

/// What a message is, as its tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Of a stream, or there.
    There,
    /// Back.
    Back,
    /// The last one of a flow.
    End,
}

impl Label {
    fn new(flow: usize, kind: Kind) -> Self {
        Label(flow as u32 * 4 + kind as u32)
    }

    fn read(self) -> Option<(usize, Kind)> {
        let kind = match self.0 % 4 {
            0 => Kind::There,
            1 => Kind::Back,
            2 => Kind::End,
            _ => return None,
        };
        Some(((self.0 / 4) as usize, kind))
    }
}

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// To which host.
    pub to: usize,
    /// What it is.
    pub label: Label,
    /// How long it is.
    pub bytes: usize,
}

/// A flow that begins here.
#[derive(Debug)]
struct Outgoing {
    flow: usize,
    trips: Vec<Trip>,
    /// When the last message there was handed over.
    sent_ns: Option<u64>,
    ended: bool,
}

/// A flow that ends here.
#[derive(Debug)]
struct Incoming {
    flow: usize,
    arrivals: Vec<u64>,
    ended: bool,
}

/// One host's part. Times are of the host's own clock.
#[derive(Debug)]
pub struct Part<'p> {
    probe: &'p Probe,
    began_ns: u64,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// Answers that are due.
    due: Vec<Send>,
}

impl<'p> Part<'p> {
    /// Begins now.
    pub fn new(probe: &'p Probe, host: usize, now_ns: u64) -> Self {
        let flows = || probe.flows.iter().enumerate();
        let outgoing = flows().filter(|(_, flow)| flow.from == host);
        let incoming = flows().filter(|(_, flow)| flow.to == host);
        Part {
            probe,
            began_ns: now_ns,
            outgoing: outgoing
                .map(|(flow, _)| Outgoing {
                    flow,
                    trips: Vec::new(),
                    sent_ns: None,
                    ended: false,
                })
                .collect(),
            incoming: incoming
                .map(|(flow, _)| Incoming {
                    flow,
                    arrivals: Vec::new(),
                    ended: false,
                })
                .collect(),
            due: Vec::new(),
        }
    }

    /// What to send now; `waiting` says how many messages still wait here for a host. After each one
    /// that was handed over, call [`sent`](Part::sent).
    pub fn poll(&self, now_ns: u64, waiting: impl Fn(usize) -> usize) -> Option<Send> {
        if let Some(answer) = self.due.last() {
            return Some(*answer);
        }
        let send = |out: &Outgoing| self.next_of(out, now_ns, &waiting);
        self.outgoing.iter().find_map(send)
    }

    fn next_of(
        &self,
        out: &Outgoing,
        now_ns: u64,
        waiting: &impl Fn(usize) -> usize,
    ) -> Option<Send> {
        let flow = &self.probe.flows[out.flow];
        let send = |kind, bytes| {
            Some(Send {
                to: flow.to,
                label: Label::new(out.flow, kind),
                bytes,
            })
        };
        let over = match flow.traffic {
            Traffic::Stream { lasts_ns, .. } => now_ns >= self.began_ns + lasts_ns,
            Traffic::Trips { count } => out.trips.len() == count && out.sent_ns.is_none(),
        };
        match flow.traffic {
            _ if out.ended => None,
            _ if over => send(Kind::End, 0),
            Traffic::Stream { ahead_bytes, .. } => {
                let waits = waiting(flow.to) * flow.bytes.max(1);
                (waits < ahead_bytes).then(|| send(Kind::There, flow.bytes))?
            }
            Traffic::Trips { .. } if out.sent_ns.is_some() => None,
            Traffic::Trips { .. } => send(Kind::There, flow.bytes),
        }
    }

    /// A message was handed over, which began at `now_ns` and took so long.
    pub fn sent(&mut self, send: &Send, now_ns: u64, took_ns: u64) {
        if self.due.last() == Some(send) {
            self.due.pop();
            return;
        }
        let Some((flow, kind)) = send.label.read() else {
            return;
        };
        for out in self.outgoing.iter_mut().filter(|out| out.flow == flow) {
            out.ended |= kind == Kind::End;
            if matches!(self.probe.flows[flow].traffic, Traffic::Trips { .. })
                && kind == Kind::There
            {
                out.sent_ns = Some(now_ns);
                out.trips.push(Trip {
                    send_ns: took_ns,
                    ..Trip::default()
                });
            }
        }
    }

    /// A message has been taken, which took so long.
    pub fn handle(&mut self, label: Label, now_ns: u64, took_ns: u64) {
        match label.read() {
            Some((flow, Kind::Back)) => self.on_answer(flow, now_ns, took_ns),
            Some((flow, kind)) => self.on_message(flow, kind, now_ns),
            None => {}
        }
    }

    fn on_answer(&mut self, flow: usize, now_ns: u64, took_ns: u64) {
        for out in self.outgoing.iter_mut().filter(|out| out.flow == flow) {
            if let (Some(sent_ns), Some(trip)) = (out.sent_ns.take(), out.trips.last_mut()) {
                trip.round_ns = now_ns - sent_ns;
                trip.receive_ns = took_ns;
            }
        }
    }

    fn on_message(&mut self, flow: usize, kind: Kind, now_ns: u64) {
        for incoming in self.incoming.iter_mut().filter(|other| other.flow == flow) {
            let Flow {
                from,
                bytes,
                traffic,
                ..
            } = self.probe.flows[flow];
            match (traffic, kind) {
                (_, Kind::End) => incoming.ended = true,
                (Traffic::Stream { .. }, _) => incoming.arrivals.push(now_ns - self.began_ns),
                (Traffic::Trips { .. }, _) => self.due.push(Send {
                    to: from,
                    label: Label::new(flow, Kind::Back),
                    bytes,
                }),
            }
        }
    }

    /// When something is to be sent although nothing comes.
    pub fn deadline_ns(&self) -> Option<u64> {
        let end = |out: &Outgoing| match self.probe.flows[out.flow].traffic {
            Traffic::Stream { lasts_ns, .. } if !out.ended => Some(self.began_ns + lasts_ns),
            _ => None,
        };
        self.outgoing.iter().filter_map(end).min()
    }

    /// Whether nothing is left to send or to come.
    pub fn is_done(&self) -> bool {
        let sent = self.outgoing.iter().all(|out| out.ended);
        sent && self.due.is_empty() && self.incoming.iter().all(|incoming| incoming.ended)
    }

    /// What this host saw: flows by their numbers.
    pub fn seen(self) -> Vec<(usize, Seen)> {
        let flows = &self.probe.flows;
        let trips = self.outgoing.into_iter().filter_map(|out| {
            matches!(flows[out.flow].traffic, Traffic::Trips { .. })
                .then_some((out.flow, Seen::Trips(out.trips)))
        });
        let arrivals = self.incoming.into_iter().filter_map(|incoming| {
            matches!(flows[incoming.flow].traffic, Traffic::Stream { .. })
                .then_some((incoming.flow, Seen::Arrivals(incoming.arrivals)))
        });
        trips.chain(arrivals).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Traffic = Traffic::Stream {
        lasts_ns: 1_000,
        ahead_bytes: 200,
        yields: true,
    };

    fn probe(traffic: Traffic) -> Probe {
        let flow = Flow {
            from: 0,
            to: 1,
            bytes: 100,
            traffic,
        };
        Probe { flows: vec![flow] }
    }

    #[test]
    fn a_stream_keeps_so_much_waiting_until_its_time_is_over() {
        let probe = probe(STREAM);
        let (mut from, mut to) = (Part::new(&probe, 0, 0), Part::new(&probe, 1, 50));
        for (now_ns, waiting, sends) in [(0, 0, true), (0, 1, true), (0, 2, false), (400, 1, true)]
        {
            let send = from.poll(now_ns, |_| waiting);
            assert_eq!(send.is_some(), sends);
            if let Some(send) = send {
                from.sent(&send, now_ns, 1);
                to.handle(send.label, now_ns + 150, 1);
            }
        }
        assert!(!from.is_done());
        let end = from.poll(1_000, |_| 5).unwrap();
        from.sent(&end, 1_000, 1);
        to.handle(end.label, 1_100, 1);
        assert!(from.is_done() && to.is_done());
        assert_eq!(to.seen(), [(0, Seen::Arrivals(vec![100, 100, 500]))]);
    }

    #[test]
    fn trips_follow_each_other() {
        let probe = probe(Traffic::Trips { count: 2 });
        let (mut from, mut to) = (Part::new(&probe, 0, 0), Part::new(&probe, 1, 0));
        for at_ns in [0, 1_000] {
            let there = from.poll(at_ns, |_| 0).unwrap();
            from.sent(&there, at_ns, 10);
            assert_eq!(from.poll(at_ns, |_| 0), None, "the answer comes first");
            to.handle(there.label, at_ns + 100, 5);
            let back = to.poll(at_ns + 100, |_| 0).unwrap();
            assert_eq!((back.to, back.bytes), (0, 100));
            to.sent(&back, at_ns + 100, 10);
            from.handle(back.label, at_ns + 300, 7);
        }
        let end = from.poll(2_000, |_| 0).unwrap();
        from.sent(&end, 2_000, 1);
        to.handle(end.label, 2_100, 1);
        assert!(from.is_done() && to.is_done());
        let trip = Trip {
            round_ns: 300,
            send_ns: 10,
            receive_ns: 7,
        };
        assert_eq!(from.seen(), [(0, Seen::Trips(vec![trip; 2]))]);
    }

    #[test]
    fn the_first_quarter_of_a_stream_is_left_out() {
        let probe = probe(STREAM);
        let seen = Seen::Arrivals(vec![10, 20, 30, 300, 600, 900, 1_100]);
        let rate = seen.rate(&probe.flows[0]);
        assert!((rate - 300.0 / 750.0 * 1e9).abs() < 1.0, "{rate}");
    }
}
