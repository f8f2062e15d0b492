//! A job under `sabani run`.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(60);

/// The program that the ranks run.
pub fn ranks() -> String {
    let tests = env::current_exe().unwrap();
    let target = tests.parent().and_then(|deps| deps.parent()).unwrap();
    let program = target.join("examples/ranks");
    assert!(program.exists(), "`cargo test -p sabani-cli` builds it");
    program.into_os_string().into_string().unwrap()
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether there is such a process, and it has not ended.
pub fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| state != "Z")
}

/// How a job has ended.
pub struct Done {
    pub out: String,
    pub err: String,
    pub status: i32,
}

/// Runs a job to its end.
pub fn run(arguments: &[&str]) -> Done {
    Job::start(arguments).end()
}

fn sabani(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabani"));
    command.arg("run").args(arguments);
    command
}

/// A job that runs.
pub struct Job {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    err: JoinHandle<String>,
}

impl Job {
    pub fn start(arguments: &[&str]) -> Self {
        Self::of(&mut sabani(arguments))
    }

    /// Like [`Job::start`], as a shell does it: in a process group of its own.
    pub fn start_apart(arguments: &[&str]) -> Self {
        Self::of(sabani(arguments).process_group(0))
    }

    /// Like [`Job::start`], as a script does it with `&`: interrupts are ignored.
    pub fn start_in_background(arguments: &[&str]) -> Self {
        let script = "trap '' INT QUIT; exec \"$0\" run \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_sabani")]);
        Self::of(shell.args(arguments))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        let (heard, lines) = channel();
        thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| heard.send(line))
        });
        let err = thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
            err,
        }
    }

    pub fn input(&mut self) -> &mut ChildStdin {
        self.child.stdin.as_mut().unwrap()
    }

    /// Waits until so many lines with this in them have come.
    pub fn wait_for(&mut self, what: &str, count: usize) -> Vec<String> {
        let with = |seen: &[String]| -> Vec<String> {
            seen.iter()
                .filter(|line| line.contains(what))
                .cloned()
                .collect()
        };
        while with(&self.seen).len() < count {
            let line = self.lines.recv_timeout(PATIENCE);
            self.seen.push(line.expect("the job says more"));
        }
        with(&self.seen)
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Signals everybody in the job's own process group.
    pub fn signal_group(&self, signal: Signal) {
        killpg(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The processes of the launcher itself: front and keeper.
    fn processes(&self) -> [i32; 2] {
        let front = self.child.id() as i32;
        let children = fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
        [front, children.trim().parse().expect("the keeper alone")]
    }

    /// Kills one of the launcher's processes.
    pub fn kill(&self, which: &str) {
        let [front, keeper] = self.processes();
        let pid = if which == "front" { front } else { keeper };
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }

    /// Closes its input and waits for its end.
    pub fn end(mut self) -> Done {
        drop(self.child.stdin.take());
        let mut out = self.seen.join("\n");
        if !out.is_empty() {
            out.push('\n');
        }
        for line in self.lines {
            out.push_str(&line);
            out.push('\n');
        }
        let err = self.err.join().unwrap();
        let status = self.child.wait().unwrap();
        let code = status.code();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let status = code.or(signal.map(|signal| 128 + signal)).unwrap();
        Done { out, err, status }
    }
}
