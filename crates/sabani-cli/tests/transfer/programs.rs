//! The two programs, and the folders they work in.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tempfile::TempDir;

/// The program with these arguments.
pub fn sabani(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabani"));
    command.args(arguments);
    command
}

/// The program with these arguments, which may read and write what its user may, also where that is root.
pub fn unprivileged(arguments: &[&str]) -> Command {
    if !rustix::process::geteuid().is_root() {
        return sabani(arguments);
    }
    let mut command = Command::new("setpriv");
    command
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .arg(env!("CARGO_BIN_EXE_sabani"))
        .args(arguments);
    command
}

/// Whether another program succeeds.
pub fn run(program: &str, arguments: &[&OsStr]) -> bool {
    let status = Command::new(program).args(arguments).status();
    status.is_ok_and(|status| status.success())
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Folders for one test, with a job key.
pub struct Place(TempDir);

impl Place {
    /// Empty ones.
    pub fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        let made = sabani(&["key"]).arg(place.key()).output().unwrap();
        assert!(made.status.success());
        place
    }

    /// A path in the test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What the sender sends.
    pub fn source(&self) -> PathBuf {
        self.path("source")
    }

    /// What the receiver owns.
    pub fn target(&self) -> PathBuf {
        self.path("target")
    }

    /// Where the source arrives.
    pub fn arrived(&self) -> PathBuf {
        self.target().join("source")
    }

    fn key(&self) -> PathBuf {
        self.path("job.key")
    }

    /// The length of the longest partial file, or 0.
    pub fn partial(&self) -> u64 {
        self.partials().into_iter().max().unwrap_or(0)
    }

    /// The lengths of all partial files.
    pub fn partials(&self) -> Vec<u64> {
        let Ok(found) = self.target().join(".sabani-partial").read_dir() else {
            return Vec::new();
        };
        let lengths = found.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
        lengths.collect()
    }

    /// A receiver at a free port.
    pub fn receive(&self) -> Program {
        self.receive_with("127.0.0.1:0", &[])
    }

    /// A receiver at this address.
    pub fn receive_with(&self, addr: &str, more: &[&str]) -> Program {
        Program::start(&mut self.receiver(addr, more))
    }

    /// The command that receives.
    pub fn receiver(&self, addr: &str, more: &[&str]) -> Command {
        let mut command = sabani(&["receive", "--bind", addr]);
        command.args(more).arg(self.target());
        command.env("SABANI_JOB_KEY_FILE", self.key());
        command
    }

    /// Sends the source and waits for the end.
    pub fn send(&self, receiver: &Program, more: &[&str]) -> Ended {
        self.send_to(&receiver.addr, more)
    }

    /// The same to any address.
    pub fn send_to(&self, addr: &str, more: &[&str]) -> Ended {
        Program::start(&mut self.sender(addr, more)).end()
    }

    /// Begins to send the source.
    pub fn start_send(&self, receiver: &Program, more: &[&str]) -> Program {
        Program::start(&mut self.sender(&receiver.addr, more))
    }

    /// The command that sends the source.
    pub fn sender(&self, addr: &str, more: &[&str]) -> Command {
        let mut command = sabani(&["send", "--to", addr]);
        command.args(more).arg(self.source());
        command.env("SABANI_JOB_KEY_FILE", self.key());
        command
    }
}

/// A program that runs; it is killed when the test is over.
pub struct Program {
    child: Child,
    /// A receiver's address.
    pub addr: String,
    said: Option<JoinHandle<String>>,
}

/// A program that has ended.
pub struct Ended {
    /// Its exit status; `None` after a signal.
    pub code: Option<i32>,
    /// What it said on standard error.
    pub said: String,
}

impl Program {
    /// Starts it; a receiver's address is read from its first line.
    pub fn start(command: &mut Command) -> Self {
        Self::heard_by(command, |stderr| {
            io::read_to_string(stderr).unwrap_or_default()
        })
    }

    /// The same, and nobody reads what it says on standard error.
    pub fn start_unheard(command: &mut Command) -> Self {
        Self::heard_by(command, |_closed| String::new())
    }

    fn heard_by(
        command: &mut Command,
        hear: impl FnOnce(ChildStderr) -> String + Send + 'static,
    ) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stderr = child.stderr.take().unwrap();
        let said = thread::spawn(move || hear(stderr));
        let mut addr = String::new();
        if command.get_args().any(|argument| argument == "receive") {
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            stdout.read_line(&mut addr).unwrap();
            addr = addr.rsplit(' ').next().unwrap().trim().into();
        }
        Program {
            child,
            addr,
            said: Some(said),
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// From now on it may make no file longer than that.
    pub fn limit_files(&self, bytes: u64) {
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).unwrap();
    }

    /// Bytes that it has read so far.
    pub fn read(&self) -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let (_, read) = io.split_once("rchar: ").expect("what it has read");
        read.lines().next().unwrap().parse().unwrap()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let code = self.child.wait().unwrap().code();
        let said = self.said.take().unwrap().join().unwrap();
        Ended { code, said }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Fails with what it said unless it succeeded.
    pub fn assert_success(&self) {
        assert_eq!(self.code, Some(0), "{}", self.said);
    }
}

/// A thread that looks at a file all the time: it must never be there in part.
pub fn assert_never_half(path: &Path, size: u64) -> impl FnOnce() + use<> {
    let path = path.to_owned();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let watcher = thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            if let Ok(found) = path.metadata() {
                assert_eq!(found.len(), size, "half a file under its final name");
            }
            thread::sleep(Duration::from_micros(500));
        }
    });
    move || {
        drop(stop);
        watcher.join().expect("never half a file");
    }
}
