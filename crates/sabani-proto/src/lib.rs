//! Sabani's transport as a state machine without I/O: reliable, ordered, encrypted messages of any
//! size between many peers, over datagrams that somebody else carries.
//!
//! There is no clock, socket or thread in here. Time (`now_ns`, nanoseconds of a monotonic clock),
//! datagrams and seeds for all randomness come in; datagrams, events and the next deadline come
//! out. The same code runs over sockets, in a simulated network and under a fuzzer.
//!
//! # Driving contract
//!
//! 1. Create a [`Node`] with a [`Config`] and fresh randomness ([`Node::with_secrets`]). Add peers whenever.
//! 2. Give it every datagram that arrives, with [`Node::handle_datagrams`], before anything of
//!    step 3: a process that was stopped must find the answers waiting in its socket before it
//!    concludes that nobody answered. Call [`Node::handle_empty`] when none is left, if that is
//!    certain.
//! 3. Call [`Node::handle_deadline`] once the time that [`Node::next_deadline`] names has come.
//!    Being late is safe: the node takes the delay as its own and holds it against nobody.
//! 4. After any of steps 2 and 3, and after the program's calls ([`Node::send`], [`Node::post`], …),
//!    call [`Node::poll_transmit`] until it returns `None`, and send each train. A train that the
//!    socket does not take now must be kept and sent later, before newer ones; one that is dropped
//!    counts as lost on the way. [`Node::handle_unsent`] tells it what waits for the host's own link, where
//!    the driver can ask for that.
//! 5. Call [`Node::next_event`] until it returns `None`, and look at the receives and sends waited
//!    for ([`Node::take_received`], [`Node::take_sent`]).
//! 6. Ask for [`Node::next_deadline`] again; sleep until then, or until a datagram or the program
//!    comes.
//!
//! The driver may have two more things to do, on any thread: with [`Config::seal_below`] to seal each train with what comes with
//! it ([`Unsealed`]), and with [`Config::open_below`] to open what arrives as far as a [`Keyring`] can, which hears of keys by
//! [`Node::take_key_news`]; [`Node::handle_opened`] takes what comes of it.
//!
//! `now_ns` never goes back. Calls take bounded time: a constant amount per datagram, per packet
//! produced and per deadline passed; but the end of a connection looks at all messages that wait, and memory that comes back at all
//! peers, if receives wait for some.

#![forbid(unsafe_code)]

mod channel;
mod config;
mod credit;
mod error;
mod event;
mod human_time;
mod message;
mod node;
mod obstacle;
mod quality;
mod rare;
pub mod seal;
mod state;
mod stats;
pub mod wire;

use std::fmt;

pub use channel::{
    AckPolicy, BASE_DATAGRAM, Congestion, DEFAULT_DATAGRAM, Recovery, datagram_cost,
};
pub use config::Config;
pub use credit::{CreditPolicy, CreditStats, GrantOrder};
pub use error::{Backlog, ConnectError, Hindrance, PeerLost, SendError, Starvation, Undelivered};
pub use event::Event;
pub use human_time::HumanTime;
pub use message::{
    Body, Buffer, Envelope, Match, Message, Outbound, Pool, RecvError, RecvTicket, SendTicket,
    Value,
};
pub use node::{KeyNews, Keyring, Node, Opened, Transmit, Unsealed, Unsent, Waiting};
pub use obstacle::Obstacle;
pub use quality::Quality;
pub use state::LinkState;
pub use stats::{Counters, Dropped, Limit, NodeStats, PeerStats, Shortage};
pub use wire::Terms;

/// Names a process of the job: a small integer from the address book (row U1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
