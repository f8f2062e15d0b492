//! Allreduce: all get the combination of all ranks' vectors. They work in the output.

pub(super) mod rabenseifner;
pub(super) mod recursive_doubling;
pub(super) mod ring;

use super::shared::fold::{Fold, Role};
use crate::{After, Buffer, Context, Round, Side};

/// The contribution goes into the output, in round 0.
fn start(cx: &Context, round: &mut Round) -> After {
    if cx.in_place {
        return After::NOTHING;
    }
    let own = cx.vector(Buffer::Input);
    round.copy(own, own.within(Buffer::Output), After::NOTHING)
}

/// Round 0 where ranks stand aside: they give their vectors to their neighbours.
fn fold_in(cx: &Context, fold: Fold, rank: usize) -> Round {
    let mut round = Round::new(cx);
    let own = cx.vector(cx.contribution());
    let arrival = cx.vector(Buffer::Scratch);
    match fold.role(rank) {
        Role::Aside(to) => {
            round.send(to, own, After::NOTHING);
        }
        Role::Takes(_, helped) => {
            let started = start(cx, &mut round);
            if let Some(from) = helped {
                let got = round.recv(from, arrival, After::NOTHING);
                let sum = own.within(Buffer::Output);
                round.reduce(arrival, sum, Side::Left, got.and(started));
            }
        }
    }
    round
}

/// The last round where ranks stand aside: they get the result.
fn fold_out(cx: &Context, fold: Fold, rank: usize) -> Round {
    let mut round = Round::new(cx);
    let result = cx.vector(Buffer::Output);
    match fold.role(rank) {
        Role::Aside(from) => {
            round.recv(from, result, After::PREVIOUS);
        }
        Role::Takes(_, Some(helped)) => {
            round.send(helped, result, After::PREVIOUS);
        }
        Role::Takes(_, None) => {}
    }
    round
}
