//! `sabani model measure` as a job's program.

use serde_json::Value;

use crate::job::run;

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
        "3",
    ];
    let done = run(&[&["-n", "2", "--", sabani], &measure[..]].concat());
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(done.out.contains("latency"), "{}", done.out);

    let network: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(network["version"], 1);
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
    assert!(std::fs::read_to_string(&page).unwrap().contains("<svg"));
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
