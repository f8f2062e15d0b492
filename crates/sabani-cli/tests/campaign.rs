//! `sabani sim`, interrupted.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Whether a process has a handler for Ctrl-C.
fn handles_interrupts(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught >> (Signal::SIGINT as u32 - 1) & 1 == 1
}

/// The number behind a word.
fn number_after(text: &str, word: &str) -> u64 {
    let mut rest = text.split_whitespace().skip_while(|&part| part != word);
    let number = rest.nth(1).unwrap_or_else(|| panic!("{word}? {text}"));
    number.trim_end_matches('`').parse().unwrap()
}

/// Runs `sabani sim` until it heeds a signal, and sends it one.
fn interrupted(arguments: &[&str], signal: Signal) -> Output {
    let simulation = Command::new(env!("CARGO_BIN_EXE_sabani"))
        .arg("sim")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !handles_interrupts(simulation.id()) {
        thread::sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(simulation.id() as i32), signal).unwrap();
    simulation.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_campaign_says_how_far_it_came_and_how_to_go_on() {
    let campaign = ["campaign", "--seeds", "1000000", "--first-seed", "7"];
    let output = interrupted(&campaign, Signal::SIGINT);
    assert_eq!(output.status.code(), Some(130));
    let (said, rest) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    let next = number_after(&rest, "--first-seed");
    assert_eq!(number_after(&rest, "--seeds"), 1_000_007 - next);
    assert!(
        said.replace(',', "")
            .starts_with(&format!("{} seed", next - 7))
            && said.contains("from 7 on"),
        "{said}"
    );
}

/// What cleans nothing up ends at once, and what was there before stays.
#[test]
fn an_interrupted_simulation_leaves_the_report_that_there_was() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        fs::write(&report, "kept").unwrap();
        let path = report.to_str().unwrap();
        let simulation = ["incast", "--rounds", "100000", "--html", path];
        let output = interrupted(&simulation, signal);
        assert_eq!(output.status.code(), Some(130), "{signal}");
        assert_eq!(output.stderr, b"sabani: interrupted\n", "{signal}");
        assert_eq!(fs::read_to_string(&report).unwrap(), "kept", "{signal}");
    }
}
