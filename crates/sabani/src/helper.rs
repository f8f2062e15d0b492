//! The node's own thread. As the helper it takes over when the program stays away, and sleeps otherwise;
//! as the driver it does everything.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Error;
use crate::shared::{Shared, Who};
use crate::threads::Threads;

/// How long the program must stay away before the helper takes over. Shorter would cost wake-ups
/// while the program is busy with the library; longer would delay acknowledgements.
const AWAY: Duration = Duration::from_millis(1);
/// The same after the program has been busy for a while. Each look takes the core from the program
/// for some 20 µs where both share one: a thousand a second would show in every hundredth round
/// trip.
const AWAY_MAX: Duration = Duration::from_millis(4);

/// Starts the helper of a node, or its driver.
pub(crate) fn start(shared: Arc<Shared>, threads: &Threads) -> Result<JoinHandle<()>, Error> {
    let (name, run): (_, fn(&Shared)) = match shared.has_driver {
        true => ("sabani-driver", Shared::drive),
        false => ("sabani-helper", run),
    };
    threads
        .spawn(name, move || run(&shared))
        .map_err(Error::io("starting the helper thread"))
}

fn run(shared: &Shared) {
    shared.set_helper(thread::current());
    let mut calls_seen = None;
    let mut nap = AWAY;
    loop {
        // A call since the last look: the program needs no help.
        let (calls, looks) = (shared.calls(), shared.looks());
        if calls_seen.replace(calls) != Some(calls) {
            thread::park_timeout(nap);
            if shared.calls() != calls {
                nap = AWAY_MAX.min(nap * 2);
                // It only takes what is here, or sends what waits for company: nobody looks at the socket, or at the clock.
                if shared.looks() == looks {
                    let mut state = shared.lock_raw();
                    if state.stopping {
                        return;
                    }
                    shared.progress(&mut state);
                }
                continue;
            }
        }
        nap = AWAY;
        let mut state = shared.lock_raw();
        if state.stopping {
            return;
        }
        if !shared.is_attended(&state) {
            shared.progress(&mut state);
        }
        if !shared.is_attended(&state) {
            let mut state = shared.sleep(state, None, Who::Helper);
            // A thread of the program that came meanwhile waits for the socket.
            shared.hand_over(&mut state);
            continue;
        }
        // A thread of the program sleeps on the socket itself, and calls when it leaves.
        state.helper_parked = true;
        drop(state);
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use crate::testing::pair;
    use crate::{Match, PeerId};

    #[test]
    fn a_helper_that_leaves_the_socket_hands_it_over() {
        let [here, there] = pair();
        for _ in 0..20 {
            while !here.shared().lock_raw().helper_sleeps() {
                thread::yield_now();
            }
            thread::scope(|scope| {
                scope.spawn(|| {
                    // Not before the other thread waits.
                    while !here.shared().lock_raw().program_sleeps() {
                        thread::yield_now();
                    }
                    there.send(PeerId(1), 0, b"now").unwrap();
                    there.flush().unwrap();
                });
                here.recv(Match::any().from(PeerId(2))).unwrap();
            });
            thread::sleep(Duration::from_millis(1));
        }
    }
}
