//! All-to-all straight between pairs: one block for each pair, no copies. The algorithms differ in who
//! talks to whom in a round and in how many rounds are under way; all of them take different counts.
//!
//! Of the PlogP-BR paper's algorithms, A is the windowed one with a window of P - 1, and B the one with
//! a window of 1 and rendezvous.

use crate::{After, Buffer, Context, Round, Schedule};

/// Messages from this length on are queued for longer than their acknowledgement takes.
const LONG_BYTES: usize = 32 << 10;

/// Who talks to whom in round `k`.
pub(in crate::algorithms) enum Order {
    /// To the rank `k` further, from the one `k` before.
    Shift,
    /// With the rank whose number differs in the bits of `k`, each way.
    Xor,
}

/// How many rounds are under way.
pub(in crate::algorithms) enum Window {
    /// One.
    One,
    /// As many as the parameters say.
    Parameter,
    /// All.
    All,
}

/// Blocks go straight to where they belong.
pub(in crate::algorithms) struct Direct {
    pub(in crate::algorithms) order: Order,
    pub(in crate::algorithms) window: Window,
}

impl Direct {
    /// To whom and from whom in a round, if they exist.
    fn peers(&self, cx: &Context, rank: usize, k: usize) -> Option<(usize, usize)> {
        match self.order {
            Order::Shift => Some(((rank + k) % cx.size, (rank + cx.size - k) % cx.size)),
            Order::Xor => {
                let peer = rank ^ k;
                (peer < cx.size).then_some((peer, peer))
            }
        }
    }

    fn after(&self, cx: &Context) -> After {
        match self.window {
            Window::One => After::PREVIOUS,
            Window::Parameter => After::rounds(cx.window()),
            Window::All => After::NOTHING,
        }
    }
}

impl Schedule for Direct {
    /// Of one round at a time. A sender that begins with its next partner's message while that to the last one is
    /// still queued is late for one of them; both get out of step with all others, and messages that should
    /// meet one from their receiver share links with others instead.
    fn in_step_from_bytes(&self, cx: &Context) -> usize {
        match self.after(cx) {
            After::PREVIOUS => LONG_BYTES,
            _ => usize::MAX,
        }
    }

    fn rounds(&self, cx: &Context) -> usize {
        match self.order {
            Order::Shift => cx.size,
            Order::Xor => cx.size.next_power_of_two(),
        }
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let after = self.after(cx);
        if k == 0 {
            let arrival = cx.block(Buffer::Output, rank);
            round.copy(cx.outgoing(rank), arrival, After::NOTHING);
        } else if let Some((to, from)) = self.peers(cx, rank, k) {
            round.recv(from, cx.block(Buffer::Output, from), after);
            round.send(to, cx.outgoing(to), after);
        }
        round
    }
}
