//! Gather straight to the root, which has a window of receives posted. With rendezvous, no more than
//! that is under way to it, whatever the number of ranks. For long blocks, and for different ones of
//! which only the root knows all. Uses `window`.

use super::{contribution, start};
use crate::{After, Buffer, Context, Round, Schedule};

/// In round `k` the rank `k` behind the root sends.
pub(in crate::algorithms) struct Linear;

impl Schedule for Linear {
    fn rounds(&self, cx: &Context) -> usize {
        cx.size
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = Round::new(cx);
        let sender = cx.absolute(k);
        if rank != cx.root {
            if rank == sender {
                round.send(cx.root, contribution(cx, rank), After::NOTHING);
            }
        } else if k == 0 {
            start(cx, &mut round);
        } else {
            let block = cx.block(Buffer::Output, sender);
            round.recv(sender, block, After::rounds(cx.window()));
        }
        round
    }
}
