use super::*;
use crate::sync::{Arc, model, thread};

/// Adds one, not at once: who comes between is noticed.
fn add(mutex: &BiasedMutex<u32>) {
    let mut value = mutex.lock();
    let before = *value;
    thread::yield_now();
    *value = before + 1;
}

/// A mutex that this thread is favoured by, and that counts its turns.
fn favouring() -> Arc<BiasedMutex<u32>> {
    let mutex = Arc::new(BiasedMutex::new(0));
    (0..FAVOURED_AFTER).for_each(|_| add(&mutex));
    assert_eq!(mutex.favoured.load(Ordering::Relaxed), here());
    mutex
}

/// Another thread has so many turns.
fn another(mutex: &Arc<BiasedMutex<u32>>, turns: u32) -> thread::JoinHandle<()> {
    let mutex = mutex.clone();
    thread::spawn(move || (0..turns).for_each(|_| add(&mutex)))
}

#[test]
fn who_comes_between_waits_for_the_favoured_thread_and_sees_what_it_wrote() {
    model(|| {
        let mutex = favouring();
        let other = another(&mutex, 1);
        add(&mutex);
        other.join().unwrap();
        assert_eq!(*mutex.lock(), FAVOURED_AFTER + 2);
    });
}

#[test]
fn the_favour_can_come_back_while_others_come() {
    model(|| {
        let mutex = favouring();
        another(&mutex, 2).join().unwrap();
        let third = another(&mutex, 1);
        (0..2 * FAVOURED_AFTER).for_each(|_| add(&mutex));
        third.join().unwrap();
        assert_eq!(*mutex.lock(), 3 * FAVOURED_AFTER + 3);
    });
}

/// It might still write to what the other one would then have.
#[test]
fn no_second_thread_is_ever_favoured() {
    model(|| {
        let mutex = favouring();
        another(&mutex, 4 * FAVOURED_AFTER).join().unwrap();
        assert_eq!(mutex.favoured.load(Ordering::Relaxed), 0);
    });
}

#[test]
#[cfg(not(loom))]
fn many_threads_count_right() {
    const EACH: u32 = if cfg!(miri) { 50 } else { 50_000 };
    let mutex = BiasedMutex::new(0);
    std::thread::scope(|scope| {
        for thread in 1..4 {
            let mutex = &mutex;
            scope.spawn(move || {
                for turn in 0..EACH / thread {
                    *mutex.lock() += 1;
                    if turn % 100 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(*mutex.lock(), EACH + EACH / 2 + EACH / 3);
}

#[test]
#[cfg(not(loom))]
fn a_panic_leaves_the_value_to_others() {
    let mutex = BiasedMutex::new(0);
    for turn in 0..10 * FAVOURED_AFTER {
        let panics = || {
            let mut value = mutex.lock();
            *value = turn;
            panic!("expected");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(*mutex.lock(), turn);
    }
    let other = std::thread::scope(|scope| scope.spawn(|| *mutex.lock()).join().unwrap());
    assert_eq!(other, 10 * FAVOURED_AFTER - 1);
}

#[test]
#[cfg(not(loom))]
#[should_panic(expected = "this thread has the lock already")]
fn nobody_has_it_twice() {
    let mutex = BiasedMutex::new(0);
    for _ in 0..FAVOURED_AFTER {
        drop(mutex.lock());
    }
    let _first = mutex.lock();
    let _second = mutex.lock();
}
