//! Known bugs, planted around the transport: between network and node, between node and program,
//! or in the way a host is run. A checker that does not find them checks nothing.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use sabani_proto::wire::{Frames, Kind, Prelude};
use sabani_proto::{Config, Match, Node, PeerId};

use crate::checker::Delivery;
use crate::{HostId, MS, Network, Reading, Sorting};

/// A bug to plant. What is planted in packets can be planted in plain ones without checksum only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A message comes to the program twice, as after a hole in the replay window.
    DeliverTwice,
    /// Two messages of one sender change places.
    Swap,
    /// A bit of a message changes after its packet was opened.
    FlipBit,
    /// A message loses its last byte.
    CutShort,
    /// A message that was acknowledged never reaches the program.
    Swallow,
    /// A packet is acknowledged although what it carried was thrown away.
    AckUnread,
    /// What was meant for a process that has died comes to the next one.
    Resurrect,
    /// Memory is charged for something that no program will ever take.
    KeepCredit,
    /// A peer is said to have more to send, which it never does.
    ClaimCredit,
    /// A node takes more for sending than its configuration allows.
    IgnoreLimit,
    /// A node takes more memory for what nobody has asked for than its configuration allows.
    IgnoreMemory,
    /// A node that has closed sends the last datagram of the network once more.
    SendAfterClose,
    /// A host with a deadline is never woken for it, nor for arrivals.
    ForgetWake,
    /// A host does not run for some seconds, though others wait for it.
    Oversleep,
    /// A host with nothing to do wakes again and again.
    Spin,
    /// A packet breaks the protocol, so that an innocent peer is accused.
    BreakFrame,
    /// A host panics.
    Panic,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 17] = [
        Bug::DeliverTwice,
        Bug::Swap,
        Bug::FlipBit,
        Bug::CutShort,
        Bug::Swallow,
        Bug::AckUnread,
        Bug::Resurrect,
        Bug::KeepCredit,
        Bug::ClaimCredit,
        Bug::IgnoreLimit,
        Bug::IgnoreMemory,
        Bug::SendAfterClose,
        Bug::ForgetWake,
        Bug::Oversleep,
        Bug::Spin,
        Bug::BreakFrame,
        Bug::Panic,
    ];

    /// Its name in plans and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::DeliverTwice => "deliver-twice",
            Bug::Swap => "swap",
            Bug::FlipBit => "flip-bit",
            Bug::CutShort => "cut-short",
            Bug::Swallow => "swallow",
            Bug::AckUnread => "ack-unread",
            Bug::Resurrect => "resurrect",
            Bug::KeepCredit => "keep-credit",
            Bug::ClaimCredit => "claim-credit",
            Bug::IgnoreLimit => "ignore-limit",
            Bug::IgnoreMemory => "ignore-memory",
            Bug::SendAfterClose => "send-after-close",
            Bug::ForgetWake => "forget-wake",
            Bug::Oversleep => "oversleep",
            Bug::Spin => "spin",
            Bug::BreakFrame => "break-frame",
            Bug::Panic => "panic",
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name);
        bug.ok_or_else(|| {
            let names = Bug::ALL.map(Bug::name).join(", ");
            format!("there is no bug `{name}` to plant; there are {names}")
        })
    }
}

/// The bit of its tag by which a message that nobody wants is known: sequence numbers stay below.
const UNWANTED: u64 = 1 << 55;
/// Longer than most plans let a message take while nothing goes wrong, and shorter than while something does.
const OVERSLEPT_NS: u64 = 2_000 * MS;
/// The host that bugs of the way a host is run are planted at.
const VICTIM: HostId = HostId(0);
/// Frame type of `Ping`: calls for an acknowledgement, and carries nothing.
const PING: [u8; 4] = [7, 0, 0, 0];
/// `Request`, of more than there ever is.
const REQUEST: [u8; 12] = [11, 0, 8, 0, 255, 255, 255, 255, 255, 255, 255, 127];
/// Frame types of `Entries` and `Fragment`.
const MESSAGE_FRAMES: [u8; 2] = [1, 2];
/// Frame type of `Ack`: first in packets with nothing but acknowledgements.
const ACK_FRAME: [u8; 1] = [3];

