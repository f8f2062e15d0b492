//! `sabani model measure` as a job's program.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::job::{Done, run};

#[test]
fn two_ranks_measure_what_is_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("n.json"), folder.path().join("n.html"));
    let sabani = env!("CARGO_BIN_EXE_sabani");
    let paths = [&file, &page].map(|path| path.to_str().unwrap());
    let measure = [
        "model",
        "measure",
        "-o",
        paths[0],
        "--html",
        paths[1],
        "--seconds",
        "15",
    ];
    let done = run(&[&["-n", "2", "--", sabani], &measure[..]].concat());
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(done.out.contains("latency"), "{}", done.out);

    let network: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(network["version"], 4);
    assert_eq!(network["graph"]["hosts"][1]["name"], "rank 1");
    let points = network["transports"]["sabani"]["points"]
        .as_array()
        .unwrap();
    assert!(points.len() >= 9, "{points:?}");
    for point in points {
        let gap = &point["gap_ns"];
        let [low, value, high] = ["low", "value", "high"].map(|part| gap[part].as_f64().unwrap());
        assert!(0.0 < low && low <= value && value <= high, "{point}");
    }
    assert!(fs::read_to_string(&page).unwrap().contains("<svg"));
    let table = network["choices"].as_array().unwrap();
    // Others may use this machine so much that nothing can be said of it.
    let unsteady = done.out.contains("nothing here can be believed")
        || done.out.contains("more ranks than cores");
    let listed = table.iter().any(|row| row["collective"] == "allreduce");
    assert_eq!(listed, !unsteady, "{}", done.out);
}

#[test]
fn the_table_may_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.json");
    // What rank 0 is told to try counts.
    let script = "[ $SABANI_RANK = 0 ] && over=sabani || over=tcp-cubic
         exec \"$0\" model measure --no-table --seconds 15 --transport $over -o \"$1\"";
    let sabani = env!("CARGO_BIN_EXE_sabani");
    let path = file.to_str().unwrap();
    let done = run(&["-n", "2", "--", "sh", "-c", script, sabani, path]);
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(done.out.contains("sabani model compile"), "{}", done.out);
    let network: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(network["choices"], Value::Array(Vec::new()));
    let transports = network["transports"].as_object().unwrap();
    assert_eq!(transports.keys().collect::<Vec<_>>(), ["sabani"]);
}

/// Runs the program as ranks, with these words and a path at the end.
fn ranks(count: &str, words: &str, path: &Path) -> Done {
    let mut all = vec!["-n", count, "--", env!("CARGO_BIN_EXE_sabani")];
    all.extend(words.split(' '));
    all.push(path.to_str().unwrap());
    run(&all)
}

/// What rank 0 has written as lines of JSON.
fn json_lines(done: &Done) -> Vec<Value> {
    let lines = done.out.lines();
    let of_json = lines.filter_map(|line| {
        line.strip_prefix("[0] ")
            .filter(|line| line.starts_with('{'))
    });
    of_json
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn ranks_compare_over_what_they_have_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.json");
    let measure = "model measure --transport sabani,tcp-cubic --no-table --seconds 15 -o";
    let measured = ranks("3", measure, &file);
    assert_eq!(measured.status, 0, "{}", measured.err);
    let network: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let transports = network["transports"].as_object().unwrap();
    assert_eq!(
        transports.keys().collect::<Vec<_>>(),
        ["sabani", "tcp-cubic"]
    );
    assert_eq!(transports["tcp-cubic"]["recovery"]["granted"], false);

    for transport in ["sabani", "tcp-cubic"] {
        let compare = "model compare alltoall --bytes 64,4k --runs 2 --json - --transport";
        let compared = ranks("3", &format!("{compare} {transport} --network"), &file);
        assert_eq!(compared.status, 0, "{}", compared.err);
        let is_tcp = transport == "tcp-cubic";
        let lines = json_lines(&compared);
        assert!(lines.len() > 4, "{}", compared.out);
        for line in lines {
            assert_eq!(line["transport"], transport);
            assert_eq!(line["ranks"], 3);
            assert!(line.get("seed").is_none(), "{line}");
            assert_eq!(line.get("timeouts").is_some(), is_tcp, "{line}");
            let took = line["took_ns"].as_array().unwrap();
            assert!(took.iter().all(|ns| ns.as_f64().unwrap() > 0.0), "{line}");
        }
    }

    let barrier = ranks(
        "3",
        "model compare barrier --runs 5 --json - --network",
        &file,
    );
    let lines = json_lines(&barrier);
    assert!(!lines.is_empty(), "{}", barrier.err);
    assert!(lines.iter().all(|line| line["bytes"] == 0), "{lines:?}");

    // Two ranks are not what was measured, nor is TCP with another congestion control.
    let compare = "model compare alltoall --bytes 64 --network";
    let others = ranks("2", &compare.replace("64", "66"), &file);
    assert_eq!(others.status, 2, "{}", others.err);
    assert!(others.err.contains("multiples of 4"), "{}", others.err);
    let unknown = format!("{} --network", "model compare bcast --transport tcp-bbr");
    let unknown = ranks("3", &unknown, &file);
    assert_eq!(unknown.status, 2, "{}", unknown.err);
    assert!(
        unknown.err.contains("only over sabani,tcp-cubic: `sabani model measure --transport sabani,tcp-cubic,tcp-bbr`"),
        "{}",
        unknown.err
    );
    let alone = ranks("1", compare, &file);
    assert_eq!(alone.status, 2, "{}", alone.err);
    assert!(alone.err.contains("start it as a job"), "{}", alone.err);
}

