//! Work that is divided among the machine's cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does some work for each item, on as many threads as there are cores; the results are in the items' order, and
/// depend on it alone if each of them depends on its item alone.
///
/// # Panics
/// If the work does.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    on_threads(cores, items, work)
}

fn on_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let turns = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let mine = turns.map_while(|at| Some((at, work(items.get(at)?))));
        mine.collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_turns)).collect();
        let mut done = take_turns();
        for other in others {
            match other.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_items_whoever_made_them() {
        let items: Vec<u64> = (0..100).collect();
        let expected: Vec<u64> = items.iter().map(|item| item * item).collect();
        for threads in [1, 2, 7, 200] {
            let squares = on_threads(threads, &items, |item| {
                thread::yield_now();
                item * item
            });
            assert_eq!(squares, expected, "{threads} threads");
        }
        assert!(map(&[], |item: &u64| *item).is_empty());
    }

    #[test]
    #[should_panic(expected = "item 5")]
    fn a_panic_is_passed_on() {
        on_threads(2, &[1, 5, 2], |item| assert!(*item != 5, "item {item}"));
    }
}
