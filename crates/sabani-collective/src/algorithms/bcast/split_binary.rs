//! Broadcast down two binary trees: the root sends one half of the vector down each, segment by
//! segment, and each rank of one tree exchanges halves with its partner in the other. For long vectors
//! and many ranks: log P latency, and no link carries much more than the vector. Uses `segment_bytes`
//! and `window`.
//!
//! Counted from the root, odd ranks are the nodes of the left tree, even ones those of the right: node
//! `i` is rank `2i + 1` or `2i + 2`, and has the children `2i + 1` and `2i + 2`. With an even number of
//! ranks the last one has no partner; the root sends it the other half.

use crate::algorithms::shared::segments::Segments;
use crate::{After, Buffer, Context, Round, Schedule};

/// Two binary trees and an exchange.
pub(in crate::algorithms) struct SplitBinary;

/// Messages of the exchange, beside those of the trees.
const EXCHANGE: u8 = 1;

/// The segments of the left and the right half.
fn halves(cx: &Context) -> [Segments; 2] {
    let left = cx.total().div_ceil(2);
    [
        Segments::of(cx, 0, left),
        Segments::of(cx, left, cx.total() - left),
    ]
}

impl Schedule for SplitBinary {
    fn rounds(&self, cx: &Context) -> usize {
        halves(cx)[0].count()
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        match cx.relative(rank).checked_sub(1) {
            None => at_root(cx, k),
            Some(index) => below(cx, index, k),
        }
    }
}

/// The rank that gets the other half from the root.
fn alone(cx: &Context) -> Option<usize> {
    cx.size.is_multiple_of(2).then(|| cx.size - 1)
}

fn at_root(cx: &Context, k: usize) -> Round {
    let mut round = Round::new(cx);
    let after = After::rounds(cx.window());
    let halves = halves(cx).map(|half| half.get(Buffer::Output, k));
    for (tree, half) in halves.into_iter().enumerate() {
        if let Some(segment) = half.filter(|_| tree + 1 < cx.size) {
            round.send(cx.absolute(tree + 1), segment, after);
        }
    }
    if let (Some(alone), Some(segment)) = (alone(cx), halves[1]) {
        round.lane(EXCHANGE);
        round.send(cx.absolute(alone), segment, after);
    }
    round
}

/// `index` counts the ranks behind the root.
fn below(cx: &Context, index: usize, k: usize) -> Round {
    let mut round = Round::new(cx);
    let (tree, node) = (index % 2, index / 2);
    let relative = |node: usize| 2 * node + tree + 1;
    let after = After::rounds(cx.window());
    let halves = halves(cx).map(|half| half.get(Buffer::Output, k));
    let parent = node.checked_sub(1).map_or(0, |above| relative(above / 2));
    let partner = if alone(cx) == Some(index + 1) {
        None
    } else {
        Some(cx.absolute(2 * node + 2 - tree))
    };
    if let Some(mine) = halves[tree] {
        let got = round.recv(cx.absolute(parent), mine, after);
        let children = [2 * node + 1, 2 * node + 2].map(relative);
        for child in children.into_iter().filter(|child| *child < cx.size) {
            round.send(cx.absolute(child), mine, got);
        }
        if let Some(partner) = partner {
            round.lane(EXCHANGE).send(partner, mine, got);
        }
    }
    if let Some(other) = halves[1 - tree] {
        let from = partner.unwrap_or(cx.root);
        round.lane(EXCHANGE).recv(from, other, after);
    }
    round
}
