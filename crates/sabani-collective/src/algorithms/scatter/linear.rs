//! Scatter straight from the root, which has a window of sends under way. For long blocks, and for
//! different ones of which only the root knows all. Uses `window`.

use super::{result, start};
use crate::{After, Buffer, Context, Round, Schedule};

/// In round `k` the rank `k` behind the root gets its block.
pub(in crate::algorithms) struct Linear;

impl Schedule for Linear {
    fn rounds(&self, cx: &Context) -> usize {
        cx.size
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let receiver = cx.absolute(k);
        if rank != cx.root {
            if rank == receiver {
                round.recv(cx.root, result(cx, rank), After::NOTHING);
            }
        } else if k == 0 {
            start(cx, &mut round);
        } else {
            let block = cx.block(Buffer::Input, receiver);
            round.send(receiver, block, After::rounds(cx.window()));
        }
        round
    }
}
