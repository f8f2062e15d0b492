//! One order of events, from a seed.

use super::world::{Event, World};

/// Chance from a seed.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// Something happens, if anything still can.
pub fn step(world: &mut World, chance: &mut Chance) -> bool {
    let events = world.events();
    if events.is_empty() {
        return false;
    }
    world.happen(events[chance.below(events.len())], None);
    true
}

/// All that can happen happens.
pub fn finish(world: &mut World, chance: &mut Chance) -> Result<(), String> {
    world.check()?;
    while step(world, chance) || world.remind() {
        world.check()?;
    }
    world.check_end()
}

/// Lets ranks agree while some die at the given steps, and returns the number of steps.
pub fn run(size: usize, chance: &mut Chance, deaths: &[(usize, usize)]) -> usize {
    let mut world = World::new(size, None);
    let fails = |why: String| -> ! { panic!("{size} ranks, deaths {deaths:?}: {why}") };
    for now in 0.. {
        for &(_, victim) in deaths.iter().filter(|(step, _)| *step == now) {
            if !world.dead.contains(&victim) {
                world.happen(Event::Dies(victim), None);
            }
        }
        world.check().unwrap_or_else(|why| fails(why));
        if !step(&mut world, chance) {
            world.check_end().unwrap_or_else(|why| fails(why));
            return now;
        }
    }
    unreachable!("it ends above")
}
