//! The example `whoami`, started by real launchers, and by hand at a rendezvous address.

mod found;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use found::{clean, hydra, open_mpi};

fn whoami() -> PathBuf {
    found::example("whoami")
}

fn lines(output: Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    let mut lines: Vec<_> = said.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What each of so many ranks says.
fn expected(size: u32, launcher: &str, key: &str) -> Vec<String> {
    let line = |rank| {
        format!(
            "rank {rank} of {size}, local rank {rank}, by {launcher}, key {key}, {size} addresses"
        )
    };
    (0..size).map(line).collect()
}

#[test]
fn alone_it_is_a_world_of_one() {
    let output = clean(whoami()).output().unwrap();
    assert_eq!(lines(output), expected(1, "no launcher", "None"));
}

#[test]
fn ranks_meet_under_open_mpi() {
    let Some(mut mpirun) = open_mpi() else { return };
    let output = mpirun.args(["-n", "3"]).arg(whoami()).output().unwrap();
    assert_eq!(lines(output), expected(3, "PMIx", "Shared"));
}

#[test]
fn ranks_meet_under_hydra_over_a_descriptor_and_a_port() {
    for how in [&["-n", "3"][..], &["-pmi-port", "-n", "3"]] {
        let Some(mut mpiexec) = hydra() else { return };
        let output = mpiexec.args(how).arg(whoami()).output().unwrap();
        assert_eq!(lines(output), expected(3, "PMI", "Shared"));
    }
}

#[test]
fn a_missing_libpmix_is_named_with_its_cure() {
    let Some(mut mpirun) = open_mpi() else { return };
    let lib = "SABANI_PMIX_LIBRARY=libsabani-no-such.so";
    let output = mpirun
        .args(["-n", "1", "-x", lib])
        .arg(whoami())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("install libpmix2"),
        "{said}"
    );
}

/// A rendezvous on this host, with a key file.
struct Meeting {
    address: String,
    key: PathBuf,
}

impl Meeting {
    fn new(name: &str) -> Self {
        // An address of its own: ports of 127.0.0.1 are taken by other tests, which reset who calls them, before rank 0 listens.
        let [.., high, low] = std::process::id().to_be_bytes();
        let free = TcpListener::bind(format!("127.77.{high}.{low}:0")).unwrap();
        let key = env::temp_dir().join(format!("sabani-{name}-{}.key", std::process::id()));
        fs::write(&key, "ab".repeat(32)).unwrap();
        Self {
            address: free.local_addr().unwrap().to_string(),
            key,
        }
    }

    fn start(&self, rank: u32, more: &[(&str, &str)]) -> Child {
        let mut command = clean(whoami());
        command
            .env("SABANI_RENDEZVOUS", &self.address)
            .env("SABANI_RANK", rank.to_string())
            .env("SABANI_SIZE", "3")
            .env("SABANI_JOB_KEY_FILE", &self.key)
            .envs(more.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.key);
    }
}

fn complaint(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn ranks_meet_at_a_rendezvous() {
    let meeting = Meeting::new("meet");
    // Rank 0 comes last: the others wait for it.
    let ranks = [2, 1, 0].map(|rank| meeting.start(rank, &[]));
    let said = ranks.map(|child| lines(child.wait_with_output().unwrap()));
    let mut said = said.concat();
    said.sort();
    let key = format!("File({})", meeting.key.display());
    assert_eq!(said, expected(3, "the rendezvous", &key));
}

#[test]
fn ranks_of_an_indexed_job_meet() {
    let meeting = Meeting::new("indexed");
    let ranks = ["0", "1", "2"].map(|index| {
        let mut command = clean(whoami());
        command
            .env("JOB_COMPLETION_INDEX", index)
            .env("SABANI_SIZE", "3")
            .env("SABANI_RENDEZVOUS", &meeting.address)
            .env("SABANI_JOB_KEY_FILE", &meeting.key)
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    });
    for child in ranks {
        let said = lines(child.wait_with_output().unwrap());
        assert!(said[0].contains("by Kubernetes"), "{said:?}");
    }
}

#[test]
fn a_key_file_may_have_any_name_and_other_variables_must_be_unicode() {
    let name = OsStr::from_bytes(b"/tmp/m\xfcller/key");
    let mut command = clean(whoami());
    let output = command.env("SABANI_JOB_KEY_FILE", name).output().unwrap();
    let key = format!("File({})", name.display());
    assert_eq!(lines(output), expected(1, "no launcher", &key));
    let output = clean(whoami()).env("SABANI_IF", name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("SABANI_IF: `/tmp/m"),
        "{said}"
    );
}

#[test]
fn who_does_not_come_is_named() {
    let meeting = Meeting::new("missing");
    let soon = [("SABANI_START_TIMEOUT", "1")];
    let ranks = [0, 2].map(|rank| meeting.start(rank, &soon));
    let said = ranks.map(complaint);
    // One that came late may miss the other as well.
    let names_it = |said: &String| {
        let list = said.split("Error: ranks [").nth(1);
        list.and_then(|list| list.split(']').next())
            .is_some_and(|list| list.contains('1'))
    };
    assert!(said.iter().any(names_it), "{said:?}");
}

#[test]
fn who_has_another_key_is_not_let_in_and_rank_0_says_who_came() {
    let meeting = Meeting::new("right");
    let other = Meeting::new("wrong");
    fs::write(&other.key, "cd".repeat(32)).unwrap();
    let host = meeting.start(0, &[("SABANI_START_TIMEOUT", "4")]);
    let wrong = other.key.to_str().unwrap();
    let stranger = meeting.start(1, &[("SABANI_JOB_KEY_FILE", wrong)]);
    let said = complaint(stranger);
    assert!(said.contains("has every rank the same job key"), "{said}");
    let said = complaint(host);
    let who = "turned away: 127.0.0.1: it sent a frame that was not made with this job's key";
    assert!(said.contains(who), "{said}");
}
