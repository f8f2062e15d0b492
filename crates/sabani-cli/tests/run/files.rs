//! Networks' files on the command line: what is wrong with them is told before anything is begun.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use sabani_model::Network;

use crate::choice::{folder, network};
use crate::job::run;

const SABANI: &str = env!("CARGO_BIN_EXE_sabani");

/// Runs `sabani` with these words in a folder.
fn sabani(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(SABANI);
    command.args(words.split(' ')).current_dir(folder);
    command.output().unwrap()
}

/// Runs a line of a shell's in a folder.
fn shell(folder: &Path, line: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder);
    command.output().unwrap()
}

/// What is said where the command line is wrong.
fn usage(folder: &Path, words: &str) -> String {
    let done = sabani(folder, words);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{words}: {said}");
    assert!(done.stdout.is_empty(), "{words}");
    said
}

const PREDICT: &str = "model predict bcast --ranks 4 --bytes 1k --network n.json";

#[test]
fn a_file_that_is_read_is_not_written_over() {
    let folder = folder(&network(Vec::new()));
    let place = folder.path();
    let before = fs::read(place.join("n.json")).unwrap();
    for (words, both) in [
        (format!("{PREDICT} --json ./n.json"), "--network and --json"),
        (format!("{PREDICT} --html n.json"), "--network and --html"),
        (
            format!("{PREDICT} --json x --html ./x"),
            "--json and --html",
        ),
        ("sim loss --json x --html x".to_owned(), "--json and --html"),
        ("sim n.json --json n.json".to_owned(), "the plan and --json"),
    ] {
        let said = usage(place, &words);
        assert!(said.contains(both), "{said}");
    }
    for (words, both) in [
        (
            "compare bcast --network n.json --html n.json",
            "--network and --html",
        ),
        ("measure -o x --html x", "--output and --html"),
    ] {
        let script = format!("cd \"$0\" && exec {SABANI} model {words}");
        let done = run(&[
            "-n",
            "2",
            "--",
            "sh",
            "-c",
            &script,
            place.to_str().unwrap(),
        ]);
        assert_eq!(done.status, 2, "{}", done.err);
        assert_eq!(done.err.matches(both).count(), 1, "{}", done.err);
    }
    assert_eq!(fs::read(place.join("n.json")).unwrap(), before);
    assert_eq!(fs::read_dir(place).unwrap().count(), 1);
}

#[test]
fn lengths_that_can_not_be_counted_are_refused() {
    let folder = folder(&network(Vec::new()));
    for bytes in ["1025G", "17179869183G", "18446744073709551615"] {
        let words = format!("model predict alltoall --ranks 4 --network n.json --bytes {bytes}");
        let said = usage(folder.path(), &words);
        assert!(said.contains("up to 1024 GiB"), "{said}");
    }
    for bytes in ["1G", "17179869183G"] {
        let said = usage(
            folder.path(),
            &format!("model compare alltoall --bytes {bytes}"),
        );
        assert!(said.contains("less than 1 GiB"), "{said}");
    }
    let longest = "model predict alltoall --ranks 4 --network n.json --bytes 1024G --replicates 2";
    let done = sabani(folder.path(), longest);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn one_replicate_tells_nothing_of_how_runs_vary() {
    let folder = folder(&network(Vec::new()));
    let done = sabani(folder.path(), &format!("{PREDICT} --replicates 1"));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        said.contains("From and to: the one simulated run"),
        "{said}"
    );
    assert!(!said.contains("0 % of runs"), "{said}");
    let done = sabani(folder.path(), PREDICT);
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        said.contains("From and to: 90 % of runs lie between"),
        "{said}"
    );
}

#[test]
fn each_number_of_ranks_has_its_lines_once() {
    let folder = folder(&network(Vec::new()));
    let done = sabani(
        folder.path(),
        "model compile --network n.json --ranks 2,2,2",
    );
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("the lengths from one on"), "{said}");
    let text = fs::read_to_string(folder.path().join("n.json")).unwrap();
    let compiled = Network::from_json(&text).unwrap();
    let mut cells: Vec<_> = compiled
        .choices
        .iter()
        .map(|row| (&row.collective, row.bytes))
        .collect();
    let all = cells.len();
    cells.sort_unstable();
    cells.dedup();
    assert!(all > 10 && cells.len() == all, "{text}");
    assert!(compiled.choices.iter().all(|row| row.ranks == 2), "{text}");
}

#[test]
fn a_table_is_not_written_into_a_pipe() {
    let folder = folder(&network(Vec::new()));
    let from_pipe = |words| shell(folder.path(), &format!("cat n.json | {SABANI} {words}"));
    let done = from_pipe("model compile --ranks 2 --network /dev/stdin");
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--network /dev/stdin") && said.contains("no plain file"),
        "{said}"
    );
    let read = from_pipe("model predict bcast --ranks 2 --network /dev/stdin");
    assert!(
        read.status.success(),
        "what is only read may come from a pipe"
    );
}

/// The limit stands for a disk that is full.
#[test]
fn what_can_not_be_written_whole_is_not_left_behind() {
    let folder = folder(&network(Vec::new()));
    for output in ["--html page.html", "--json lines.json"] {
        let limited = format!("trap '' XFSZ; ulimit -f 0; exec {SABANI} {PREDICT} {output}");
        let done = shell(folder.path(), &limited);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(
            said.contains("can't be written") || said.contains("cannot write"),
            "{said}"
        );
        let device = format!("{PREDICT} {} /dev/full", &output[..6]);
        assert_eq!(sabani(folder.path(), &device).status.code(), Some(1));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn lengths_that_do_not_divide_are_told_once() {
    let folder = folder(&network(Vec::new()));
    let file = folder.path().join("n.json");
    let file = file.to_str().unwrap();
    let compare = [
        "model",
        "compare",
        "bcast",
        "--bytes",
        "3",
        "--network",
        file,
    ];
    let options = ["-n", "4", "--on-failure", "continue", "--", SABANI];
    let done = run(&[&options[..], &compare].concat());
    assert_eq!(
        done.err.matches("multiples of 4").count(),
        1,
        "{}",
        done.err
    );
    assert!(done.err.contains("[0] sabani: ranks have"), "{}", done.err);
}
