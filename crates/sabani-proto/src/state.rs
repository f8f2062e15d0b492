//! The state machine of a connection (U13, U14): one for what programs do and for what the library
//! does by itself. `docs/protocol.md` has the same table, and a test compares them.

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LinkState {
    /// There is none: the peer is known by address only.
    #[default]
    Known,
    /// A handshake is under way. Messages queue.
    Connecting,
    /// Messages flow.
    Open,
    /// The peer was asked and has not answered for half of [`Config::dead_after_ns`]: the library's
    /// own disconnect. Messages queue; they flow again with the first packet that comes.
    ///
    /// [`Config::dead_after_ns`]: crate::Config::dead_after_ns
    Silent,
    /// This program has disconnected, until it reconnects. What was accepted before is kept; nothing
    /// more is accepted.
    Disconnected,
    /// The peer's program has disconnected. Messages queue until it reconnects.
    DisconnectedByPeer,
    /// Both programs have disconnected.
    DisconnectedByBoth,
    /// This program has disconnected, and there is no connection: one is made when it reconnects.
    Barred,
    /// This program closes its node.
    Closing,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A message is to be sent, or the program wants a connection.
    Wanted,
    /// A handshake is complete, whoever began it.
    Made,
    /// The peer was asked and has not answered for half of the time after which it counts as lost.
    Unanswered,
    /// A packet came from a peer that was silent.
    Heard,
    /// This program disconnects, or reconnects.
    Disconnect,
    Reconnect,
    /// The peer says that its program has.
    PeerDisconnect,
    PeerReconnect,
    /// This program closes its node.
    Close,
    /// The connection, or the attempt to make one, has ended for whatever reason.
    End,
}

use Happening::{
    Close, Disconnect, End, Heard, Made, PeerDisconnect, PeerReconnect, Reconnect, Unanswered,
    Wanted,
};
use LinkState::{
    Barred, Closing, Connecting, Disconnected, DisconnectedByBoth, DisconnectedByPeer, Known, Open,
    Silent,
};

/// Every change of state there is: what is not in it changes nothing.
const TABLE: [(LinkState, Happening, LinkState); 31] = [
    (Known, Wanted, Connecting),
    (Known, Made, Open),
    (Known, Disconnect, Barred),
    (Connecting, Made, Open),
    (Connecting, Disconnect, Barred),
    (Connecting, End, Known),
    (Open, Unanswered, Silent),
    (Open, Disconnect, Disconnected),
    (Open, PeerDisconnect, DisconnectedByPeer),
    (Open, Close, Closing),
    (Open, End, Known),
    (Silent, Heard, Open),
    (Silent, Made, Open),
    (Silent, Disconnect, Disconnected),
    (Silent, Close, Closing),
    (Silent, End, Known),
    (Disconnected, Reconnect, Open),
    (Disconnected, PeerDisconnect, DisconnectedByBoth),
    (Disconnected, Close, Closing),
    (Disconnected, End, Barred),
    (DisconnectedByPeer, PeerReconnect, Open),
    (DisconnectedByPeer, Disconnect, DisconnectedByBoth),
    (DisconnectedByPeer, Close, Closing),
    (DisconnectedByPeer, End, Known),
    (DisconnectedByBoth, Reconnect, DisconnectedByPeer),
    (DisconnectedByBoth, PeerReconnect, Disconnected),
    (DisconnectedByBoth, Close, Closing),
    (DisconnectedByBoth, End, Barred),
    (Barred, Made, Disconnected),
    (Barred, Reconnect, Connecting),
    (Closing, End, Known),
];

impl LinkState {
    /// The state after something has happened.
    pub(crate) fn after(self, what: Happening) -> LinkState {
        let row = TABLE
            .iter()
            .find(|&&(state, happening, _)| (state, happening) == (self, what));
        row.map_or(self, |&(_, _, next)| next)
    }

    /// Whether there is a connection, whatever it is doing.
    pub fn is_connected(self) -> bool {
        !matches!(self, Known | Connecting | Barred)
    }

    /// Whether this program has disconnected and not reconnected.
    pub fn is_disconnected(self) -> bool {
        matches!(self, Disconnected | DisconnectedByBoth | Barred)
    }

    /// Whether either program has disconnected, so that no messages come.
    pub(crate) fn is_apart(self) -> bool {
        self.is_disconnected() || self.is_disconnected_by_peer()
    }

    /// Whether the peer's program has.
    pub fn is_disconnected_by_peer(self) -> bool {
        matches!(self, DisconnectedByPeer | DisconnectedByBoth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variant's name as documents write it: `DisconnectedByPeer` is "disconnected by peer".
    fn words(variant: impl std::fmt::Debug) -> String {
        let name = format!("{variant:?}");
        let parts = name.split_inclusive(|_: char| true).map(|letter| {
            let lower = letter.to_lowercase();
            if lower == letter {
                lower
            } else {
                format!(" {lower}")
            }
        });
        parts.collect::<String>().trim_start().to_owned()
    }

    #[test]
    fn the_protocols_table_is_this_one() {
        let text = include_str!("../../../docs/protocol.md");
        let table = text.split("### State of a connection").nth(1);
        let table = table.expect("a section of that name");
        let lines = table.lines().skip_while(|line| !line.starts_with("|---"));
        let lines = lines.skip(1).take_while(|line| line.starts_with('|'));
        let documented = lines.map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            [
                cells[1].to_owned(),
                cells[2].to_owned(),
                cells[4].to_owned(),
            ]
        });
        let ours = TABLE.map(|(state, what, next)| [words(state), words(what), words(next)]);
        assert_eq!(documented.collect::<Vec<_>>(), ours);
    }

    #[test]
    fn every_state_ends_where_it_began() {
        for (state, _, next) in TABLE {
            assert_ne!(state, next);
            let barred = next.is_disconnected() && next != Barred;
            let end = if barred { Barred } else { Known };
            if next.is_connected() && next != Closing {
                assert_eq!(next.after(End), end, "{next:?}");
            }
        }
    }
}
