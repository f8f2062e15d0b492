//! The process that starts the ranks and looks after them.

use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::io::{self, Read, stderr, stdout};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg, raise};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid, getppid};
use rustix::process::{Resource, getrlimit, setrlimit};
use sabani_launch::Departure;
use sabani_launch::rendezvous::Host;

use super::args::{Bind, KeeperArgs, OnFailure, RunArgs};
use super::end::End;
use super::output::Lines;
use super::signals::{Signals, asks_to_end};
use super::{descendants, input};
use crate::exit::Unread;
use crate::tell::{explained_stdout, note};
use crate::threads::Started;
use crate::units::count;

/// How long output that nobody takes may hold up the end of a job that was stopped.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What this process holds open for a rank: its socket, output and errors; and beside them.
const RANK_DESCRIPTORS: u64 = 3;
const DESCRIPTORS: u64 = 64;

/// The ranks, and what is known of the job's end.
struct Job {
    args: RunArgs,
    front: Pid,
    /// Signals that the front has got; none any more once it has ended.
    orders: Option<File>,
    /// The cores that this process may use.
    cores: Vec<usize>,
    host: Host,
    /// Processes that have not ended, and their ranks.
    ranks: HashMap<Pid, u32>,
    /// The exit status, once something has gone wrong.
    status: Option<i32>,
    /// Whether what ranks print can't be written.
    unwritten: Arc<AtomicBool>,
    /// When the ranks that are left are killed.
    deadline: Option<Instant>,
}

/// Runs the job and ends with its exit status.
///
/// # Errors
/// If the ranks can't be started.
pub fn run(args: &KeeperArgs) -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    prctl::set_child_subreaper(true)?;
    ensure!(getppid().as_raw() == args.front, "the job is over");
    raise_limit(args.run.ranks)?;
    let signals = Signals::collect()?;
    let outcome = Job::start(args).and_then(|(mut job, output)| {
        while !job.ranks.is_empty() {
            job.wait(&signals)?;
        }
        Ok((job, output))
    });
    // Including ranks, if not all could be started.
    descendants::kill_all();
    let (job, output) = outcome?;
    let stopped = Instant::now();
    while !output.iter().all(JoinHandle::is_finished)
        && (job.deadline.is_none() || stopped.elapsed() < LAST_WORDS)
    {
        thread::sleep(Duration::from_millis(1));
    }
    process::exit(job.status.unwrap_or_else(|| job.status_of(End::Exited(0))))
}

/// Says why the ranks' output can't be written; that its reader has left needs no words.
fn tell_unwritten(carried: io::Result<()>, unwritten: &AtomicBool) {
    if let Err(error) = explained_stdout(carried)
        && !error.is::<Unread>()
    {
        unwritten.store(true, Ordering::Release);
        note(format_args!("sabani: {error:#}"));
    }
}

impl Job {
    fn start(args: &KeeperArgs) -> Result<(Self, Vec<JoinHandle<()>>)> {
        let RunArgs {
            ranks, no_prefix, ..
        } = args.run;
        let mut job = Self {
            args: args.run.clone(),
            front: Pid::from_raw(args.front),
            orders: Some(sabani_launch::take_over(args.orders)?.into()),
            cores: cores()?,
            host: Host::of_children(ranks, sabani_launch::random_key()?),
            ranks: HashMap::new(),
            status: None,
            unwritten: Arc::default(),
            deadline: None,
        };
        let mut output: (Vec<ChildStdout>, Vec<ChildStderr>) = Default::default();
        for rank in 0..ranks {
            let mut child = job.start_rank(rank)?;
            output.0.extend(child.stdout.take());
            output.1.extend(child.stderr.take());
            child.stdin.take().into_iter().for_each(input::pass_on);
        }
        let (out, err) = output;
        let mut out = Lines::new(out, stdout(), !no_prefix);
        let mut err = Lines::new(err, stderr(), !no_prefix);
        let unwritten = job.unwritten.clone();
        // When nobody takes the output any more, the ranks find out themselves: afterwards.
        let threads = vec![
            thread::spawn(move || tell_unwritten(out.carry(), &unwritten)),
            thread::spawn(move || drop(err.carry())),
        ];
        Ok((job, threads))
    }

