//! What the user may ask `sabani run` for.

use std::ffi::OsString;
use std::os::fd::RawFd;

use clap::{Args, ValueEnum};

/// Start a program as several ranks on this machine
///
/// Each rank is a process of its own that knows its rank and the job's size, and finds the others with
/// `Comm::init()`. They share a job key that is made for this run and never leaves their memory.
/// SABANI_RANK and SABANI_SIZE are set for scripts.
///
/// Output comes line by line with the rank before it; standard input goes to rank 0. Ctrl-C and the
/// signals HUP, INT, QUIT, TERM, USR1, USR2 and TSTP go to all ranks and what they have started. After
/// HUP, INT, QUIT or TERM, whoever is left when the grace is over is killed; a second one kills at once.
/// When the job ends, whatever the ranks have started ends too, even if this command is killed.
///
/// Exit status: 0 if all ranks had 0; else that of the rank that failed first, or 128 plus the signal
/// that killed it; 126 or 127 if the program can't be run; 128 plus the signal that ended the job.
///
/// Examples:
///   sabani run -n 4 -- ./program input.txt
///   sabani run -n 2 --on-failure continue --no-prefix -- python3 worker.py
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub struct RunArgs {
    /// Number of ranks, from 1 to 4096.
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// What to do when a rank fails: ends with another status than 0, or is killed.
    #[arg(long, value_enum, default_value_t = OnFailure::Abort, value_name = "WHAT")]
    pub on_failure: OnFailure,
    /// Show output as it is, without the rank before each line.
    #[arg(long)]
    pub no_prefix: bool,
    /// Which cores a rank may use.
    #[arg(long, value_enum, default_value_t = Bind::None, value_name = "HOW")]
    pub bind: Bind,
    /// Seconds from the first signal until ranks are killed.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    pub grace: u32,
    /// End the job when the process that has started this is no more.
    #[arg(long, hide = true)]
    pub with_parent: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// What to do when a rank fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    /// End the job.
    Abort,
    /// Tell the other ranks, which live on.
    Continue,
}

/// Which cores a rank may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bind {
    /// All that this command may: the system decides.
    None,
    /// An equal part of them; if there are more ranks than cores, as many ranks for each.
    Cores,
}

/// The process that starts the ranks.
#[derive(Args, Debug)]
pub struct KeeperArgs {
    /// Its parent, which may have ended already.
    #[arg(long)]
    pub front: i32,
    /// The pipe by which that passes on signals, a byte each.
    #[arg(long)]
    pub orders: i32,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The process that becomes a rank's program.
#[derive(Args, Debug)]
pub struct RankArgs {
    /// Its parent, which may have ended already.
    #[arg(long)]
    pub keeper: i32,
    /// The socket that the program is to find open.
    #[arg(long)]
    pub fd: RawFd,
    /// The cores that it may use.
    #[arg(long, value_delimiter = ',')]
    pub cores: Vec<usize>,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}
