use super::*;
use crate::sync::{Arc, model, thread};

/// Counts how many there are.
struct Counted {
    number: u32,
    recycled: u32,
    alive: Arc<AtomicUsize>,
}

impl Recycle for Counted {
    fn recycle(&mut self) {
        self.recycled += 1;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

fn pool(slab_slots: usize) -> (Pool<Counted>, Arc<AtomicUsize>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(slab_slots, {
        let alive = alive.clone();
        move || {
            alive.fetch_add(1, Ordering::Relaxed);
            Counted {
                number: 0,
                recycled: 0,
                alive: alive.clone(),
            }
        }
    });
    (pool, alive)
}

fn numbered(pool: &mut Pool<Counted>, number: u32) -> Item<Counted> {
    pool.take(|counted| counted.number = number)
}

#[test]
fn buffers_go_round() {
    model(|| {
        let (mut pool, alive) = pool(2);
        let items: Vec<_> = (0..3).map(|number| numbered(&mut pool, number)).collect();
        assert_eq!(alive.load(Ordering::Relaxed), 4);
        assert!(items.iter().map(|item| item.number).eq(0..3));
        for (index, item) in items.into_iter().enumerate() {
            match index {
                0 => pool.give(item),
                _ => drop(item),
            }
        }
        // One at hand, the one that was given back, two that came back.
        let again: Vec<_> = (0..4).map(|_| pool.take(|_| ())).collect();
        assert_eq!(alive.load(Ordering::Relaxed), 4);
        let recycled: u32 = again.iter().map(|item| item.recycled).sum();
        assert_eq!(recycled, 3);
        drop((again, pool));
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn only_a_single_reference_changes_the_value() {
    model(|| {
        let (mut pool, _) = pool(1);
        let mut item = numbered(&mut pool, 1);
        let copy = item.clone();
        assert!(item.get_mut().is_none());
        pool.give(copy);
        item.get_mut().unwrap().number = 2;
        assert_eq!((item.number, item.recycled), (2, 0));
    });
}

#[test]
fn a_strange_buffer_goes_home() {
    model(|| {
        let ((mut ours, _), (mut theirs, alive)) = (pool(1), pool(1));
        let item = theirs.take(|_| ());
        ours.give(item);
        assert_eq!(theirs.take(|_| ()).recycled, 1);
        assert_eq!(alive.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn others_give_back_while_the_pool_takes() {
    model(|| {
        let (mut pool, alive) = pool(2);
        let [one, two] = [1, 2].map(|number| numbered(&mut pool, number));
        let givers = [one, two].map(|item| {
            thread::spawn(move || {
                assert!(item.number > 0);
                drop(item);
            })
        });
        // Either one that came back or a new one; each is in one hand only.
        let mut again = [3, 4].map(|number| numbered(&mut pool, number));
        again[0].get_mut().unwrap().number = 5;
        assert_eq!((again[0].number, again[1].number), (5, 4));
        for giver in givers {
            giver.join().unwrap();
        }
        drop((again, pool));
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn the_last_of_two_references_gives_back() {
    model(|| {
        let (mut pool, alive) = pool(1);
        let item = numbered(&mut pool, 7);
        let copy = item.clone();
        let other = thread::spawn(move || {
            assert_eq!(copy.number, 7);
            drop(copy);
        });
        pool.give(item);
        other.join().unwrap();
        assert_eq!(pool.take(|_| ()).recycled, 1);
        assert_eq!(alive.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_buffer_changes_hands_and_is_changed() {
    model(|| {
        let (mut pool, _) = pool(1);
        let mut item = numbered(&mut pool, 1);
        let copy = item.clone();
        let other = thread::spawn(move || copy.number);
        // Alone again only after the other has read.
        if let Some(counted) = item.get_mut() {
            counted.number = 2;
        }
        assert_eq!(other.join().unwrap(), 1);
    });
}

#[test]
fn buffers_outlive_the_pool() {
    model(|| {
        let (mut pool, alive) = pool(2);
        let [one, two] = [1, 2].map(|number| numbered(&mut pool, number));
        let givers = [one, two].map(|item| thread::spawn(move || drop(item)));
        drop(pool);
        for giver in givers {
            giver.join().unwrap();
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
#[cfg(not(loom))]
fn a_fill_that_panics_loses_nothing() {
    let (mut pool, alive) = pool(1);
    let fill = std::panic::AssertUnwindSafe(|| pool.take(|_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(fill).is_err());
    drop(pool.take(|_| ()));
    assert_eq!(alive.load(Ordering::Relaxed), 1);
}
