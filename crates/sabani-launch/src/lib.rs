//! Who am I, where are the others: the processes of a parallel job find each other through whatever
//! started them.
//!
//! [`World::join`] looks at the environment, talks to the launcher, and gives the process its rank,
//! the job's size and key, and a small store of keys and values with which all ranks exchange their
//! addresses. A program that was started alone is a world of one.
//!
//! | launcher | known by | values go |
//! |---|---|---|
//! | `sabani run` | `SABANI_RUN_FD` | over a socket pair that the rank inherits |
//! | a rendezvous address | `SABANI_RENDEZVOUS` | over TCP to rank 0, authenticated by the job key |
//! | Open MPI, PRRTE, Slurm with PMIx | `PMIX_NAMESPACE` | through libpmix, opened at run time |
//! | MPICH, Slurm with PMI-2 | `PMI_FD`, `PMI_PORT` | in PMI-1's wire protocol |
//! | Slurm without any of these | `SLURM_STEP_NUM_TASKS` | over TCP to rank 0 |
//! | Kubernetes, an indexed Job | `JOB_COMPLETION_INDEX` | over TCP to rank 0 |

mod environment;
mod error;
mod network;
mod pmi;
mod pmix;
pub mod rendezvous;
mod start;
mod store;
mod sys;
mod world;

pub use environment::Environment;
pub use error::{Departure, Error};
pub use start::Launcher;
pub use sys::inherited::take_over;
pub use sys::signals::heed_interrupts;
pub use world::{JobKey, Member, World, random_key};
