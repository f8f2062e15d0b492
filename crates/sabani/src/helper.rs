//! The helper thread: takes over when the program stays away, sleeps otherwise.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Error;
use crate::shared::Shared;

/// How long the program must stay away before the helper takes over. Shorter would cost wake-ups
/// while the program is busy with the library; longer would delay acknowledgements.
const AWAY: Duration = Duration::from_millis(1);

/// Starts the helper of a node.
pub(crate) fn start(shared: Arc<Shared>) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name("sabani-helper".into())
        .spawn(move || run(&shared))
        .map_err(Error::io("starting the helper thread"))
}

fn run(shared: &Shared) {
    let mut calls_seen = 0;
    let mut state = shared.lock_raw();
    while !state.stopping {
        state = if state.calls != calls_seen {
            calls_seen = state.calls;
            let nap = shared.helper.wait_timeout(state, AWAY);
            nap.unwrap_or_else(|poisoned| poisoned.into_inner()).0
        } else if shared.is_attended(&state) {
            state.helper_parked = true;
            let park = shared.helper.wait(state);
            park.unwrap_or_else(|poisoned| poisoned.into_inner())
        } else {
            shared.progress(&mut state);
            if shared.is_attended(&state) {
                continue;
            }
            shared.sleep(state, None, true)
        };
    }
}