impl Network {
    /// Plants a bug, to see whether it is found: once the hosts know each other, and before they
    /// send anything.
    pub fn plant(&mut self, bug: Bug) {
        match bug {
            Bug::KeepCredit => self.send_unwanted(),
            Bug::IgnoreMemory => {
                for id in self.host_ids() {
                    self.renew(id, |config| {
                        (config.memory_bytes, config.peer_memory_bytes) = (1 << 30, 1 << 30);
                        config.log_window = config.log_window_max;
                    });
                }
            }
            Bug::IgnoreLimit => self.renew(VICTIM, |config| {
                config.send_queue_bytes = usize::MAX / 2;
            }),
            // More than is ever sent, or what was claimed would come.
            Bug::ClaimCredit => {
                for id in self.host_ids() {
                    self.renew(id, |config| config.log_window = config.log_window_max);
                }
            }
            _ => {}
        }
        self.canary = Some(Canary::new(bug));
    }

    /// Sends a message that no program takes, for all want those alone that the checker follows.
    fn send_unwanted(&mut self) {
        let wanted = Match::any().tag_mask(0, UNWANTED);
        for id in self.host_ids() {
            let program = &mut self.host(id).program;
            program.sorting = Sorting::None;
            match &mut program.reading {
                Reading::Nothing => {}
                Reading::Take(any) | Reading::Discard(any) | Reading::Post { wanted: any, .. } => {
                    *any = wanted;
                }
            }
        }
        let (now_ns, node) = (self.now_ns(), self.host(VICTIM).node());
        let sent = node.send_copy(now_ns, PeerId(1), UNWANTED, &[0; 100], false);
        sent.expect("the victim knows its peer, and has sent nothing yet");
        self.kick(VICTIM);
    }

    /// Gives a host a node that is configured otherwise than it should be.
    fn renew(&mut self, id: HostId, adjust: impl Fn(&mut Config)) {
        let seed = self.rng().seed();
        let host = self.host(id);
        let mut config = host.config.clone();
        adjust(&mut config);
        host.start(Node::new(config, seed));
        self.introduce_to(id);
    }
}

/// A planted bug, and what it remembers.
#[derive(Debug)]
pub struct Canary {
    bug: Bug,
    /// It has struck; most do so once.
    spent: bool,
    /// Wake-ups of the victim, or messages that others were given.
    seen: u32,
    held: Option<Kept>,
    /// The last datagram that was sent.
    last: Option<(SocketAddr, Vec<u8>)>,
}

/// A message kept back.
#[derive(Clone, Debug)]
struct Kept {
    from: HostId,
    to: HostId,
    incarnation: u64,
    tag: u64,
    body: Vec<u8>,
}

impl Kept {
    fn copy(delivery: Delivery<'_>) -> Self {
        Kept {
            from: delivery.from,
            to: delivery.to,
            incarnation: delivery.incarnation,
            tag: delivery.tag,
            body: delivery.body.to_vec(),
        }
    }
}

impl Canary {
    /// A bug that has not struck yet.
    pub fn new(bug: Bug) -> Self {
        Canary {
            bug,
            spent: false,
            seen: 0,
            held: None,
            last: None,
        }
    }

    /// Between node and program: what the checker is told instead of this message.
    pub(crate) fn hand_over(
        &mut self,
        delivery: Delivery<'_>,
        tell: &mut impl FnMut(Delivery<'_>),
    ) {
        match self.bug {
            Bug::Swap | Bug::Resurrect => self.hold(delivery, tell),
            _ if self.spent => tell(delivery),
            Bug::DeliverTwice => {
                self.spent = true;
                tell(delivery);
                tell(delivery);
            }
            Bug::Swallow => self.spent = true,
            Bug::FlipBit | Bug::CutShort if !delivery.body.is_empty() => {
                self.spent = true;
                let mut body = delivery.body.to_vec();
                let last = body.pop().map(|last| last ^ 1);
                body.extend(last.filter(|_| self.bug == Bug::FlipBit));
                let body = &body[..];
                tell(Delivery { body, ..delivery });
            }
            _ => tell(delivery),
        }
    }

    /// Keeps one message back until the moment at which it does harm.
    fn hold(&mut self, delivery: Delivery<'_>, tell: &mut impl FnMut(Delivery<'_>)) {
        // The first ones come before their senders know for which life of the receiver.
        const HELD: u32 = 3;
        self.seen += u32::from(delivery.to != VICTIM);
        if self.seen == HELD && !std::mem::replace(&mut self.spent, true) {
            self.held = Some(Kept::copy(delivery));
            return;
        }
        let due = self.held.take_if(|held| {
            let anew = held.incarnation != delivery.incarnation;
            let same = held.from == delivery.from && !anew;
            held.to == delivery.to && if self.bug == Bug::Swap { same } else { anew }
        });
        tell(delivery);
        if let Some(held) = due {
            tell(Delivery {
                from: held.from,
                to: held.to,
                incarnation: delivery.incarnation,
                tag: held.tag,
                body: &held.body,
            });
        }
    }

