//! Layers one above the other, and the threads that run them.

use std::{
    fmt, io,
    ops::Range,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::{
    bell::Bell,
    idle::Idle,
    place,
    ring::{Inlet, Outlet, ring},
    schedule::{Schedule, ScheduleError},
};

/// One layer of a stack: takes primitives from the layers above and below, and puts some there.
pub trait Layer<P>: Send {
    /// Does some work, no more than a batch in each direction, and says how much: the number of primitives taken or
    /// made. 0 means that there is nothing to do until a neighbour acts.
    ///
    /// A layer takes a primitive only when it has room for what comes of it ([`pass`](crate::pass)), so that nothing
    /// is ever lost and what waits is bounded by the rings. Two layers that wait for each other's room would wait for
    /// ever; so what goes up must never wait for room below. An acknowledgement, say, is noted as due, and is
    /// made when there is room.
    fn step(&mut self, ports: &mut Ports<P>) -> usize;
}

/// What a layer sees of its neighbours.
pub struct Ports<P> {
    /// To and from the layer above; for the uppermost layer a ring that leads nowhere.
    pub above: Port<P>,
    /// To and from the layer below; for the lowest layer a ring that leads nowhere.
    pub below: Port<P>,
    /// How many primitives to move at a time, at most.
    pub batch: usize,
}

/// Both ways between a layer and one neighbour.
pub struct Port<P> {
    /// What comes from there.
    pub inlet: Inlet<P>,
    /// What goes there.
    pub outlet: Outlet<P>,
}

/// Rings both ways: the upper layer's port and the lower one's.
fn joined<P>(slots: usize) -> (Port<P>, Port<P>) {
    let (down, from_above) = ring(slots);
    let (up, from_below) = ring(slots);
    let upper = Port {
        inlet: from_below,
        outlet: down,
    };
    let lower = Port {
        inlet: from_above,
        outlet: up,
    };
    (upper, lower)
}

/// Why a stack can't be started.
#[derive(Debug)]
pub enum StartError {
    /// The schedule does not fit it.
    Schedule(ScheduleError),
    /// The system gives no thread.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule(why) => why.fmt(f),
            Self::Thread(why) => write!(
                f,
                "a layer's thread can't be started: {why}: raise the limit of processes and threads (`ulimit -u`), or \
                 let layers share threads"
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ScheduleError> for StartError {
    fn from(why: ScheduleError) -> Self {
        Self::Schedule(why)
    }
}

/// Layers, uppermost first.
pub struct Stack<P> {
    layers: Vec<(String, Box<dyn Layer<P>>)>,
    slots: usize,
    batch: usize,
}

impl<P: Send + 'static> Stack<P> {
    /// An empty stack, whose layers will be joined by rings of `slots` primitives in each direction and move up to
    /// `batch` at a time.
    ///
    /// # Panics
    /// If one of them is 0.
    pub fn new(slots: usize, batch: usize) -> Self {
        assert!(slots > 0 && batch > 0, "nothing would ever move");
        Self {
            layers: Vec::new(),
            slots,
            batch,
        }
    }

    /// Puts a layer below the others.
    pub fn push(&mut self, name: impl Into<String>, layer: impl Layer<P> + 'static) {
        self.layers.push((name.into(), Box::new(layer)));
    }

    /// Starts the threads of a schedule, each on a core of its own while there are enough. `stop` ends them.
    ///
    /// # Errors
    /// If the schedule is for other layers. If a thread can't be started; then `stop` is set.
    pub fn start(
        self,
        schedule: &Schedule,
        idle: Idle,
        stop: &Stop,
    ) -> Result<Running<P>, StartError> {
        let names: Vec<&str> = self.layers.iter().map(|(name, _)| &name[..]).collect();
        let cores = place::cores(names.len());
        let ranges = schedule.groups(&names, cores.len())?;
        let thread_names: Vec<_> = ranges
            .iter()
            .map(|range| names[range.clone()].join("+"))
            .collect();
        let mut groups = self.into_groups(&ranges);
        let mut running = Running {
            inline: None,
            threads: Vec::new(),
            stop: stop.clone(),
        };
        if *schedule == Schedule::Inline {
            running.inline = groups.pop();
            return Ok(running);
        }
        let idle = idle.among(groups.len(), cores.len());
        for (index, (group, name)) in groups.into_iter().zip(thread_names).enumerate() {
            // Each a core of its own, or neighbours the same.
            let core = match ranges.len() <= cores.len() {
                true => cores[index],
                false => cores[index * cores.len() / ranges.len()],
            };
            let stop = stop.clone();
            let body = move || {
                place::pin(core);
                group.run(&stop, idle);
            };
            match thread::Builder::new().name(name).spawn(body) {
                Ok(thread) => running.threads.push(thread),
                // The others end with `running`.
                Err(why) => return Err(StartError::Thread(why)),
            }
        }
        Ok(running)
    }

    fn into_groups(self, ranges: &[Range<usize>]) -> Vec<Group<P>> {
        let (slots, batch) = (self.slots, self.batch);
        let bells: Vec<Arc<Bell>> = ranges.iter().map(|_| Arc::default()).collect();
        let last = self.layers.len().saturating_sub(1);
        let mut layers = self.layers.into_iter().enumerate();
        let (_, mut above) = joined(0);
        let mut group = |(index, range): (usize, &Range<usize>)| {
            let stage = |(at, (_, layer))| {
                let (below, next) = joined(if at == last { 0 } else { slots });
                let above = std::mem::replace(&mut above, next);
                let ports = Ports {
                    above,
                    below,
                    batch,
                };
                Stage { layer, ports }
            };
            let neighbours = [index.checked_sub(1), Some(index + 1)];
            let neighbours = neighbours.into_iter().flatten();
            Group {
                stages: layers.by_ref().take(range.len()).map(stage).collect(),
                bell: bells[index].clone(),
                neighbours: neighbours.filter_map(|at| bells.get(at).cloned()).collect(),
            }
        };
        ranges.iter().enumerate().map(&mut group).collect()
    }
}

/// A layer in its place.
struct Stage<P> {
    layer: Box<dyn Layer<P>>,
    ports: Ports<P>,
}

impl<P> Stage<P> {
    fn step(&mut self) -> usize {
        self.layer.step(&mut self.ports)
    }
}

/// Layers that share a thread.
struct Group<P> {
    stages: Vec<Stage<P>>,
    bell: Arc<Bell>,
    neighbours: Vec<Arc<Bell>>,
}

impl<P> Group<P> {
    /// Runs each layer once on the way down and once on the way up, so that what comes from either side gets through
    /// all of them; the lowest once.
    fn step(&mut self) -> usize {
        let down: usize = self.stages.iter_mut().map(Stage::step).sum();
        let up: usize = self.stages.iter_mut().rev().skip(1).map(Stage::step).sum();
        let done = down + up;
        if done > 0 && !self.neighbours.is_empty() {
            Bell::ring_all(self.neighbours.iter().map(|bell| &**bell));
        }
        done
    }

    /// Works until `stop` is set.
    fn run(mut self, stop: &Stop, idle: Idle) {
        let _others = stop.clone().set_when_dropped();
        let bell = self.bell.clone();
        let mut fruitless = 0;
        while !stop.is_set() {
            fruitless = match self.step() {
                0 => idle.wait(fruitless, &bell, || self.step() > 0 || stop.is_set()),
                _ => 0,
            };
        }
    }
}

/// A stack that has been started. Dropping it stops it.
pub struct Running<P> {
    inline: Option<Group<P>>,
    threads: Vec<JoinHandle<()>>,
    stop: Stop,
}

impl<P> Running<P> {
    /// Runs the layers that have no thread of their own once each; how much they did. 0 where all have one.
    pub fn step(&mut self) -> usize {
        self.inline.as_mut().map_or(0, Group::step)
    }

    /// Runs the layers that have no thread of their own until the stack is stopped, and waits for all threads. Does
    /// not sleep before.
    ///
    /// # Panics
    /// If a layer did.
    pub fn wait(mut self) {
        if let Some(mut group) = self.inline.take() {
            while !self.stop.is_set() {
                group.step();
            }
        }
        for thread in std::mem::take(&mut self.threads) {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    }
}

impl<P> Drop for Running<P> {
    fn drop(&mut self) {
        self.stop.set();
        for thread in self.threads.drain(..) {
            // A panic has been printed; this one may be on its way because of it.
            let _ = thread.join();
        }
    }
}

/// Ends a running stack; any layer may have a copy. A thread that sleeps finds out when it wakes, after
/// [`Idle::nap`] at the latest.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the stack that was started with this, without waiting for it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it ends.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// So that no thread goes on without the layers of one that has panicked.
    fn set_when_dropped(self) -> impl Drop {
        struct Guard(Stop);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        Guard(self)
    }
}
