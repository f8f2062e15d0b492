//! PMIx: Open MPI, PRRTE, and Slurm with `--mpi=pmix`.

use std::path::Path;

use crate::store::Store;
use crate::sys::pmix::{Pmix, Value, WHOLE_JOB};
use crate::{Environment, Error, Launcher};

/// Names the library where the system's linker does not find it.
const LIBRARY: &str = "SABANI_PMIX_LIBRARY";
const DEFAULT_LIBRARY: &str = "libpmix.so.2";
const JOB_SIZE: &str = "pmix.job.size";
const LOCAL_SIZE: &str = "pmix.local.size";

/// A client of a PMIx launcher.
pub struct Client {
    /// None once this rank is done.
    pmix: Option<Pmix>,
    size: u32,
    local_size: Option<u32>,
}

impl Client {
    /// Opens the library and connects to the launcher.
    ///
    /// # Errors
    /// If the library is missing, or the launcher refuses.
    pub fn connect(environment: &Environment) -> Result<Self, Error> {
        let library = environment
            .path(LIBRARY)
            .unwrap_or(Path::new(DEFAULT_LIBRARY));
        let pmix = Pmix::open(library).map_err(|problem| {
            let cure = format!("install libpmix2 (Debian) or let {LIBRARY} name the library");
            failed("connecting", format!("{problem}: {cure}"))
        })?;
        let number = |key| match pmix.get(WHOLE_JOB, key) {
            Ok(Value::Number(number)) => Ok(number),
            Ok(Value::Text(text)) => Err(failed(key, format!("`{text}` is not a number"))),
            Err(problem) => Err(failed(key, problem)),
        };
        let (size, local_size) = (number(JOB_SIZE)?, number(LOCAL_SIZE).ok());
        Ok(Self {
            pmix: Some(pmix),
            size,
            local_size,
        })
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.pmix.as_ref().map_or(0, Pmix::rank)
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many of them are on this host, if the launcher says so.
    pub fn local_size(&self) -> Option<u32> {
        self.local_size
    }

    fn with<T>(
        &self,
        doing: &str,
        call: impl FnOnce(&Pmix) -> Result<T, String>,
    ) -> Result<T, Error> {
        let pmix = self
            .pmix
            .as_ref()
            .ok_or_else(|| "this rank has left".to_owned());
        pmix.and_then(call)
            .map_err(|problem| failed(doing, problem))
    }
}

fn failed(doing: &str, problem: String) -> Error {
    Error::Launcher {
        launcher: Launcher::Pmix,
        doing: doing.into(),
        problem,
    }
}

impl Store for Client {
    fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        self.with("putting a value", |pmix| pmix.put(key, value))
    }

    fn fence(&mut self) -> Result<(), Error> {
        self.with("waiting for all ranks", Pmix::fence)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, Error> {
        let value = self.with("getting a value", |pmix| pmix.get(rank, key))?;
        match value {
            Value::Text(text) => Ok(text),
            Value::Number(_) => Err(failed("getting a value", "it is not a text".into())),
        }
    }

    fn abort(&mut self, status: i32, why: &str) {
        if let Some(pmix) = &self.pmix {
            pmix.abort(status, why);
        }
    }

    fn finish(&mut self) {
        self.pmix = None;
    }
}
