//! Processes that are measured, driven by the one that reports: a line of JSON per command and per
//! answer.

use std::{
    fmt::{self, Debug, Display, Formatter},
    io::{BufRead, BufReader, Read, Write, stdout},
    net::TcpStream,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    exit::Interrupted,
    interrupt::{self, TICK},
    tell::{explained, note},
    threads::{Started, told},
};

/// An answer on its way; instead of one, what went wrong.
type Line<R> = Result<R, String>;

/// Answers, in a process that is measured.
///
/// # Errors
/// As [`explained`].
pub fn answer<R: Serialize>(outcome: Result<R>) -> Result<()> {
    let line: Line<R> = outcome.map_err(|error| told(&error));
    // In one piece, for `bench serve` may say why it ends meanwhile.
    let line = serde_json::to_string(&line)? + "\n";
    let mut output = stdout().lock();
    explained(
        output
            .write_all(line.as_bytes())
            .and_then(|()| output.flush()),
    )
}

/// So long before patience ends the user is told who is waited for.
const LATE: Duration = Duration::from_secs(10);

/// None of them has answered for so long.
#[derive(Debug)]
pub struct Stuck(Duration);

impl Display for Stuck {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "stuck: no answer for {:?}", self.0)
    }
}

impl std::error::Error for Stuck {}

/// One of some [`Workers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(usize);

/// The processes that are measured, which answer with `R`; killed when dropped.
pub struct Workers<R> {
    workers: Vec<Worker>,
    answers: Receiver<(Id, Result<R>)>,
    heard: Sender<(Id, Result<R>)>,
}

struct Worker {
    name: String,
    input: Box<dyn Write + Send>,
    /// None if it runs elsewhere.
    child: Option<Child>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl<R: DeserializeOwned + Debug + Send + 'static> Workers<R> {
    /// Nobody yet.
    pub fn new() -> Self {
        let (heard, answers) = channel();
        Self {
            workers: Vec::new(),
            answers,
            heard,
        }
    }

