//! Ranks that use the table of a network's file.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sabani_model::Network;
use sabani_model::choose::Row;
use sabani_model::network::{
    Capacity, Estimate, Graph, Host, Latency, Point, Recovery, Transport, VERSION,
};
use tempfile::TempDir;

use crate::job::{Done, ranks, run};

fn row(collective: &str, ranks: usize, choice: &str) -> Row {
    Row {
        collective: collective.into(),
        ranks,
        hosts: 1,
        bytes: 0,
        choice: choice.into(),
        expected_ns: 2e6,
        rule_ns: 3e6,
    }
}

/// Processes of one host, as `sabani model measure` would describe them, with a table.
pub fn network(choices: Vec<Row>) -> Network {
    let host = |rank| Host {
        name: format!("rank {rank}"),
        out: Capacity::exact(1e9),
        into: Capacity::exact(1e9),
        both: Capacity::default(),
    };
    let exact = Estimate::exact;
    let transport = Transport {
        latencies: vec![Latency::constant(0, exact(5e3))],
        points: vec![Point {
            bytes: 0.0,
            send_ns: exact(1e3),
            receive_ns: exact(1e3),
            gap_ns: exact(2e3),
        }],
        noise: Vec::new(),
        recovery: Recovery {
            window_bytes: exact(1e6),
            learned: false,
            granted: true,
            packet_bytes: 1_400.0,
            ack_bytes: 0,
            later_packets: 3,
            later_ns: exact(1e5),
            probe_ns: None,
            timeout_ns: exact(1e8),
            seen: false,
        },
    };
    Network {
        version: VERSION,
        graph: Graph {
            hosts: (0..4).map(host).collect(),
            ..Graph::default()
        },
        one_host: true,
        transports: [("sabani".to_owned(), transport)].into(),
        copy_bytes_per_s: exact(1e10),
        reduce_bytes_per_s: exact(1e10),
        choices,
    }
}

/// A folder with such a file.
pub fn folder(network: &Network) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("n.json"), network.to_json()).unwrap();
    folder
}

/// Four ranks, of which only rank 0 has the file, and the others are told nonsense; all explain.
fn explained(file: &Path, task: &str) -> Done {
    let script = "if [ $SABANI_RANK = 0 ]; then export SABANI_NETWORK=$0; \
                  else export SABANI_NETWORK=/nowhere SABANI_ALGORITHMS=nonsense; fi; \
                  export SABANI_EXPLAIN=1; exec $1 $2";
    let file = file.to_str().unwrap();
    run(&["-n", "4", "--", "sh", "-c", script, file, &ranks(), task])
}

#[test]
fn all_ranks_use_the_table_that_rank_0_has_and_rank_0_says_why() {
    let choices = [
        row("bcast", 4, "split_binary:segment=1KiB"),
        row("alltoall", 4, "windowed:window=2"),
        row("allreduce", 4, "ring"),
    ];
    let folder = folder(&network(choices.into()));
    let file = folder.path().join("n.json");
    let done = explained(&file, "collectives");
    assert_eq!(done.out.matches("all is right").count(), 4, "{}", done.err);
    let because = format!("by {}: 2.0ms expected with 4 ranks and 0 B", file.display());
    for line in [
        "[0] sabani: bcast, 4 ranks on 1 host: split_binary:segment=1KiB",
        "[0] sabani: alltoall, 4 ranks on 1 host: windowed:window=2",
        "[0] sabani: allreduce, 4 ranks on 1 host: ring",
    ] {
        let expected = format!("{line}, {because}");
        assert_eq!(done.err.matches(&expected).count(), 1, "{}", done.err);
    }
    // Not for operations whose order matters, nor where not all ranks know the lengths.
    let has_rule = |line: &str| line.contains("by the rule: ") && line.contains("has nothing");
    let lines = || done.err.lines();
    assert!(
        lines().any(|line| line.contains("allreduce") && has_rule(line)),
        "{}",
        done.err
    );
    assert!(
        lines().any(|line| line.contains("barrier") && has_rule(line)),
        "{}",
        done.err
    );
    assert!(!done.err.contains("[1]"), "{}", done.err);
}

