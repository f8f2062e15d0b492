//! The checker can fail: it finds mistakes planted into algorithms that are right.

use sabani_collective::check::{Fault, Wrong, prove};
use sabani_collective::{
    ALGORITHMS, Action, After, Buffer, Collective, Context, Counts, Hosts, Mode, Round, Schedule,
    Side, Span, Step,
};

/// An algorithm with one step changed.
struct Mutant {
    schedule: &'static dyn Schedule,
    rank: usize,
    round: usize,
    index: usize,
    change: fn(&mut Step),
}

impl Schedule for Mutant {
    fn rounds(&self, cx: &Context) -> usize {
        self.schedule.rounds(cx)
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        let mut round = self.schedule.round(cx, rank, k);
        if (rank, k) == (self.rank, self.round) {
            (self.change)(&mut round[self.index]);
        }
        round
    }

    fn scratch(&self, cx: &Context, rank: usize) -> usize {
        self.schedule.scratch(cx, rank)
    }
}

/// A rounds' function as a schedule.
struct Planted<F>(usize, F);

impl<F: Fn(&Context, usize, usize) -> Round + Sync> Schedule for Planted<F> {
    fn rounds(&self, _: &Context) -> usize {
        self.0
    }

    fn round(&self, cx: &Context, rank: usize, k: usize) -> Round {
        (self.1)(cx, rank, k)
    }

    fn scratch(&self, cx: &Context, _: usize) -> usize {
        cx.total()
    }
}

fn situation(collective: Collective, size: usize, commutative: bool) -> Vec<Context<'static>> {
    let counts = match collective {
        Collective::Barrier => Counts::Vector(0),
        Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::ReduceScatter
        | Collective::Alltoall => Counts::Each(2),
        _ => Counts::Vector(2 * size),
    };
    let mut cx = Context::new(size, counts);
    (cx.root, cx.commutative) = (size / 2 * usize::from(has_root(collective)), commutative);
    let hosts: Vec<_> = (0..size).map(|rank| rank / 3).collect();
    cx.hosts = Some(Box::leak(Box::new(Hosts::new(&hosts))));
    cx.parameters.segment_bytes = 3;
    cx.parameters.window = 2;
    vec![cx; size]
}

fn has_root(collective: Collective) -> bool {
    use Collective::{Bcast, Gather, Reduce, Scatter};
    matches!(collective, Bcast | Gather | Reduce | Scatter)
}

/// Changes each step of each algorithm in turn. Returns how many mutants there were, and those that the
/// checker did not find.
fn mutate(change: fn(&mut Step)) -> (usize, Vec<String>) {
    let (mut mutants, mut alive) = (0, Vec::new());
    for algorithm in ALGORITHMS {
        for (size, commutative) in [(5, false), (6, true), (8, false), (8, true)] {
            let contexts = situation(algorithm.collective, size, commutative);
            if !algorithm.schedule.fits(&contexts[0]) {
                continue;
            }
            for (rank, cx) in contexts.iter().enumerate() {
                for round in 0..algorithm.schedule.rounds(cx) {
                    let steps = algorithm.schedule.round(cx, rank, round);
                    for (index, step) in steps.iter().enumerate() {
                        let mut changed = *step;
                        change(&mut changed);
                        if changed == *step {
                            continue;
                        }
                        let mutant = Mutant {
                            schedule: algorithm.schedule,
                            rank,
                            round,
                            index,
                            change,
                        };
                        mutants += 1;
                        if prove(algorithm.collective, &mutant, &contexts).is_ok() {
                            alive.push(format!(
                                "{algorithm:?} {size} {commutative} {rank}/{round}/{index} {step:?}"
                            ));
                        }
                    }
                }
            }
        }
    }
    (mutants, alive)
}

#[test]
fn a_step_left_out_is_found() {
    let (mutants, alive) = mutate(|step| {
        step.action = Action::Reduce {
            from: Span::EMPTY,
            into: Span::EMPTY,
            side: Side::Left,
        }
    });
    assert!(mutants > 1000 && alive.is_empty(), "{mutants}: {alive:#?}");
}

#[test]
fn a_wrong_peer_is_found() {
    let (mutants, alive) = mutate(|step| match &mut step.action {
        Action::Send { to: peer, .. } | Action::Recv { from: peer, .. } => *peer ^= 1,
        _ => {}
    });
    assert!(mutants > 1000 && alive.is_empty(), "{mutants}: {alive:#?}");
}

#[test]
fn a_wrong_place_is_found() {
    let (mutants, alive) = mutate(|step| match &mut step.action {
        Action::Send { from: span, .. }
        | Action::Recv { into: span, .. }
        | Action::Copy { into: span, .. }
        | Action::Reduce { from: span, .. }
            if span.len > 0 =>
        {
            span.start += 1;
        }
        _ => {}
    });
    assert!(mutants > 1000 && alive.is_empty(), "{mutants}: {alive:#?}");
}