#[test]
fn one_rank_alone_is_told_how_to_start_more() {
    let done = run(&[
        "-n",
        "1",
        "--",
        env!("CARGO_BIN_EXE_sabani"),
        "model",
        "measure",
    ]);
    assert_eq!(done.status, 2, "{}", done.err);
    assert!(done.err.contains("sabani run -n 4"), "{}", done.err);
}

#[test]
fn predictions_and_simulated_runs_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let compare = "model compare alltoall --hosts 8 --bytes 64,4k --runs 2 --json - --html";
    let done = Command::new(env!("CARGO_BIN_EXE_sabani"))
        .args(compare.split(' '))
        .arg(&page)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{err}");
    for row in [
        "the model",
        "the rule",
        "A  ",
        "B  ",
        "simulation",
        "PlogP-BR",
    ] {
        assert!(err.contains(row), "{row}: {err}");
    }
    let lines = String::from_utf8(done.stdout).unwrap();
    let records = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    for bytes in [64, 4096] {
        let of_length = || records.iter().filter(|record| record["bytes"] == bytes);
        let rules = of_length().filter(|record| record["is_rule"] == true);
        assert!(of_length().count() > 10 && rules.count() == 1, "{lines}");
    }
    for record in &records {
        let runs = record["took_ns"].as_array().unwrap();
        assert!(
            runs.len() == 2 && runs.iter().all(|run| run.as_f64() > Some(1e4)),
            "{record}"
        );
        let expected_ns = record["expected_ns"].as_f64().unwrap();
        let took_ns = runs[0].as_f64().unwrap();
        assert!((0.1..10.0).contains(&(expected_ns / took_ns)), "{record}");
    }
    assert!(fs::read_to_string(&page).unwrap().contains("happened"));
}

/// Some 8 TiB.
#[test]
fn what_simulated_hosts_have_no_memory_for_is_told_before_anything_runs() {
    let compare = "model compare alltoall --hosts 64 --bytes 1000m --runs 1";
    let done = Command::new(env!("CARGO_BIN_EXE_sabani"))
        .args(compare.split(' '))
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{err}");
    assert!(
        err.contains("simulated hosts need") && err.contains("give smaller --bytes"),
        "{err}"
    );
}

#[test]
fn a_rank_that_has_died_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.json");
    let script = format!(
        "if [ $SABANI_RANK = 1 ]; then (sleep 1; kill -9 $$) & fi
         exec {} model measure --no-table -o {}",
        env!("CARGO_BIN_EXE_sabani"),
        file.display()
    );
    let options = ["-n", "3", "--on-failure", "continue", "--"];
    let done = run(&[&options[..], &["sh", "-c", &script]].concat());
    assert_ne!(done.status, 0);
    for said in ["[0] sabani: ", "[2] sabani: "] {
        assert!(done.err.contains(said), "{}", done.err);
    }
    assert!(!done.err.contains("was not done within"), "{}", done.err);
    assert!(!file.exists());
}
