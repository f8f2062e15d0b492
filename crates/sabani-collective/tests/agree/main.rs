//! The agreement survives every death at every moment: all that can happen is tried for few ranks, each
//! death and each pair of deaths at each step for more, and chance for up to 33.

mod chance;
mod world;

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use chance::{Chance, run};
use sabani_collective::agree::Message;
use world::{Event, Mistake, World};

/// What may happen to ranks.
#[derive(Clone, Copy, Debug)]
struct Fate {
    ranks: usize,
    /// So many may die.
    deaths: usize,
    /// One of them may be taken for dead by some, which itself takes nobody for dead who lives.
    mistaken: bool,
}

impl Fate {
    /// What may happen next.
    fn events(self, world: &World) -> Vec<Event> {
        let mut events = world.events();
        if world.dead.len() < self.deaths {
            events.extend(world.living().map(Event::Dies));
        }
        let is_the_one = |of: &usize| world.mistaken.is_empty() || world.mistaken.contains(of);
        for of in world.living().filter(is_the_one).filter(|_| self.mistaken) {
            let others = world.living().filter(|&who| who != of);
            events.extend(others.map(|who| Event::Learns(who, of)));
        }
        events
    }

    /// Tries everything that may happen, and returns in how many different states the ranks may be.
    fn explore(self, mistake: Option<Mistake>) -> Result<usize, String> {
        let hasher = RandomState::new();
        let mut seen = HashSet::new();
        let mut open = vec![World::new(self.ranks, mistake)];
        while let Some(world) = open.pop() {
            // 64 bits stand for a state: so few of them are still told apart.
            if !seen.insert(hasher.hash_one(&world)) {
                continue;
            }
            world.check()?;
            if world.events().is_empty() {
                let mut reminded = world.clone();
                match reminded.remind() {
                    true => open.push(reminded),
                    false => world.check_end()?,
                }
            }
            for event in self.events(&world) {
                let mut next = world.clone();
                next.happen(event, mistake);
                open.push(next);
            }
        }
        Ok(seen.len())
    }

    fn explore_without_mistake(self) {
        let states = self.explore(None);
        let states = states.unwrap_or_else(|why| panic!("{self:?}: {why}"));
        println!("{self:?}: {states} states");
    }
}

fn fate(ranks: usize, deaths: usize, mistaken: bool) -> Fate {
    Fate {
        ranks,
        deaths,
        mistaken,
    }
}

#[test]
fn few_ranks_agree_whatever_happens() {
    for (ranks, deaths) in [(1, 1), (2, 2), (3, 3), (4, 1)] {
        fate(ranks, deaths, false).explore_without_mistake();
    }
}

#[test]
fn a_rank_taken_for_dead_by_mistake_decides_the_same() {
    for (ranks, deaths) in [(2, 1), (3, 2)] {
        fate(ranks, deaths, true).explore_without_mistake();
    }
}

#[test]
fn one_death_at_each_step() {
    for size in 1..=8 {
        for seed in 0..10 {
            let steps = run(size, &mut Chance(seed), &[]);
            for victim in 0..size {
                for step in 0..=steps {
                    run(size, &mut Chance(seed), &[(step, victim)]);
                }
            }
        }
    }
}

#[test]
fn two_deaths_at_each_two_steps() {
    for size in 2..=6 {
        let steps = run(size, &mut Chance(size as u64), &[]);
        for first in 0..size {
            for second in (0..size).filter(|&second| second != first) {
                // The first death makes the rest longer.
                for (one, other) in
                    (0..=steps).flat_map(|one| (one..2 * steps).map(move |o| (one, o)))
                {
                    let mut chance = Chance(size as u64);
                    run(size, &mut chance, &[(one, first), (other, second)]);
                }
            }
        }
    }
}

#[test]
fn any_number_of_deaths_at_random() {
    for seed in 0..3_000 {
        let mut chance = Chance(seed);
        let size = 1 + chance.below(33);
        let deaths: Vec<_> = (0..chance.below(size + 1))
            .map(|_| (chance.below(8 * size), chance.below(size)))
            .collect();
        run(size, &mut chance, &deaths);
    }
}

/// The same where some take a rank for dead that lives.
#[test]
fn mistakes_about_a_rank_at_random() {
    let mut shut_out = 0;
    for seed in 0..3_000 {
        let mut chance = Chance(seed);
        let size = 2 + chance.below(9);
        let mistaken = chance.below(size);
        let mut world = World::new(size, None);
        for _ in 0..20 * size {
            let who = chance.below(size);
            let is_alive = who != mistaken && !world.dead.contains(&who);
            if is_alive && chance.below(4 * size) == 0 {
                world.happen(Event::Learns(who, mistaken), None);
            }
            if is_alive && chance.below(10 * size) == 0 {
                world.happen(Event::Dies(who), None);
            }
            chance::step(&mut world, &mut chance);
        }
        chance::finish(&mut world, &mut chance).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let decision = world.ranks[mistaken].decision();
        shut_out += usize::from(decision.is_some_and(|d| d.failed.contains(&mistaken)));
    }
    assert!(shut_out > 100, "only {shut_out} were shut out");
}

/// A protocol with a mistake in it does not pass: so the checks check something.
#[test]
fn planted_mistakes_are_found() {
    let mistakes: [(&str, Mistake); 4] = [
        (
            "decides before all have accepted",
            |(from, to, message), _| {
                let answer = (to, from, Message::Accept);
                let asks = matches!(message, Message::Propose { .. });
                [(from, to, message)]
                    .into_iter()
                    .chain(asks.then_some(answer))
                    .collect()
            },
        ),
        (
            "keeps what was accepted to itself",
            |(from, to, mut message), _| {
                if let Message::Contribute { contribution, .. } = &mut message {
                    contribution.accepted = None;
                }
                vec![(from, to, message)]
            },
        ),
        (
            "does not ask when it takes over",
            |parcel, _| match parcel.2 {
                Message::Ask { .. } => vec![],
                _ => vec![parcel],
            },
        ),
        (
            "says nothing once it has decided",
            |parcel, living| match parcel.2 {
                Message::Decided(_) if living.first() != Some(&parcel.0) => vec![],
                _ => vec![parcel],
            },
        ),
    ];
    for (name, mistake) in mistakes {
        let died = fate(3, 2, false).explore(Some(mistake));
        let found = died.and_then(|_| fate(3, 2, true).explore(Some(mistake)));
        println!("{name}: {found:?}");
        assert!(found.is_err(), "a protocol that {name} passes");
    }
}