    /// Between node and network: looks at a train, and changes a packet.
    pub(crate) fn tamper(&mut self, to: SocketAddr, train: &mut [u8], segment: usize) {
        match self.bug {
            Bug::SendAfterClose => {
                self.last = train.chunks(segment).last().map(|last| (to, last.to_vec()));
            }
            Bug::AckUnread | Bug::BreakFrame if !self.spent => {
                self.change_frame(train, segment, &MESSAGE_FRAMES);
            }
            Bug::ClaimCredit if !self.spent => self.change_frame(train, segment, &ACK_FRAME),
            _ => {}
        }
    }

    /// Changes the first packet that begins with one of these frames.
    fn change_frame(&mut self, train: &mut [u8], segment: usize, frames: &[u8]) {
        let is_it = |packet: &&mut [u8]| {
            let kind = Prelude::parse(packet).map(|(prelude, _)| prelude.kind);
            let first = packet.get(Prelude::LEN);
            let is_wanted = first.is_some_and(|kind| frames.contains(kind));
            // What comes behind is lost: a message must not be, if that is not the bug.
            let alone = || Frames::new(&packet[Prelude::LEN..]).count() == 1;
            kind == Ok(Kind::Data) && is_wanted && (frames != ACK_FRAME || alone())
        };
        let Some(packet) = train.chunks_mut(segment).find(is_it) else {
            return;
        };
        self.spent = true;
        let payload = &mut packet[Prelude::LEN..];
        let instead: &[u8] = match self.bug {
            Bug::AckUnread => &PING,
            Bug::ClaimCredit => &REQUEST,
            // The length in the frame's header points far beyond the packet.
            _ => return payload[2..4].fill(0xff),
        };
        payload.fill(0);
        payload[..instead.len()].copy_from_slice(instead);
    }

    /// Whether a host's wake-up gets lost.
    pub(crate) fn forgets_wake(&mut self, host: HostId) -> bool {
        self.bug == Bug::ForgetWake && self.is_late(host)
    }

    /// How long a host does not run that would now.
    pub(crate) fn oversleeps_ns(&mut self, host: HostId) -> u64 {
        let strikes = self.bug == Bug::Oversleep && !self.spent && self.is_late(host);
        self.spent |= strikes;
        if strikes { OVERSLEPT_NS } else { 0 }
    }

    /// Counts the victim's turns, the first of which are as they should be.
    fn is_late(&mut self, host: HostId) -> bool {
        const LATE: u32 = 8;
        self.seen += u32::from(host == VICTIM);
        self.seen > LATE
    }

    /// Whether a host wakes once more although it has nothing to do.
    pub(crate) fn spins(&self, host: HostId) -> bool {
        self.bug == Bug::Spin && host == VICTIM
    }

    /// A host has run.
    ///
    /// # Panics
    /// If that is the bug.
    pub(crate) fn on_turn(&mut self, host: HostId) {
        assert!(self.bug != Bug::Panic || host != VICTIM, "a planted bug");
    }

    /// What is sent once more by a host that `closes_now`.
    pub(crate) fn last_words(&mut self, closes_now: bool) -> Option<(SocketAddr, Vec<u8>)> {
        self.last.take_if(|_| closes_now)
    }
}
