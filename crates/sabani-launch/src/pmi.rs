//! PMI-1: MPICH's Hydra, and Slurm with `--mpi=pmi2`, which answers it as well. Lines of
//! `cmd=... key=value ...`, over a descriptor that the launcher has left open, or over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::store::Store;
use crate::{Error, Launcher};

trait Connection: Read + Write + Send {}
impl<T: Read + Write + Send> Connection for T {}

/// A client of a PMI-1 launcher.
pub struct Client {
    connection: BufReader<Box<dyn Connection>>,
    /// The name of the job's own store.
    name: String,
    rank: u32,
    size: u32,
}

impl Client {
    /// Speaks over a descriptor that the launcher has left open.
    ///
    /// # Errors
    /// If the launcher is gone, or speaks something else.
    pub fn inherited(fd: OwnedFd, rank: u32, size: u32) -> Result<Self, Error> {
        // Reading and writing are the same for every kind of stream socket.
        let mut client = Self::new(Box::new(UnixStream::from(fd)), rank, size);
        client.begin()?;
        Ok(client)
    }

    /// Speaks over TCP, and learns there which rank this is.
    ///
    /// # Errors
    /// As [`Client::inherited`].
    pub fn call(address: &str, id: u32) -> Result<Self, Error> {
        let stream = TcpStream::connect(address)
            .map_err(|error| failed(&format!("connecting to {address}"), error.to_string()))?;
        let mut client = Self::new(Box::new(stream), id, 0);
        client.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
        client.size = client.told("size")?;
        client.rank = client.told("rank")?;
        let _debug: u32 = client.told("debug")?;
        client.begin()?;
        Ok(client)
    }

    fn new(connection: Box<dyn Connection>, rank: u32, size: u32) -> Self {
        Self {
            connection: BufReader::new(connection),
            name: String::new(),
            rank,
            size,
        }
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.ask(
            "cmd=init pmi_version=1 pmi_subversion=1",
            "response_to_init",
        )?;
        let reply = self.ask("cmd=get_my_kvsname", "my_kvsname")?;
        self.name = value_of(&reply, "kvsname")
            .ok_or_else(|| failed("asking for its store", reply.clone()))?
            .to_owned();
        Ok(())
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Says a line and returns the answer, which must be this one and a success.
    fn ask(&mut self, line: &str, expected: &str) -> Result<String, Error> {
        let doing = line.split(' ').next().unwrap_or_default();
        self.say(line)
            .map_err(|error| failed(doing, error.to_string()))?;
        let reply = self.hear(doing)?;
        let is_expected = value_of(&reply, "cmd") == Some(expected);
        let succeeded = value_of(&reply, "rc").is_none_or(|status| status == "0");
        if !is_expected || !succeeded {
            return Err(failed(doing, format!("it answers `{reply}`")));
        }
        Ok(reply)
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        self.connection
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
    }

    fn hear(&mut self, doing: &str) -> Result<String, Error> {
        let mut line = String::new();
        match self.connection.read_line(&mut line) {
            Ok(0) => Err(failed(doing, "it has closed the connection".into())),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(failed(doing, error.to_string())),
        }
    }

    /// A number that the launcher says unasked.
    fn told(&mut self, key: &str) -> Result<u32, Error> {
        let line = self.hear("cmd=initack")?;
        let number = value_of(&line, key).and_then(|number| number.parse().ok());
        number.ok_or_else(|| failed("cmd=initack", format!("it says `{line}`, not its {key}")))
    }
}

fn failed(doing: &str, problem: String) -> Error {
    Error::Launcher {
        launcher: Launcher::Pmi,
        doing: doing.into(),
        problem,
    }
}

/// The value of a key in a line. `value` itself comes last and may hold anything but spaces.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(name, value)| (name == key).then_some(value))
}

/// One store serves all ranks, so keys carry their rank.
fn key_of(rank: u32, key: &str) -> String {
    format!("sabani-{rank}-{key}")
}

impl Store for Client {
    fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let (name, key) = (&self.name, key_of(self.rank, key));
        let line = format!("cmd=put kvsname={name} key={key} value={value}");
        self.ask(&line, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result<(), Error> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, Error> {
        let (name, key) = (&self.name, key_of(rank, key));
        let reply = self.ask(&format!("cmd=get kvsname={name} key={key}"), "get_result")?;
        let value = value_of(&reply, "value");
        value
            .map(str::to_owned)
            .ok_or_else(|| failed("cmd=get", reply.clone()))
    }

    fn abort(&mut self, status: i32, _why: &str) {
        let _ = self.say(&format!("cmd=abort exitcode={status}"));
    }

    fn finish(&mut self) {
        let _ = self.ask("cmd=finalize", "finalize_ack");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A launcher that expects these lines and answers with those.
    fn launcher(script: &'static [(&str, &str)]) -> (UnixStream, thread::JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let launcher = thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            let mut theirs = theirs;
            for (expected, answer) in script {
                assert_eq!(lines.next().unwrap().unwrap(), *expected);
                theirs.write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
        });
        (ours, launcher)
    }

    const BEGIN: [(&str, &str); 2] = [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        ),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_7"),
    ];

    #[test]
    fn the_wire_protocol_is_spoken() {
        let (ours, launcher) = launcher(&[
            BEGIN[0],
            BEGIN[1],
            (
                "cmd=put kvsname=kvs_7 key=sabani-1-card value=a=b",
                "cmd=put_result rc=0 msg=success",
            ),
            ("cmd=barrier_in", "cmd=barrier_out rc=0"),
            (
                "cmd=get kvsname=kvs_7 key=sabani-0-card",
                "cmd=get_result rc=0 msg=success value=x=y",
            ),
            ("cmd=finalize", "cmd=finalize_ack rc=0"),
        ]);
        let mut client = Client::inherited(ours.into(), 1, 2).unwrap();
        client.put("card", "a=b").unwrap();
        client.fence().unwrap();
        assert_eq!(client.get(0, "card").unwrap(), "x=y");
        client.finish();
        launcher.join().unwrap();
    }

    #[test]
    fn refusals_and_ends_are_said() {
        let (ours, launcher) = launcher(&[
            BEGIN[0],
            BEGIN[1],
            (
                "cmd=get kvsname=kvs_7 key=sabani-0-card",
                "cmd=get_result rc=-1 msg=key_not_found value=unknown",
            ),
        ]);
        let mut client = Client::inherited(ours.into(), 1, 2).unwrap();
        let error = client.get(0, "card").unwrap_err().to_string();
        assert!(error.contains("key_not_found"), "{error}");
        launcher.join().unwrap();
        let error = client.fence().unwrap_err().to_string();
        assert!(error.starts_with("PMI: cmd=barrier_in: "), "{error}");
    }
}
