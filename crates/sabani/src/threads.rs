//! Threads of a node's own.

use std::io;
use std::thread::{self, JoinHandle};

use crate::shared::Spin;

/// How threads of a node's own run.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    /// How long they look for work before they sleep.
    pub spin: Spin,
    /// Where they may run.
    pub cores: Vec<usize>,
}

impl Threads {
    /// Starts one.
    ///
    /// # Errors
    /// If the system has none left.
    pub fn spawn(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let cores = self.cores.clone();
        thread::Builder::new().name(name.into()).spawn(move || {
            sabani_ring::keep_on(&cores);
            body();
        })
    }
}
