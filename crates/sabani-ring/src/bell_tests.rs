use super::*;
use crate::sync::{Arc, AtomicUsize, model, thread};

/// Longer than any test; under the model checker time does not pass at all.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn no_call_is_missed() {
    model(|| {
        let shared = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let ringer = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.store(1, Ordering::Relaxed);
                Bell::ring_all([&shared.0]);
            }
        });
        let (bell, published) = &*shared;
        // If the call were missed, this would sleep for ever.
        bell.sleep(LONG, || published.load(Ordering::Relaxed) == 1);
        ringer.join().unwrap();
        assert_eq!(published.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn two_may_ring() {
    model(|| {
        let shared = Arc::new((Bell::new(), AtomicUsize::new(0)));
        let ringers = [1, 2].map(|amount| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.fetch_add(amount, Ordering::Relaxed);
                Bell::ring_all([&shared.0]);
            })
        });
        let (bell, published) = &*shared;
        bell.sleep(LONG, || published.load(Ordering::Relaxed) > 0);
        assert!(published.load(Ordering::Relaxed) > 0);
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}
