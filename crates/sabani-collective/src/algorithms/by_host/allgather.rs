//! Allgather: to the leader of each host, between the leaders, and to all ranks of each host. The ranks of
//! each host must follow each other, so that its blocks do.

use super::fits;
use super::phase::{PHASES, Phase, Phases};
use crate::{Buffer, Context, Counts, Schedule};

/// Its parts.
pub(in crate::algorithms) struct Allgather {
    pub(in crate::algorithms) gather: &'static dyn Schedule,
    pub(in crate::algorithms) across: &'static dyn Schedule,
    pub(in crate::algorithms) bcast: &'static dyn Schedule,
}

impl Phases for Allgather {
    fn fits(&self, cx: &Context) -> bool {
        fits(cx, true)
    }

    fn phases<'p>(&'p self, cx: &'p Context<'p>, rank: usize) -> [Option<Phase<'p>>; PHASES] {
        let first = cx
            .hosts
            .map_or(0, |hosts| hosts.members(hosts.place(rank).0)[0]);
        let of_host = Context {
            counts: Counts::Part { of: cx, first },
            ..*cx
        };
        let of_hosts = Context {
            counts: Counts::Groups {
                of: cx,
                firsts: cx.hosts.map_or(&[], |hosts| hosts.starts()),
            },
            in_place: true,
            ..*cx
        };
        let whole = Context {
            counts: Counts::Vector(cx.total()),
            ..*cx
        };
        let gather =
            Phase::within(self.gather, &of_host, rank).output(Buffer::Output, cx.offset(first));
        let gather = match cx.in_place {
            true => gather.input(Buffer::Output, cx.offset(rank)),
            false => gather,
        };
        [
            Some(gather),
            Some(Phase::across(self.across, &of_hosts, rank)),
            Some(Phase::within(self.bcast, &whole, rank)),
        ]
    }
}
