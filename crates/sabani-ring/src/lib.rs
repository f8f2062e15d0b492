//! Layers that don't know how many cores run them.
//!
//! A [`Layer`] does a bounded step of work between the layer above and the one below; a [`Stack`] joins layers by rings
//! in both directions; a [`Schedule`], which is a value, says which of them share a thread. The same layers run in turn
//! on the caller's thread, on one thread in the background, or on a core each.
//!
//! - [`ring()`]: from one thread to one other without a lock, a batch at a time.
//! - [`Pool`]: buffers that a layer takes without synchronisation, and that come back from any core at the cost
//!   of one atomic exchange.
//! - [`BiasedMutex`]: for what one thread has nearly always, and others now and then.
//! - A thread without work spins, yields, then sleeps ([`Idle`]); its neighbours wake it ([`Bell`]). What they pay for
//!   that while it is awake is a fence for each batch. Where somebody else computes on its core it does not yield
//!   ([`give_way`], [`is_crowded`]).
//!
//! ```
//! use sabani_ring::{Idle, Layer, Ports, Schedule, Stack, Stop, pass};
//!
//! /// Adds one to what goes down, and sends it back up at the bottom.
//! struct Increment { lowest: bool }
//!
//! impl Layer<u64> for Increment {
//!     fn step(&mut self, ports: &mut Ports<u64>) -> usize {
//!         let Ports { above, below, batch } = ports;
//!         match self.lowest {
//!             true => pass(&mut above.inlet, &mut above.outlet, *batch, |n| Some(n + 1)),
//!             false => {
//!                 pass(&mut above.inlet, &mut below.outlet, *batch, |n| Some(n + 1))
//!                     + pass(&mut below.inlet, &mut above.outlet, *batch, Some)
//!             }
//!         }
//!     }
//! }
//!
//! /// Sends a hundred numbers and checks what comes back.
//! struct User { sent: u64, received: u64, stop: Stop }
//!
//! impl Layer<u64> for User {
//!     fn step(&mut self, ports: &mut Ports<u64>) -> usize {
//!         let sent = ports.below.outlet.fill(ports.batch, self.sent..100);
//!         self.sent += sent as u64;
//!         let mut done = sent;
//!         for number in ports.below.inlet.drain(ports.batch) {
//!             assert_eq!(number, self.received + 2);
//!             self.received += 1;
//!             done += 1;
//!         }
//!         if self.received == 100 {
//!             self.stop.set();
//!         }
//!         done
//!     }
//! }
//!
//! for schedule in ["inline", "background", "per-core", "[user+upper][lower]"] {
//!     let stop = Stop::default();
//!     let mut stack = Stack::new(64, 16);
//!     stack.push("user", User { sent: 0, received: 0, stop: stop.clone() });
//!     stack.push("upper", Increment { lowest: false });
//!     stack.push("lower", Increment { lowest: true });
//!     let schedule: Schedule = schedule.parse().unwrap();
//!     stack.start(&schedule, Idle::default(), &stop).unwrap().wait();
//! }
//! ```

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod barrier;
mod bell;
#[allow(unsafe_code)]
mod biased;
mod crowd;
mod idle;
mod place;
#[allow(unsafe_code)]
mod pool;
mod ring;
mod schedule;
mod stack;
mod sync;

pub use bell::Bell;
pub use biased::{BiasedGuard, BiasedMutex};
pub use crowd::{give_way, is_crowded};
pub use idle::Idle;
pub use place::{allowed, cores, keep_on, pin};
pub use pool::{Item, Pool, Recycle};
pub use ring::{Inlet, Outlet, pass, ring};
pub use schedule::{Schedule, ScheduleError};
pub use stack::{Layer, Port, Ports, Running, Stack, StartError, Stop};
