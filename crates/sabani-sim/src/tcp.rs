//! A model of TCP flows, to share links with: CUBIC's window (RFC 9438), an acknowledgement for each
//! packet, losses known by what was acknowledged behind them, a timeout of 200 ms.
//!
//! There is no end to what a flow has to send, so that what was lost need not be told from what is
//! new: a packet is a packet.

use std::collections::BTreeMap;

use crate::datagram::DatagramId;
use crate::{HostId, MS, Network, SEC};

/// Payload of a packet, in bytes of UDP payload: as long on the wire as a full one of ours.
const PACKET: usize = 1_472;
/// An acknowledgement.
const ACK: usize = Segment::LEN;
/// Packets acknowledged behind a missing one that make it lost.
const REORDER: u64 = 3;
const FIRST_WINDOW: f64 = 10.0;
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// Names a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpId(u32);

/// A flow from one host to another, past their nodes.
#[derive(Clone, Debug)]
pub struct TcpFlow {
    from: HostId,
    to: HostId,
    begin_ns: u64,
    until_ns: u64,
    /// Bytes that have arrived before its end.
    pub delivered_bytes: u64,
    /// Packets found lost.
    pub lost: u64,
    /// Times at which everything was found lost because nothing had come for long.
    pub timeouts: u64,
    /// When each packet left that is on its way.
    in_flight: BTreeMap<u64, u64>,
    next: u64,
    window: f64,
    threshold: f64,
    /// The window at which packets were last lost, and when that was.
    max: f64,
    lost_ns: u64,
    /// Losses below this number are known.
    known: u64,
    rtt_ns: u64,
    variation_ns: u64,
    /// When something was last acknowledged.
    heard_ns: u64,
    armed: bool,
}

/// What a datagram of a flow says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    flow: TcpId,
    number: u64,
    is_ack: bool,
}

impl Segment {
    const LEN: usize = 14;
    /// No node takes this for one of its own.
    const MARK: u8 = 0xff;

    fn bytes(self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        bytes[0] = Self::MARK;
        bytes[1] = u8::from(self.is_ack);
        bytes[2..6].copy_from_slice(&self.flow.0.to_le_bytes());
        bytes[6..14].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&head, _) = bytes.split_first_chunk::<{ Self::LEN }>()?;
        let [mark, is_ack, f0, f1, f2, f3, number @ ..] = head;
        (mark == Self::MARK).then(|| Segment {
            flow: TcpId(u32::from_le_bytes([f0, f1, f2, f3])),
            number: u64::from_le_bytes(number),
            is_ack: is_ack != 0,
        })
    }
}

impl TcpFlow {
    fn new(from: HostId, to: HostId, begin_ns: u64, until_ns: u64) -> Self {
        TcpFlow {
            from,
            to,
            begin_ns,
            until_ns,
            delivered_bytes: 0,
            lost: 0,
            timeouts: 0,
            in_flight: BTreeMap::new(),
            next: 0,
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            max: 0.0,
            lost_ns: 0,
            known: 0,
            rtt_ns: 0,
            variation_ns: 0,
            heard_ns: 0,
            armed: false,
        }
    }

    /// How long it sends, in nanoseconds.
    pub fn lasted_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.begin_ns)
    }

    /// The number of the packet that leaves now, if one may.
    fn next_packet(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.until_ns || self.in_flight.len() as f64 >= self.window.floor() {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(number, now_ns);
        Some(number)
    }

    fn on_ack(&mut self, number: u64, now_ns: u64) {
        let Some(sent_ns) = self.in_flight.remove(&number) else {
            return;
        };
        self.heard_ns = now_ns;
        self.sample(now_ns - sent_ns);
        self.grow(now_ns);
        let missing = self.in_flight.range(..number.saturating_sub(REORDER - 1));
        let missing: Vec<u64> = missing.map(|(&number, _)| number).collect();
        self.lost += missing.len() as u64;
        if missing.last().is_some_and(|&last| last >= self.known) {
            self.known = self.next;
            self.lost_ns = now_ns;
            self.max = self.window;
            self.window = (self.window * BETA).max(2.0);
            self.threshold = self.window;
        }
        for number in missing {
            self.in_flight.remove(&number);
        }
    }

    fn sample(&mut self, rtt_ns: u64) {
        if self.rtt_ns == 0 {
            (self.rtt_ns, self.variation_ns) = (rtt_ns, rtt_ns / 2);
            return;
        }
        self.variation_ns = (3 * self.variation_ns + self.rtt_ns.abs_diff(rtt_ns)) / 4;
        self.rtt_ns = (7 * self.rtt_ns + rtt_ns) / 8;
    }

    /// One packet was acknowledged.
    fn grow(&mut self, now_ns: u64) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let seconds = |ns: u64| ns as f64 / SEC as f64;
        let since = seconds(now_ns.saturating_sub(self.lost_ns));
        let plateau = ((self.max * (1.0 - BETA)).max(0.0) / C).cbrt();
        let curve = C * (since + seconds(self.rtt_ns) - plateau).powi(3) + self.max;
        let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let reno = self.max * BETA + alpha * since / seconds(self.rtt_ns).max(1e-9);
        let target = curve.max(reno).clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window;
    }

    fn timeout_ns(&self) -> u64 {
        (self.rtt_ns + 4 * self.variation_ns).max(200 * MS)
    }

    /// Nothing has come for long: all is lost.
    fn on_timeout(&mut self, now_ns: u64) {
        self.timeouts += 1;
        self.lost += self.in_flight.len() as u64;
        self.in_flight.clear();
        self.max = self.window;
        self.threshold = (self.window * BETA).max(2.0);
        self.window = 1.0;
        (self.lost_ns, self.heard_ns) = (now_ns, now_ns);
        self.known = self.next;
    }
}

