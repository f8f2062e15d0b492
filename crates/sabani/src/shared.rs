//! What a node's handles and its helper thread share, and how threads wait.
//!
//! One lock guards the engine; whoever holds it makes progress for everybody. Of the threads that
//! have nothing left to do, one sleeps on the socket; the others follow, and are told whenever
//! something has arrived.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use sabani_proto::RecvTicket;
use sabani_ring::{BiasedGuard, BiasedMutex};

use crate::Error;
use crate::engine::Engine;
use crate::layers::Doorbell;

/// A follower looks by itself this often, should it have missed its call. In tests that must show.
const FOLLOW: Duration = Duration::from_millis(if cfg!(test) { 3_600_000 } else { 50 });

/// Who sleeps on the socket.
#[derive(Clone, Copy, Debug)]
struct Sleeper {
    /// When it wakes by itself.
    until_ns: u64,
    is_helper: bool,
    called: bool,
}

/// On whose behalf a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Program,
    Helper,
    Driver,
}

/// What a call that waits does before it sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    pub time: Duration,
    /// Others may have the core between two looks.
    pub yields: bool,
}

impl Spin {
    /// As it suits a node with so many threads on so many cores. Where these are too few for two such nodes, which may talk to each other on
    /// one machine, a thread that spins would keep another from what it waits for.
    pub fn among(self, threads: usize, cores: usize) -> Self {
        let are_few = threads > 1 && 2 * threads > cores;
        Spin {
            yields: self.yields || are_few,
            ..self
        }
    }

    /// Whether there is to be another look, rather than sleep, before `until_ns`.
    #[inline]
    pub fn goes_on(self, now_ns: u64, until_ns: u64) -> bool {
        now_ns < until_ns && !(self.yields && sabani_ring::is_crowded())
    }

    /// Between two looks.
    #[inline]
    pub fn pause(self) {
        if self.yields {
            sabani_ring::give_way();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub engine: Engine,
    sleeper: Option<Sleeper>,
    followers: usize,
    pub helper_parked: bool,
    /// A thread ends the node: it takes leave of the peers, and stops it then.
    pub closing: bool,
    pub stopping: bool,
    /// Posted receives that had ended when somebody was last told.
    ended_seen: u64,
}

/// Where those sleep who follow.
#[derive(Debug, Default)]
struct Followed {
    /// How often they have been told.
    told: Mutex<u64>,
    arrived: Condvar,
}

impl Followed {
    fn told(&self) -> u64 {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has arrived, or the lead is free.
    fn tell(&self) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.arrived.notify_all();
    }

    /// Sleeps until they are told for more than the `seen`th time.
    fn sleep(&self, seen: u64, limit: Duration) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            self.arrived
                .wait_timeout_while(told, limit, |told| *told == seen),
        );
    }
}

/// The part of a node that all its handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: BiasedMutex<State>,
    followed: Followed,
    /// Calls into the library so far: when it stands still, the program is away. Written under the
    /// lock, read by the helper without it, which would have to wait for the lock while the program
    /// spins.
    calls: AtomicU64,
    /// How often somebody has looked at the socket: a program may call and never look.
    looks: AtomicU64,
    helper: OnceLock<Thread>,
    bell: Arc<Doorbell>,
    pub has_driver: bool,
    spin: Spin,
    born: u32,
}

pub(crate) type Guard<'a> = BiasedGuard<'a, State>;

impl Shared {
    /// With a driver, that thread does all the work ([`Shared::drive`]); without, whoever calls does.
    pub fn new(mut engine: Engine, bell: Arc<Doorbell>, spin: Spin, has_driver: bool) -> Self {
        if has_driver {
            engine.leave_to_driver(Arc::clone(&bell));
        }
        Shared {
            bell,
            has_driver,
            state: BiasedMutex::new(State {
                engine,
                sleeper: None,
                followers: 0,
                helper_parked: false,
                closing: false,
                stopping: false,
                ended_seen: 0,
            }),
            followed: Followed::default(),
            calls: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            helper: OnceLock::new(),
            spin,
            born: sabani_udp::fork_generation(),
        }
    }

    /// Whether this process was forked from the one that opened the node.
    #[inline]
    pub fn is_forked(&self) -> bool {
        sabani_udp::fork_generation() != self.born
    }

    /// Calls into the library so far.
    #[inline]
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Looks at the socket so far.
    #[inline]
    pub fn looks(&self) -> u64 {
        self.looks.load(Relaxed)
    }

    /// Somebody who has the lock looks at the socket.
    #[inline]
    pub fn note_look(&self) {
        self.looks.store(self.looks() + 1, Relaxed);
    }

    /// The helper thread says who it is.
    pub fn set_helper(&self, thread: Thread) {
        let _ = self.helper.set(thread);
    }

    fn wake_helper(&self) {
        if let Some(helper) = self.helper.get() {
            helper.unpark();
        }
    }

