//! What environments lead to, in this process: worlds, or refusals with a cure.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use sabani_launch::{Environment, JobKey, Launcher, World};

/// What takes longer hangs.
const HANG: Duration = Duration::from_secs(20);

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().copied().collect()
}

/// Joins, and says why not.
fn refusal(variables: &[(&str, &str)]) -> String {
    World::join_by(&environment(variables))
        .unwrap_err()
        .to_string()
}

/// A file with a job key.
struct Key(PathBuf);

impl Key {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("sabani-{name}-{}.key", process::id()));
        fs::write(&path, "ab".repeat(32)).unwrap();
        Self(path)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A rank of two, at a rendezvous.
fn place<'a>(
    rank: &'a str,
    address: &'a str,
    key: &'a Key,
    seconds: &'a str,
) -> [(&'a str, &'a str); 5] {
    [
        ("SABANI_RENDEZVOUS", address),
        ("SABANI_RANK", rank),
        ("SABANI_SIZE", "2"),
        ("SABANI_JOB_KEY_FILE", key.0.to_str().unwrap()),
        ("SABANI_START_TIMEOUT", seconds),
    ]
}

fn meet(rank: &str, address: &str, key: &Key) -> World {
    World::join_by(&environment(&place(rank, address, key, "20"))).unwrap()
}

/// An address for a rendezvous.
fn free_address() -> String {
    // Ports of 127.0.0.1 are taken by other tests.
    let [.., high, low] = process::id().to_be_bytes();
    let free = TcpListener::bind(format!("127.78.{high}.{low}:0")).unwrap();
    free.local_addr().unwrap().to_string()
}

/// A PMI launcher that tells whoever calls this place in its job, and agrees to all else.
fn pmi(rank: u32, size: u32) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let Ok(line) = line else { return };
            let answer = match line.split(' ').next() {
                Some("cmd=initack") => {
                    format!(
                        "cmd=initack\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0"
                    )
                }
                Some("cmd=init") => "cmd=response_to_init rc=0".into(),
                Some("cmd=get_my_kvsname") => "cmd=my_kvsname kvsname=k".into(),
                Some("cmd=put") => "cmd=put_result rc=0".into(),
                Some("cmd=barrier_in") => "cmd=barrier_out rc=0".into(),
                Some("cmd=get") => format!("cmd=get_result rc=0 value={}", "ab".repeat(32)),
                _ => "cmd=finalize_ack".into(),
            };
            if writeln!(stream, "{answer}").is_err() {
                return;
            }
        }
    });
    address
}

#[test]
fn a_launcher_that_knows_no_such_rank_is_refused() {
    for (rank, size) in [(5, 2), (2, 2), (0, 0)] {
        let why = refusal(&[("PMI_PORT", &pmi(rank, size)), ("PMI_ID", "0")]);
        let said = format!("rank {rank} of a job of {size}");
        assert!(why.starts_with("PMI: ") && why.contains(&said), "{why}");
    }
    let address = pmi(1, 2);
    let world = World::join_by(&environment(&[("PMI_PORT", &address), ("PMI_ID", "1")])).unwrap();
    assert_eq!((world.rank(), world.size()), (1, 2));
}

#[test]
fn a_job_of_one_needs_neither_a_key_nor_a_meeting() {
    let step = [
        ("SLURM_JOB_ID", "12"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NODELIST", "no-such-host"),
        ("SLURM_STEP_NUM_TASKS", "1"),
        ("SLURM_PROCID", "0"),
    ];
    let mut world = World::join_by(&environment(&step)).unwrap();
    assert_eq!((world.rank(), world.size()), (0, 1));
    assert_eq!(world.launcher(), Launcher::Slurm);
    assert_eq!(world.job_key(), &JobKey::None);
    world.meet("127.0.0.1:9".parse().unwrap()).unwrap();
    assert_eq!(world.members().len(), 1);

    let why = refusal(&[&step[..], &[("SABANI_SIZE", "2")]].concat());
    assert!(why.contains("is 2, but Slurm has started 1"), "{why}");
    let mut two = step;
    two[3].1 = "2";
    let why = refusal(&two);
    assert!(why.contains("no job key"), "{why}");
}

#[test]
fn a_rendezvous_that_says_nothing_is_given_up() {
    let key = Key::new("silent");
    // Its kernel takes calls, and nobody answers them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (tell, told) = channel();
    thread::spawn(move || drop(tell.send(refusal(&place("1", &address, &key, "1")))));
    let why = told.recv_timeout(HANG).expect("it gives up after 1 s");
    assert!(why.contains("rank 0 says nothing, for 1s"), "{why}");
}

#[test]
fn the_next_program_waits_until_rank_0_has_ended_the_one_before() {
    let (key, address) = (Key::new("next"), free_address());
    let next = || meet("1", &address, &key).fence().unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(next);
        let mut rank_0 = meet("0", &address, &key);
        rank_0.fence().unwrap();
        first.join().unwrap();
        while rank_0.departures().is_empty() {
            thread::yield_now();
        }
        let second = scope.spawn(next);
        let why = refusal(&place("1", &address, &key, "1"));
        assert!(why.contains("rank 1 was here and has ended"), "{why}");
        drop(rank_0);
        // In a process of its own the port would be free by now.
        while TcpListener::bind(&address).is_err() {
            thread::yield_now();
        }
        let mut rank_0 = meet("0", &address, &key);
        rank_0.fence().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn those_who_call_and_say_nothing_keep_nobody_out() {
    let (key, address) = (Key::new("idle"), free_address());
    let mut rank_0 = meet("0", &address, &key);
    let idle: Vec<_> = (0..300)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let mut rank_1 = meet("1", &address, &key);
    thread::scope(|scope| {
        let other = scope.spawn(|| rank_1.fence().unwrap());
        rank_0.fence().unwrap();
        other.join().unwrap();
    });
    drop(idle);
}