#[test]
fn parts_of_a_communicator_use_it_where_they_are_like_what_was_measured() {
    let choices = [
        row("allreduce", 2, "recursive_doubling"),
        row("allreduce", 4, "ring"),
    ];
    let folder = folder(&network(choices.into()));
    let file = folder.path().join("n.json");
    let done = explained(&file, "groups");
    assert_eq!(done.out.matches("all is right").count(), 4, "{}", done.err);
    for (ranks, choice) in [(2, "recursive_doubling"), (3, "ring")] {
        let by = format!("{choice}, by {}: ", file.display());
        let line = format!("allreduce, {ranks} ranks on 1 host: {by}");
        assert!(done.err.contains(&line), "{}", done.err);
    }
}

#[test]
fn a_file_that_can_not_be_used_is_named_by_all_ranks() {
    let table = vec![row("bcast", 4, "chain")];
    let without = folder(&network(Vec::new()));
    let nonsense = folder(&network(vec![row("bcast", 4, "rope")]));
    let newer = folder(&Network {
        version: VERSION + 1,
        ..network(table)
    });
    for (folder, name, why) in [
        (&without, "n.json", "sabani model compile --network"),
        (&nonsense, "n.json", "`rope`"),
        (&newer, "n.json", "measure again"),
        (&newer, "nothing.json", "sabani model measure -o "),
    ] {
        let done = explained(&folder.path().join(name), "collectives");
        assert_eq!(done.status, 1, "{}", done.err);
        let told = done
            .err
            .matches("description of the network: rank 0's SABANI_NETWORK=")
            .count();
        assert!(
            told > 0 && done.err.contains(name) && done.err.contains(why),
            "{}",
            done.err
        );
    }
}

/// Runs a program as two ranks, with this file for `SABANI_NETWORK`.
fn run_with(file: &Path, program: &str) -> Done {
    let variable = format!("SABANI_NETWORK={}", file.display());
    let mut words = vec!["-n", "2", "--", "env", &variable];
    words.extend(program.split(' '));
    run(&words)
}

#[test]
fn a_variable_that_names_no_usable_file_is_a_mistake_like_those_on_the_command_line() {
    let folder = folder(&network(vec![row("bcast", 2, "rope")]));
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let sabani = env!("CARGO_BIN_EXE_sabani");
    let bench = format!("{sabani} bench coll --collectives barrier --rounds 1 --seconds 0.01");
    for (file, why) in [
        (folder.path().join("n.json"), "`rope`"),
        (folder.path().join("none.json"), "there is no such file"),
        (pipe.clone(), "no plain file"),
    ] {
        let done = run_with(&file, &bench);
        assert_eq!(done.status, 2, "{}", done.err);
        assert!(done.err.contains(why), "{}", done.err);
    }
    let alone = Command::new(sabani)
        .args(["bench", "coll", "--collectives", "barrier"])
        .env("SABANI_NETWORK", &pipe)
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2));
    // A program's own status stays its own.
    let done = run_with(Path::new("/dev/zero"), &format!("{} ring", ranks()));
    assert_eq!(done.status, 1, "{}", done.err);
    assert!(done.err.contains("no plain file"), "{}", done.err);
}

#[test]
fn without_a_file_the_rule_and_a_hint() {
    let program = ranks();
    let explain = ["env", "SABANI_EXPLAIN=1", &program, "many"];
    let done = run(&[&["-n", "3", "--"], &explain[..]].concat());
    assert!(done.err.contains("SABANI_NETWORK may name"), "{}", done.err);
    assert!(
        done.err
            .contains("alltoall, 3 ranks on 1 host: posted, by the rule"),
        "{}",
        done.err
    );
}