#[test]
fn a_wrong_length_is_found() {
    let (mutants, alive) = mutate(|step| match &mut step.action {
        Action::Send { from: span, .. }
        | Action::Recv { into: span, .. }
        | Action::Copy { into: span, .. }
        | Action::Reduce { from: span, .. } => span.len = span.len.saturating_sub(1),
    });
    assert!(mutants > 1000 && alive.is_empty(), "{mutants}: {alive:#?}");
}

#[test]
fn a_side_mixed_up_is_found_where_it_matters() {
    let flip: fn(&mut Step) = |step| {
        if let Action::Reduce { side, .. } = &mut step.action {
            *side = match side {
                Side::Left => Side::Right,
                Side::Right => Side::Left,
            };
        }
    };
    let (mutants, alive) = mutate(flip);
    let harmless = |mutant: &String| mutant.contains(" true ");
    assert!(mutants > 100 && alive.iter().all(harmless), "{alive:#?}");
    assert!(
        alive.len() < mutants * 3 / 4,
        "{} of {mutants}",
        alive.len()
    );
}

#[test]
fn a_mode_that_only_one_end_knows_is_found() {
    let (mutants, alive) = mutate(|step| match &mut step.action {
        Action::Send { mode, .. } | Action::Recv { mode, .. } => *mode = Mode::Rendezvous,
        _ => {}
    });
    assert!(mutants > 1000 && alive.is_empty(), "{mutants}: {alive:#?}");
}

/// Not every wait is needed for the result: some only bound what is under way.
#[test]
fn most_steps_that_do_not_wait_are_found() {
    let (mutants, alive) = mutate(|step| step.after = After::NOTHING);
    assert!(
        mutants > 1000 && alive.len() < mutants / 2,
        "{} of {mutants}: {alive:#?}",
        alive.len()
    );
}

fn found(collective: Collective, schedule: &dyn Schedule, contexts: &[Context]) -> Fault {
    prove(collective, schedule, contexts).expect_err("a mistake was planted")
}

#[test]
fn two_that_receive_before_they_send_are_stuck() {
    let both = Planted(1, |cx: &Context, rank: usize, _| {
        let mut round = Round::new(cx);
        let got = round.recv(1 - rank, Span::EMPTY, After::NOTHING);
        round.send(1 - rank, Span::EMPTY, got);
        round
    });
    let contexts = vec![Context::new(2, Counts::Vector(0)); 2];
    let fault = found(Collective::Barrier, &both, &contexts);
    assert_eq!(fault.what, Wrong::Stuck(Some(1)));
}

#[test]
fn sends_around_a_ring_that_need_a_buffer_are_stuck() {
    let ring = Planted(1, |cx: &Context, rank: usize, _| {
        let mut round = Round::new(cx);
        let sent = round.send((rank + 1) % cx.size, Span::EMPTY, After::NOTHING);
        round.recv((rank + cx.size - 1) % cx.size, Span::EMPTY, sent);
        round
    });
    let contexts = vec![Context::new(5, Counts::Vector(0)); 5];
    let fault = found(Collective::Barrier, &ring, &contexts);
    assert!(matches!(fault.what, Wrong::Stuck(_)), "{fault}");
}

#[test]
fn a_barrier_that_some_leave_early_is_found() {
    let dissemination = Collective::Barrier.algorithm("dissemination").unwrap();
    let hasty = Planted(3, |cx: &Context, rank: usize, k| {
        let mut round = dissemination.schedule.round(cx, rank, k);
        round
            .iter_mut()
            .for_each(|step| step.after = After::NOTHING);
        round
    });
    let contexts = vec![Context::new(8, Counts::Vector(0)); 8];
    let fault = found(Collective::Barrier, &hasty, &contexts);
    assert!(matches!(fault.what, Wrong::LeavesBefore(_)), "{fault}");
}

#[test]
fn messages_that_could_be_mistaken_for_each_other_are_found() {
    let twice = Planted(1, |cx: &Context, rank: usize, _| {
        let mut round = Round::new(cx);
        for _ in 0..2 {
            match rank {
                0 => round.send(1, Span::EMPTY, After::NOTHING),
                _ => round.recv(0, Span::EMPTY, After::NOTHING),
            };
        }
        round
    });
    let contexts = vec![Context::new(2, Counts::Vector(0)); 2];
    let fault = found(Collective::Barrier, &twice, &contexts);
    assert_eq!(fault.what, Wrong::Ambiguous);
}

#[test]
fn a_written_input_and_a_contribution_counted_twice_are_found() {
    let planted = |into: Buffer| {
        move |cx: &Context, _: usize, _: usize| {
            let mut round = Round::new(cx);
            let own = Span::new(Buffer::Input, 0, 1);
            let into = Span::new(into, 0, 1);
            let copied = round.copy(own, into, After::NOTHING);
            round.reduce(own, into, Side::Right, copied);
            round
        }
    };
    let contexts = [Context::new(1, Counts::Vector(1))];
    let fault = found(
        Collective::Scan,
        &Planted(1, planted(Buffer::Input)),
        &contexts,
    );
    assert_eq!(fault.what, Wrong::InputWritten);
    let fault = found(
        Collective::Scan,
        &Planted(1, planted(Buffer::Output)),
        &contexts,
    );
    assert_eq!(fault.what, Wrong::Mixed);
}