    /// The lock, for whoever drives the engine. A panic elsewhere leaves the engine consistent
    /// enough to close.
    #[inline]
    pub fn lock_raw(&self) -> Guard<'_> {
        self.state.lock()
    }

    /// The lock, for a call of the program.
    // Always inlined: a guard that comes back in memory, in pieces, stalls for as long as all the rest takes.
    #[inline(always)]
    pub fn lock(&self) -> Result<Guard<'_>, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let mut state = self.lock_raw();
        self.calls.store(self.calls() + 1, Relaxed);
        if state.stopping || state.sleeper.is_some() {
            self.come_back(&mut state)?;
        }
        Ok(state)
    }

    /// A call finds the node closed, or somebody asleep on the socket.
    #[cold]
    fn come_back(&self, state: &mut State) -> Result<(), Error> {
        if state.stopping {
            return Err(Error::Closed);
        }
        // The program is back: its helper leaves the socket to it.
        if let Some(sleeper) = &mut state.sleeper
            && sleeper.is_helper
            && !std::mem::replace(&mut sleeper.called, true)
        {
            self.bell.waker().wake();
        }
        Ok(())
    }

    /// Makes progress for a call that waits, and calls whom it may concern. Who sleeps next, or lets others
    /// have the core, looks once: that takes no longer than looking again.
    #[inline]
    fn progress_waiting(&self, state: &mut State) -> bool {
        self.note_look();
        let received = if self.spin.time.is_zero() {
            state.engine.progress_everywhere()
        } else if self.spin.yields {
            state.engine.progress()
        } else {
            state.engine.progress_waiting()
        };
        self.call_others(state, received);
        received
    }

    /// Makes progress, and calls whom it may concern.
    pub fn progress(&self, state: &mut State) -> bool {
        self.note_look();
        let received = state.engine.progress();
        self.call_others(state, received);
        received
    }

    /// The same for a call that has another purpose, if nobody has looked at the socket for a while: a program that makes such
    /// calls and no others keeps the helper away, and would hear nothing.
    pub fn progress_at_times(&self, state: &mut State) {
        if state.engine.is_look_due() {
            self.progress(state);
        }
    }

    /// After work on the engine: wakes the sleeper if something came, or if it would oversleep.
    pub fn call_others(&self, state: &mut State, received: bool) {
        if received {
            let ended = state.engine.node.ended_receives();
            let news = ended != std::mem::replace(&mut state.ended_seen, ended)
                || state.engine.node.unmatched_messages() > 0;
            if let Some(fd) = &state.engine.poll_fd
                && news
            {
                fd.set_ready(true);
            }
            if state.followers > 0 {
                self.followed.tell();
            }
        }
        let Some(sleeper) = state.sleeper else {
            return;
        };
        let mut oversleeps = || {
            let deadline = state.engine.deadline_ns();
            deadline.is_some_and(|at| at < sleeper.until_ns)
        };
        if !sleeper.called && (received || oversleeps()) {
            if let Some(sleeper) = &mut state.sleeper {
                sleeper.called = true;
            }
            self.bell.waker().wake();
        }
    }

    /// Drives the engine until `check` has a result, or until `timeout` has passed. Spins briefly
    /// first, then sleeps.
    pub fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        check: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let (_, result) = self.wait_on(self.lock()?, timeout, check)?;
        Ok(result)
    }

    /// The same for whoever has the lock, and goes on with it.
    #[inline]
    pub fn wait_on<'a, T>(
        &'a self,
        mut state: Guard<'a>,
        timeout: Option<Duration>,
        mut check: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<(Guard<'a>, Option<T>), Error> {
        let begun = state.engine.clock();
        let ends = timeout.map(|timeout| begun.saturating_add(nanos(timeout)));
        let mut spin_until = begun + nanos(self.spin.time);
        let mut slept = false;
        loop {
            if self.progress_waiting(&mut state) {
                spin_until = state.engine.now_ns() + nanos(self.spin.time);
            }
            let result = check(&mut state);
            let now_ns = state.engine.now_ns();
            if result.is_some() || ends.is_some_and(|ends| now_ns >= ends) {
                if slept {
                    self.hand_over(&mut state);
                }
                return Ok((state, result));
            }
            if self.spin.goes_on(now_ns, spin_until) {
                drop(state);
                self.spin.pause();
                state = self.lock()?;
            } else {
                slept = true;
                state = self.sleep(state, ends, Who::Program);
                if state.stopping {
                    return Err(Error::Closed);
                }
            }
        }
    }

    /// Somebody who slept on the socket leaves the library: others must take over.
    pub fn hand_over(&self, state: &mut State) {
        if state.followers > 0 {
            self.followed.tell();
        } else if std::mem::take(&mut state.helper_parked) {
            self.wake_helper();
        }
    }

    /// Whether a thread of the program sleeps in the library, so that the helper need not.
    pub fn is_attended(&self, state: &State) -> bool {
        state.sleeper.is_some() || state.followers > 0
    }

    /// Sleeps until something may have happened, on the socket if nobody else does.
    pub fn sleep<'a>(&'a self, mut state: Guard<'a>, ends_ns: Option<u64>, who: Who) -> Guard<'a> {
        if state.sleeper.is_some() || (self.has_driver && who != Who::Driver) {
            return self.follow(state, ends_ns);
        }
        let until_ns = [state.engine.deadline_ns(), ends_ns]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX);
        let now_ns = state.engine.clock();
        let Some(rest) = state.engine.rest() else {
            return state;
        };
        state.sleeper = Some(Sleeper {
            until_ns,
            is_helper: who == Who::Helper,
            called: false,
        });
        self.bell.retire(|| false);
        drop(state);
        let timeout =
            (until_ns != u64::MAX).then(|| Duration::from_nanos(until_ns.saturating_sub(now_ns)));
        if let Err(error) = rest.sleep(&self.bell, timeout) {
            tracing::error!(%error, "waiting failed");
        }
        let mut state = self.lock_raw();
        self.bell.rise();
        state.sleeper = None;
        state
    }

    /// Sleeps until it is told that something has arrived.
    fn follow<'a>(&'a self, mut state: Guard<'a>, ends_ns: Option<u64>) -> Guard<'a> {
        let left = ends_ns.map(|ends| ends.saturating_sub(state.engine.now_ns()));
        let limit = left.map_or(FOLLOW, |left| FOLLOW.min(Duration::from_nanos(left)));
        state.followers += 1;
        let seen = self.followed.told();
        drop(state);
        self.followed.sleep(seen, limit);
        let mut state = self.lock_raw();
        state.followers -= 1;
        state
    }

    /// Withdraws a receive in this way.
    pub fn withdraw<T>(
        &self,
        state: &mut State,
        ticket: RecvTicket,
        how: impl FnOnce(&mut sabani_proto::Node, RecvTicket) -> T,
    ) -> T {
        let node = &mut state.engine.node;
        let has_begun = node.has_begun(ticket);
        let withdrawn = how(node, ticket);
        if has_begun {
            self.after_return(state);
        }
        withdrawn
    }

    /// After a message was given back or thrown away: sends what that makes due, and has others look who wait for it, or for what was
    /// behind it.
    pub fn after_return(&self, state: &mut State) {
        state.engine.send_queued();
        self.call_others(state, true);
    }

    /// Drives the engine for everybody until the node ends.
    pub fn drive(&self) {
        let mut state = self.lock_raw();
        let mut spin_until = 0;
        while !state.stopping {
            let received = state.engine.drive();
            self.call_others(&mut state, received);
            let now_ns = state.engine.now_ns();
            if received {
                spin_until = now_ns + nanos(self.spin.time);
            }
            if self.spin.goes_on(now_ns, spin_until) {
                drop(state);
                self.spin.pause();
                state = self.lock_raw();
            } else {
                state = self.sleep(state, None, Who::Driver);
            }
        }
    }

    /// Ends all waiting.
    pub fn stop(&self, state: &mut State) {
        state.stopping = true;
        self.bell.waker().wake();
        self.followed.tell();
        self.wake_helper();
    }
}

