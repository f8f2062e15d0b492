//! Threads that run what was started: each piece of work has one to itself, because it may wait. A thread
//! that has finished takes the next piece.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{io, thread};

use crate::comm::locked;

pub type Work = Box<dyn FnOnce() + Send>;

/// The threads of a job. They end when it is dropped and they have nothing left to do.
#[derive(Default)]
pub struct Workers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// Threads without work.
    idle: usize,
    ended: bool,
}

impl Workers {
    /// Runs a piece of work on a thread that has nothing else to do.
    ///
    /// # Errors
    /// If a thread is missing, and the system gives no other; the work is not done then.
    pub fn run(&self, work: Work) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.idle == state.waiting.len() {
            let shared = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("sabani-started".into());
            thread.spawn(move || shared.work())?;
            state.idle += 1;
        }
        state.waiting.push_back(work);
        self.0.news.notify_one();
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.news.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                state.idle -= 1;
                drop(state);
                work();
                state = self.lock();
                state.idle += 1;
            } else if state.ended {
                return;
            } else {
                state = self
                    .news
                    .wait(state)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn work_that_waits_for_other_work_is_done_and_threads_are_used_again() {
        let workers = Workers::default();
        let (said, heard) = channel();
        for _ in 0..3 {
            let (first, second) = (channel(), channel());
            let said = said.clone();
            let one = move || {
                first.1.recv().unwrap();
                second.0.send(thread::current().id()).unwrap();
            };
            let other = move || {
                first.0.send(()).unwrap();
                said.send(second.1.recv().unwrap()).unwrap();
            };
            workers.run(Box::new(one)).unwrap();
            workers.run(Box::new(other)).unwrap();
            heard.recv().unwrap();
            while workers.0.lock().idle < 2 {
                thread::yield_now();
            }
        }
        assert_eq!(workers.0.lock().idle, 2);
        let shared = Arc::downgrade(&workers.0);
        drop(workers);
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
