//! `sabani send` and `sabani receive`: files and folders between machines, over Sabani's messages.
//!
//! [`protocol`] says what the two tell each other. On the sending side, [`sender`] starts threads,
//! [`walk`] finds files, [`upload`] sends one, [`link`] holds the connection. On the receiving
//! side, [`receiver`] is the program, [`desk`] greets senders, [`listener`] hears one of them out, and
//! hands what it says to those that write, [`worker`] is one of these, [`incoming`] takes one file,
//! [`lease`] keeps two senders from the same one, and [`store`] is the folder, from which nothing
//! escapes. [`progress`] is what people see, [`seldom`] what keeps that short.
//!
//! Whoever has the job key may be at the other end: what one of them says, or fails to say, is an error
//! of its own, and neither ends the program nor holds up others.

mod desk;
mod incoming;
mod lease;
mod link;
mod listener;
mod path;
mod progress;
mod protocol;
pub mod receiver;
mod seldom;
pub mod sender;
mod store;
mod upload;
mod walk;
mod worker;

use std::time::Duration;

use sabani::{Error, Match, Message, Node};

use crate::interrupt::TICK;

/// The port if none is said: SABN on a telephone's keys.
const DEFAULT_PORT: u16 = 7226;
/// How long a receiver is waited for that has never answered.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A silent peer is given up sooner than Sabani's default, because going on later costs little.
const DEAD_AFTER: Duration = Duration::from_secs(5);
/// But not sooner than this, for short breaks are common.
const DEAD_AFTER_MIN: Duration = Duration::from_secs(1);
/// Disks are what is waited for here: a core that spins would only be missed elsewhere.
const SPIN: Duration = Duration::ZERO;

/// What a little wait for a message has brought.
enum Received {
    Message(Message),
    /// One of more bytes than any that the protocol knows. It is thrown away before memory is taken for it,
    /// which would be missing for others'.
    TooLong(u64),
    Nothing,
}

/// Waits a little for a message of at most `max` bytes.
///
/// # Errors
/// As [`Node::recv_timeout`].
fn receive(node: &Node, wanted: Match, max: u64) -> Result<Received, Error> {
    let Some(envelope) = node.probe_timeout(wanted, TICK)? else {
        return Ok(Received::Nothing);
    };
    let this = Match::any().from(envelope.source).tag(envelope.tag);
    if envelope.len > max {
        node.discard(this)?;
        return Ok(Received::TooLong(envelope.len));
    }
    let message = node.recv_timeout(this, TICK)?;
    Ok(message.map_or(Received::Nothing, Received::Message))
}