    /// Starts a process, out of reach of the terminal's Ctrl-C: ending it is this one's affair.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&mut self, name: impl Into<String>, mut command: Command) -> Result<Id> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .started("a process to measure")?;
        let input = child.stdin.take().context("no way to talk to a process")?;
        let output = child.stdout.take().context("no way to hear a process")?;
        Ok(self.add(name.into(), input, output, Some(child)))
    }

    /// Drives a process that runs elsewhere.
    ///
    /// # Errors
    /// If the connection is of no use.
    pub fn connect(&mut self, name: impl Into<String>, stream: TcpStream) -> Result<Id> {
        stream.set_nodelay(true)?;
        let output = stream.try_clone()?;
        Ok(self.add(name.into(), stream, output, None))
    }

    fn add(
        &mut self,
        name: String,
        input: impl Write + Send + 'static,
        output: impl Read + Send + 'static,
        child: Option<Child>,
    ) -> Id {
        let id = Id(self.workers.len());
        self.workers.push(Worker {
            name,
            input: Box::new(input),
            child,
        });
        let heard = self.heard.clone();
        thread::spawn(move || listen(id, output, &heard));
        id
    }

    /// Tells a process something.
    ///
    /// # Errors
    /// If that can't be written as JSON. A process that is gone says so in place of an answer.
    pub fn tell(&mut self, id: Id, command: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(command)? + "\n";
        let input = &mut self.workers[id.0].input;
        let _ = input
            .write_all(line.as_bytes())
            .and_then(|()| input.flush());
        Ok(())
    }

    /// Tells a process something, and waits for its answer.
    ///
    /// # Errors
    /// As [`Self::answer_of`].
    pub fn ask(&mut self, id: Id, command: &impl Serialize, patience: Duration) -> Result<R> {
        self.tell(id, command)?;
        self.answer_of(id, patience)
    }

    /// Waits for the answer of a process, the only one that has something to answer.
    ///
    /// # Errors
    /// As [`Self::next`], and if another one answers.
    pub fn answer_of(&mut self, id: Id, patience: Duration) -> Result<R> {
        match self.wait(Some(id), patience)? {
            (from, reply) if from == id => Ok(reply),
            (from, reply) => Err(self.nonsense(from, &reply)),
        }
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// If any process fails or is gone, if none answers for `patience`, or if the user interrupts.
    pub fn next(&mut self, patience: Duration) -> Result<(Id, R)> {
        self.wait(None, patience)
    }

    /// Waits for the next answer, which is to be that of this one.
    fn wait(&mut self, whose: Option<Id>, patience: Duration) -> Result<(Id, R)> {
        let start = Instant::now();
        let mut told = false;
        while start.elapsed() < patience {
            if !told && start.elapsed() + LATE > patience {
                told = true;
                note(self.late(whose, start.elapsed()));
            }
            if interrupt::requested() {
                return Err(Interrupted("the bench was interrupted before its end".into()).into());
            }
            match self.answers.recv_timeout(TICK) {
                Ok((id, reply)) => return Ok((id, reply.context(self.name(id))?)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("there is nobody to answer"),
            }
        }
        Err(Stuck(patience).into())
    }

    /// What to say of an answer that makes no sense.
    pub fn nonsense(&self, id: Id, reply: &R) -> Error {
        anyhow!("{} answers {reply:?}", self.name(id))
    }

    /// What to say while an answer is late.
    fn late(&self, whose: Option<Id>, waited: Duration) -> String {
        let whose = whose.map_or_else(|| "the processes".into(), |id| self.name(id));
        let here = self
            .workers
            .iter()
            .filter_map(|worker| worker.child.as_ref());
        let here: Vec<_> = here.map(|child| child.id().to_string()).collect();
        let here = match here.is_empty() {
            true => String::new(),
            false => format!(
                " (`ps {}` shows T for those of this machine)",
                here.join(" ")
            ),
        };
        format!(
            "waiting for an answer of {whose} for {:.0} s: it, or who it measures with, may be stopped{here}, or the \
             way between them cut",
            waited.as_secs_f64()
        )
    }

    fn name(&self, id: Id) -> String {
        self.workers[id.0].name.clone()
    }
}

/// Hears what a process says, in a thread that ends with it.
fn listen<R: DeserializeOwned>(id: Id, output: impl Read, heard: &Sender<(Id, Result<R>)>) {
    for line in BufReader::new(output).lines() {
        // Nobody listens any more when the measurement is over.
        if heard
            .send((id, line.map_err(Error::from).and_then(|line| parse(&line))))
            .is_err()
        {
            return;
        }
    }
    let _ = heard.send((id, Err(anyhow!("the process has ended"))));
}

fn parse<R: DeserializeOwned>(line: &str) -> Result<R> {
    let line: Line<R> = serde_json::from_str(line)
        .map_err(|error| anyhow!("not an answer ({error}): is it the same build of Sabani?"))?;
    line.map_err(Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(workers: &mut Workers<u32>, script: &str) -> Id {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        workers.start("it", command).unwrap()
    }

    fn said(result: Result<(Id, u32)>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn answers_come_from_those_who_were_asked() {
        let mut workers = Workers::new();
        let echo = shell(
            &mut workers,
            "read line; echo \"{\\\"Ok\\\":$line}\"; read line",
        );
        let other = shell(&mut workers, "read line; read line");
        assert_eq!(workers.ask(echo, &7, PATIENCE).unwrap(), 7);
        assert_ne!(echo, other);
        assert!(workers.next(Duration::ZERO).is_err());
    }

    #[test]
    fn who_is_late_is_named() {
        let mut workers = Workers::new();
        let it = shell(&mut workers, "read line");
        let said = workers.late(Some(it), LATE);
        assert!(
            said.starts_with("waiting for an answer of it for 10 s"),
            "{said}"
        );
        let pid = workers.workers[0].child.as_ref().unwrap().id();
        assert!(said.contains(&format!("`ps {pid}`")), "{said}");
    }

    #[test]
    fn failures_nonsense_and_ends_name_the_process() {
        let mut workers = Workers::new();
        for (script, expected) in [
            (r#"echo '{"Err":"no room"}'; read line"#, "it: no room"),
            ("echo hello; read line", "it: not an answer"),
            ("true", "it: the process has ended"),
        ] {
            shell(&mut workers, script);
            let error = said(workers.next(PATIENCE));
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