    fn start_rank(&mut self, rank: u32) -> Result<Child> {
        let args = &self.args;
        let socket = self.host.add_child(rank)?;
        // It closes with `socket`, after the rank has a copy.
        fcntl(&socket, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mut command = Command::new(env::current_exe()?);
        command
            .args(["run-rank", "--keeper"])
            .arg(getpid().to_string())
            .arg("--fd")
            .arg(socket.as_raw_fd().to_string())
            .args(self.binding(rank))
            .arg("--")
            .args(&args.command)
            .env("SABANI_RANK", rank.to_string())
            .env("SABANI_SIZE", args.ranks.to_string())
            .stdin(if rank == 0 {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn().started(format_args!("rank {rank}"))?;
        self.ranks.insert(Pid::from_raw(child.id() as i32), rank);
        Ok(child)
    }

    /// How a rank is told which cores it may use.
    fn binding(&self, rank: u32) -> Vec<String> {
        match self.args.bind {
            Bind::None => Vec::new(),
            Bind::Cores => {
                let share = share(&self.cores, rank as usize, self.args.ranks as usize);
                let list: Vec<_> = share.iter().map(usize::to_string).collect();
                vec!["--cores".into(), list.join(",")]
            }
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(self.args.grace.into())
    }

    /// Waits for something to happen, and acts on it.
    fn wait(&mut self, signals: &Signals) -> Result<()> {
        let own = [Some(signals.as_fd()), self.orders.as_ref().map(File::as_fd)];
        let own = own.into_iter().flatten();
        let mut fds: Vec<_> = own.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let first_of_host = fds.len();
        fds.extend(self.host.poll_fds());
        poll(&mut fds, self.timeout())?;
        let has = |fds: &[PollFd]| fds.iter().any(|fd| fd.any() == Some(true));
        let (has_orders, is_hosts) = (has(&fds[1..first_of_host]), has(&fds[first_of_host..]));
        drop(fds);
        if is_hosts {
            self.host.progress();
            self.heed_abort();
        }
        while let Some(signal) = signals.next() {
            self.heed(signal);
        }
        if has_orders {
            self.obey_all()?;
        }
        if self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            self.signal(Signal::SIGKILL);
            self.deadline = Some(Instant::now() + self.grace());
        }
        Ok(())
    }

    fn timeout(&self) -> PollTimeout {
        let Some(deadline) = self.deadline else {
            return PollTimeout::NONE;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, or the last millisecond would be spent asking.
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    }

    fn heed(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.reap(),
            _ if getppid() != self.front => {
                self.stop(Signal::SIGKILL, End::Killed(Signal::SIGKILL).status());
            }
            // The terminal tells the whole group: the front passes it on.
            _ => {}
        }
    }

    fn obey_all(&mut self) -> Result<()> {
        let mut orders = [0; 16];
        let Some(pipe) = &mut self.orders else {
            return Ok(());
        };
        let count = pipe.read(&mut orders)?;
        if count == 0 {
            self.orders = None;
        }
        for &order in &orders[..count] {
            self.obey(Signal::try_from(i32::from(order))?)?;
        }
        Ok(())
    }

    /// Does what the front's signal is for.
    fn obey(&mut self, signal: Signal) -> Result<()> {
        match signal {
            Signal::SIGTSTP => {
                self.signal(Signal::SIGSTOP);
                raise(Signal::SIGSTOP)?;
                self.signal(Signal::SIGCONT);
            }
            signal if asks_to_end(signal) => {
                let again = self.deadline.is_some();
                let signal_now = if again { Signal::SIGKILL } else { signal };
                note(format_args!(
                    "sabani run: interrupted{}: {signal_now} went to {}",
                    if again { " again" } else { "" },
                    count(self.ranks.len(), "rank")
                ));
                self.stop(signal_now, End::Killed(signal).status());
            }
            signal => self.signal(signal),
        }
        Ok(())
    }

    /// Takes notice of everybody who has ended.
    fn reap(&mut self) {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(pid) = status.pid() else { return };
            let Some(end) = End::of(status) else { continue };
            // Others are what a rank has started and left behind.
            if let Some(rank) = self.ranks.remove(&pid) {
                self.ended(rank, end);
            }
        }
    }

    fn ended(&mut self, rank: u32, end: End) {
        // What it has said last counts: that it aborts.
        self.host.progress();
        self.heed_abort();
        // It was this process that closed its output, and has said why.
        let is_unwritten = self.unwritten.load(Ordering::Acquire);
        let why = match is_unwritten && end == End::Killed(Signal::SIGPIPE) {
            true => "could not write its output".into(),
            false => end.why(),
        };
        let departure = Departure {
            rank,
            why,
            failed: end.is_failure(),
        };
        let is_news = end.is_failure() && self.deadline.is_none();
        if is_news {
            self.status.get_or_insert(self.status_of(end));
            let others = match self.args.on_failure {
                OnFailure::Abort if !self.ranks.is_empty() => ": ending the others",
                OnFailure::Continue if !self.ranks.is_empty() => ": the others go on",
                _ => "",
            };
            note(format_args!("sabani: {departure}{others}"));
        }
        self.host.left(departure);
        self.host.progress();
        if is_news && self.args.on_failure == OnFailure::Abort {
            self.stop(Signal::SIGTERM, self.status_of(end));
        }
    }

    /// The exit status for a rank's end. A rank fails in many ways where its output is refused: what counts is why.
    fn status_of(&self, end: End) -> i32 {
        match self.unwritten.load(Ordering::Acquire) {
            true => 1,
            false => end.status(),
        }
    }

    fn heed_abort(&mut self) {
        if self.deadline.is_some() {
            return;
        }
        if let Some((departure, status)) = self.host.aborted() {
            let status = *status;
            note(format_args!("sabani: {departure}: ending the job"));
            self.stop(Signal::SIGTERM, status);
        }
    }

    /// Begins to end the job.
    fn stop(&mut self, signal: Signal, status: i32) {
        self.status.get_or_insert(status);
        self.signal(signal);
        self.deadline.get_or_insert(Instant::now() + self.grace());
    }

    /// Signals every rank and what it has started.
    fn signal(&self, signal: Signal) {
        for &pid in self.ranks.keys() {
            // It may have ended meanwhile.
            let _ = killpg(pid, signal);
        }
    }
}

/// A rank's part of the cores: equal parts, or one for several ranks in a row if there are more ranks than cores. Neighbours exchange most, and trees
/// go over half of the ranks first: so each of their levels keeps all cores busy.
fn share(cores: &[usize], rank: usize, ranks: usize) -> &[usize] {
    let begin = rank * cores.len() / ranks;
    let end = (rank + 1) * cores.len() / ranks;
    &cores[begin..end.max(begin + 1)]
}

/// The cores that this process may use.
fn cores() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let is_allowed = |core: &usize| allowed.is_set(*core).unwrap_or(false);
    Ok((0..CpuSet::count()).filter(is_allowed).collect())
}

/// Lets this process open enough for so many ranks, if its hard limit allows that.
fn raise_limit(ranks: u32) -> Result<()> {
    let needed = DESCRIPTORS + u64::from(ranks) * RANK_DESCRIPTORS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |maximum| needed.min(maximum)));
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_out() {
        let cores = [0, 1, 4, 5];
        assert_eq!(share(&cores, 0, 1), cores);
        assert_eq!(share(&cores, 1, 2), [4, 5]);
        assert_eq!(
            [0, 1, 2].map(|rank| share(&cores, rank, 3).len()),
            [1, 1, 2]
        );
        assert_eq!(share(&cores, 6, 9), [4]);
        let of_eight = [0, 1, 2, 3, 4, 5, 6, 7].map(|rank| share(&cores[..2], rank, 8));
        assert_eq!(of_eight.concat(), [0, 0, 0, 0, 1, 1, 1, 1]);
    }
}