impl State {
    /// Whether the helper sleeps on the socket.
    pub fn helper_sleeps(&self) -> bool {
        self.sleeper.is_some_and(|sleeper| sleeper.is_helper)
    }

    /// Whether a thread of the program sleeps, wherever.
    pub fn program_sleeps(&self) -> bool {
        self.followers > 0 || (self.sleeper.is_some() && !self.helper_sleeps())
    }
}

/// A duration in nanoseconds, as far as they go.
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().min(u128::from(u64::MAX / 4)) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::testing::pair;
    use crate::{Match, PeerId};

    const SOON: Duration = Duration::from_secs(20);
    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn threads_yield_where_two_such_nodes_have_too_few_cores() {
        let spin = Spin {
            time: Duration::ZERO,
            yields: false,
        };
        for (threads, cores, yields) in [
            (1, 1, false),
            (2, 2, true),
            (2, 3, true),
            (2, 4, false),
            (3, 4, true),
            (3, 6, false),
        ] {
            let is = spin.among(threads, cores).yields;
            assert_eq!(is, yields, "{threads} threads, {cores} cores");
        }
        let always = Spin {
            yields: true,
            ..spin
        };
        assert!(always.among(1, 64).yields);
    }

    #[test]
    fn who_sleeps_hears_of_a_message_that_another_gives_back() {
        let [here, there] = pair();
        let posted = here.post(Match::any(), None).unwrap();
        there.send(PeerId(1), 1, b"given back").unwrap();
        // Nothing comes afterwards that would wake who sleeps.
        there.close(SOON).unwrap();
        let (told, hears) = mpsc::channel();
        let waiting = here.clone();
        thread::spawn(move || {
            let heard = waiting.recv_timeout(Match::any(), HOUR);
            told.send(heard).unwrap();
        });
        let is_asleep = |state: &mut State| {
            let long = state.engine.clock() + nanos(HOUR) / 2;
            let sleeper = state.sleeper;
            sleeper.is_some_and(|sleeper| !sleeper.is_helper && sleeper.until_ns > long)
        };
        while !is_asleep(&mut here.shared().lock_raw()) {
            thread::sleep(Duration::from_millis(10));
        }
        drop(posted);
        let message = hears.recv_timeout(SOON).unwrap().unwrap().unwrap();
        assert_eq!(message.body(), b"given back");
    }
}