impl Network {
    /// A TCP flow from one host to another between these times.
    pub fn add_tcp(&mut self, from: HostId, to: HostId, begin_ns: u64, until_ns: u64) -> TcpId {
        let id = TcpId(self.tcp.len() as u32);
        self.tcp.push(TcpFlow::new(from, to, begin_ns, until_ns));
        self.at(begin_ns, move |net| {
            net.tcp[id.0 as usize].heard_ns = net.now_ns();
            net.send_tcp(id);
        });
        id
    }

    /// Ends all TCP flows that have not ended yet.
    pub fn end_tcp(&mut self) {
        let now_ns = self.now_ns();
        for flow in &mut self.tcp {
            flow.until_ns = flow.until_ns.min(now_ns);
        }
    }

    /// One TCP flow.
    pub fn tcp(&self, id: TcpId) -> &TcpFlow {
        &self.tcp[id.0 as usize]
    }

    /// Whether a datagram that comes to a host is one of a flow's, which takes it then.
    pub(crate) fn takes_segment(&mut self, id: DatagramId) -> bool {
        if self.tcp.is_empty() {
            return false;
        }
        let bytes = &self.engine.datagrams[id].bytes;
        let (segment, len) = (Segment::parse(bytes), bytes.len());
        let Some((segment, flow)) = segment.and_then(|segment| {
            let flow = self.tcp.get_mut(segment.flow.0 as usize)?;
            Some((segment, flow))
        }) else {
            return false;
        };
        self.engine.datagrams.remove(id);
        if segment.is_ack {
            flow.on_ack(segment.number, self.engine.now_ns);
            self.send_tcp(segment.flow);
            return true;
        }
        // What waited somewhere for longer is no part of what it carried in its time.
        if self.engine.now_ns < flow.until_ns {
            flow.delivered_bytes += len as u64;
        }
        let (from, to) = (flow.from, flow.to);
        let answer = Segment {
            is_ack: true,
            ..segment
        };
        self.emit(to, from, &answer.bytes(ACK));
        true
    }

    fn send_tcp(&mut self, id: TcpId) {
        let now_ns = self.now_ns();
        let (from, to) = (self.tcp(id).from, self.tcp(id).to);
        while let Some(number) = self.tcp[id.0 as usize].next_packet(now_ns) {
            let segment = Segment {
                flow: id,
                number,
                is_ack: false,
            };
            self.emit(from, to, &segment.bytes(PACKET));
        }
        self.arm_tcp(id);
    }

    fn arm_tcp(&mut self, id: TcpId) {
        let flow = &mut self.tcp[id.0 as usize];
        if flow.armed || flow.in_flight.is_empty() {
            return;
        }
        flow.armed = true;
        let at_ns = flow.heard_ns + flow.timeout_ns();
        self.at(at_ns, move |net| net.look_at_tcp(id));
    }

    fn look_at_tcp(&mut self, id: TcpId) {
        let now_ns = self.now_ns();
        let flow = &mut self.tcp[id.0 as usize];
        flow.armed = false;
        if !flow.in_flight.is_empty() && now_ns >= flow.heard_ns + flow.timeout_ns() {
            flow.on_timeout(now_ns);
        }
        self.send_tcp(id);
    }
}
