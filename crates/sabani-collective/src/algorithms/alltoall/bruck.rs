//! Bruck's all-to-all: log P rounds, in each of which half of all blocks go on together. For short
//! blocks of equal length.
//!
//! In scratch memory block `i` is first what goes to the rank `i` further. In round `k` the blocks
//! with bit `k` in `i` go to the rank `2^k` further, so at the end each has gone as far as it has to, and
//! block `i` is what came from the rank `i` before.

use crate::algorithms::shared::log2_ceil;
use crate::step::Repeat;
use crate::{After, Buffer, Context, Counts, Round, Schedule, Span};

/// Blocks go on by powers of two.
pub(in crate::algorithms) struct Bruck;

/// Blocks with bit `k` lie in runs of `2^k`: some whole runs, and a last one that may be shorter.
struct Runs {
    run: usize,
    whole: usize,
    rest: usize,
}

impl Runs {
    fn new(size: usize, k: usize) -> Self {
        let run = 1 << k;
        let rest = size % (2 * run);
        Runs {
            run,
            whole: size / (2 * run),
            rest: rest.saturating_sub(run),
        }
    }

    fn blocks(&self) -> usize {
        self.whole * self.run + self.rest
    }
}

impl Schedule for Bruck {
    fn fits(&self, cx: &Context) -> bool {
        matches!(cx.counts, Counts::Each(_))
    }

    fn rounds(&self, cx: &Context) -> usize {
        log2_ceil(cx.size) + 2
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        match k {
            0 => turn(cx, rank),
            _ if k <= log2_ceil(cx.size) => pass_on(cx, rank, k - 1),
            _ => turn_back(cx, rank),
        }
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        cx.total() + 2 * packed_room(cx)
    }
}

/// The most elements that go on together.
fn packed_room(cx: &Context) -> usize {
    cx.size.div_ceil(2) * cx.offset(1)
}

fn turn(cx: &Context, rank: usize) -> Round {
    let mut round = Round::new(cx);
    let behind = cx.size - rank;
    let input = |from, to| cx.blocks(Buffer::Input, from, to);
    let place = |from, to| cx.blocks(Buffer::Scratch, from, to);
    round.copy(input(rank, cx.size), place(0, behind), After::NOTHING);
    round.copy(input(0, rank), place(behind, cx.size), After::NOTHING);
    round
}

fn pass_on(cx: &Context, rank: usize, k: usize) -> Round {
    let mut round = Round::new(cx);
    let (len, runs) = (cx.offset(1), Runs::new(cx.size, k));
    let distance = runs.run;
    let packed = |first: usize| {
        move |block: usize, count: usize| {
            Span::new(Buffer::Scratch, first + block * len, count * len)
        }
    };
    let (held, outgoing) = (packed(0), packed(cx.total()));
    let incoming = packed(cx.total() + packed_room(cx));
    let (run, stride) = (runs.run, (runs.run * len) as isize);
    let pack = Repeat {
        times: runs.whole,
        from_stride: 2 * stride,
        into_stride: stride,
    };
    let unpack = Repeat {
        from_stride: stride,
        into_stride: 2 * stride,
        ..pack
    };
    let last = (2 * runs.whole + 1) * run;
    let whole = runs.whole * run;
    let ready = round
        .copy_times(held(run, run), outgoing(0, run), pack, After::PREVIOUS)
        .and(round.copy(
            held(last, runs.rest),
            outgoing(whole, runs.rest),
            After::PREVIOUS,
        ));
    let (to, from) = (rank + distance, rank + cx.size - distance);
    round.send(to % cx.size, outgoing(0, runs.blocks()), ready);
    let arrival = incoming(0, runs.blocks());
    let got = round
        .recv(from % cx.size, arrival, After::PREVIOUS)
        .and(ready);
    round.copy_times(incoming(0, run), held(run, run), unpack, got);
    round.copy(incoming(whole, runs.rest), held(last, runs.rest), got);
    round
}

fn turn_back(cx: &Context, rank: usize) -> Round {
    let mut round = Round::new(cx);
    let stride = cx.offset(1) as isize;
    let mut backwards = |first: usize, source: usize, times: usize| {
        let repeat = Repeat {
            times,
            from_stride: stride,
            into_stride: -stride,
        };
        let from = cx.block(Buffer::Scratch, first);
        let into = cx.block(Buffer::Output, source);
        round.copy_times(from, into, repeat, After::PREVIOUS);
    };
    // Block `i` came from `rank - i`, or, beyond rank 0, from the last ranks.
    backwards(0, rank, rank + 1);
    if rank + 1 < cx.size {
        backwards(rank + 1, cx.size - 1, cx.size - 1 - rank);
    }
    round
}
