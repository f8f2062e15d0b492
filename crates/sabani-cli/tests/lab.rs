//! Labs of the program's own, and measurements in them. They need root; where there is none, each
//! says so and is skipped.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::Value;

fn sabani(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabani"));
    command.args(arguments.split(' '));
    command
}

fn output(arguments: &str) -> Output {
    sabani(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints; it must succeed.
fn said(arguments: &str) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Everything that any lab whose name begins so has left.
fn left(beginning: &str) -> Vec<String> {
    let folders = ["/run/netns", "/etc/netns"];
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let names = entries
        .flatten()
        .flatten()
        .map(|entry| text(entry.file_name().as_encoded_bytes()));
    names
        .filter(|name| name.starts_with(&format!("sabani-{beginning}")))
        .collect()
}

/// A lab of a test's own, gone afterwards however that ends.
struct Lab(String);

impl Lab {
    /// `None`, and the reason is printed, where this can't be tested.
    fn may_exist(test: &str) -> Option<Self> {
        let lab = Self(format!("test-{test}-{}", std::process::id()));
        let tried = output(&format!("lab down --name {}", lab.0));
        if tried.status.success() {
            return Some(lab);
        }
        println!("skipped: {}", text(&tried.stderr).trim());
        None
    }

    fn up(&self, hosts: u16) -> Command {
        sabani(&format!(
            "lab up --name {} --hosts {hosts} --rate 50mbit --queue 32KiB",
            self.0
        ))
    }

    fn exec(&self, host: &str, script: &str) -> Output {
        sabani(&format!("lab exec --name {} {host} -- sh -c", self.0))
            .arg(script)
            .output()
            .expect("the program starts")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = output(&format!("lab down --name {}", self.0));
    }
}

#[test]
fn a_lab_has_hosts_that_reach_each_other() {
    let Some(lab) = Lab::may_exist("hosts") else {
        return;
    };
    assert!(lab.up(3).output().expect("it starts").status.success());
    let again = lab.up(3).output().expect("it starts");
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));

    for host in ["h1", "h3"] {
        let named = lab.exec(host, "uname -n; cat /etc/hostname");
        assert_eq!(text(&named.stdout), format!("{host}\n{host}\n"));
    }
    assert_eq!(lab.exec("2", "exit 7").status.code(), Some(7));
    assert_eq!(lab.exec("h4", "true").status.code(), Some(2));
    for (program, status) in [
        ("/etc", 126),
        ("/etc/passwd", 126),
        ("sabani-no-such-program", 127),
    ] {
        let refused = output(&format!("lab exec --name {} h1 -- {program}", lab.0));
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(status), "{said}");
        assert!(
            said.starts_with(&format!("sabani: cannot run `{program}`: ")),
            "{said}"
        );
    }
    let resolved = text(&lab.exec("h1", "getent hosts h3").stdout);
    assert!(resolved.starts_with("10.78.0.3 "), "{resolved}");

    let status = said(&format!("lab status --name {}", lab.0));
    assert_eq!(status.lines().count(), 4, "{status}");
    assert!(
        status.contains("50mbit") && status.contains("32 KiB"),
        "{status}"
    );
    said(&format!("lab loss --name {} 12.3456 --host h2", lab.0));
    let status = said(&format!("lab status --name {}", lab.0));
    let whole = |line: &str| line.replace(" %", "%").replace(" KiB", "KiB");
    let fields = |line: &str| whole(line).split_whitespace().count();
    assert!(status.lines().all(|line| fields(line) == 9), "{status}");
    said(&format!("lab loss --name {} 0 --host h2", lab.0));
    said(&format!("lab loss --name {} 2.5 --host h3", lab.0));
    let status = said(&format!("lab status --name {}", lab.0));
    assert_eq!(status.matches("2.5 %").count(), 1, "{status}");
    said(&format!("lab loss --name {} 100 --host h3", lab.0));
    lab.exec("h1", "bash -c 'echo>/dev/udp/10.78.0.3/9'");
    let status = said(&format!("lab status --name {}", lab.0));
    let of_h3 = status.lines().find(|line| line.starts_with("h3 ")).unwrap();
    let lost = of_h3.split_once(" % ").unwrap().1.split_whitespace().next();
    assert_eq!(lost, Some("1"), "{status}");
    said(&format!("lab loss --name {} 0", lab.0));

    let mut sleeper = sabani(&format!("lab exec --name {} h2 -- sleep 1000", lab.0))
        .spawn()
        .expect("it starts");
    assert!(said(&format!("lab down --name {}", lab.0)).contains("is down"));
    assert!(!sleeper.wait().expect("it ends").success());
    assert!(said(&format!("lab down --name {}", lab.0)).contains("no lab"));
    assert_eq!(left(&lab.0), [""; 0]);
}

#[test]
fn hosts_of_two_groups_share_a_trunk() {
    let Some(lab) = Lab::may_exist("trunks") else {
        return;
    };
    for wrong in ["--groups 4 --hosts 3", "--trunk 1gbit"] {
        let up = output(&format!("lab up --name {} {wrong}", lab.0));
        assert_eq!(up.status.code(), Some(2), "{}", text(&up.stderr));
    }
    let mut up = lab.up(5);
    up.args(["--groups", "2", "--trunk", "20mbit"]);
    assert!(up.status().expect("it starts").success());
    // Bridges say a word or two of their own.
    const SENT: u32 = 50;
    let words = format!(
        "bash -c 'for i in $(seq {SENT}); do echo x > /dev/udp/h1/9; done 2> /dev/null; true'"
    );
    let words = lab.exec("h5", &words);
    assert!(words.status.success(), "{}", text(&words.stderr));

    let status = said(&format!("lab status --name {}", lab.0));
    let sent = |trunk: &str| {
        let line = status.lines().find(|line| line.starts_with(trunk));
        let line = line.unwrap_or_else(|| panic!("no {trunk}: {status}"));
        assert!(line.contains("20mbit") && line.contains("32 KiB"), "{line}");
        let sent = line.split_whitespace().rev().nth(1);
        sent.unwrap().parse::<u32>().unwrap()
    };
    for (trunk, passed) in [
        ("from h4 to h5", true),
        ("to h1 to h3", true),
        ("from h1 to h3", false),
        ("to h4 to h5", false),
    ] {
        assert_eq!(sent(trunk) >= SENT, passed, "{status}");
    }
}

/// Waits until a lab that is being made has its first namespaces.
fn begun(lab: &Lab, child: &mut Child) {
    while left(&lab.0).len() < 2 && child.try_wait().expect("a child").is_none() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_lab_that_was_killed_while_it_was_made_goes_down() {
    let Some(lab) = Lab::may_exist("killed") else {
        return;
    };
    let mut child = lab.up(30).stdout(Stdio::null()).spawn().expect("it starts");
    begun(&lab, &mut child);
    child.kill().expect("it was running");
    child.wait().expect("it ends");
    let status = output(&format!("lab status --name {}", lab.0));
    let cure = format!("`sabani lab down --name {}` removes", lab.0);
    let said_of_half = text(&status.stderr);
    assert!(said_of_half.contains(&cure), "{said_of_half}");
    assert!(said(&format!("lab down --name {}", lab.0)).contains("is down"));
    assert_eq!(left(&lab.0), [""; 0]);
}

#[test]
fn ctrl_c_leaves_nothing_of_a_lab() {
    let Some(lab) = Lab::may_exist("interrupted") else {
        return;
    };
    let mut child = lab.up(30).stdout(Stdio::null()).spawn().expect("it starts");
    begun(&lab, &mut child);
    interrupt(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(left(&lab.0), [""; 0]);
}

/// A terminal sends it to all that the program has started as well.
#[test]
fn a_terminals_ctrl_c_leaves_nothing_of_a_lab_and_says_so() {
    let Some(lab) = Lab::may_exist("terminal") else {
        return;
    };
    let started = |mut command: Command| {
        let command = command.process_group(0).stdout(Stdio::null());
        command.stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let interrupted = |child: Child| {
        let group = Pid::from_raw(child.id() as i32);
        killpg(group, Signal::SIGINT).expect("it was running");
        child.wait_with_output().expect("it ends")
    };
    for turn in 0..4 {
        let mut child = started(lab.up(20));
        begun(&lab, &mut child);
        thread::sleep(Duration::from_millis(30 * turn));
        let up = interrupted(child);
        let said = text(&up.stderr);
        assert_eq!(up.status.code(), Some(130), "{said}");
        assert!(said.contains("nothing is left of the lab"), "{said}");
        assert_eq!(left(&lab.0), [""; 0]);
    }
    for turn in 0..2 {
        assert!(lab.up(12).status().expect("it starts").success());
        let before = left(&lab.0).len();
        let mut child = started(sabani(&format!("lab down --name {}", lab.0)));
        while left(&lab.0).len() == before && child.try_wait().expect("a child").is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(10 * turn));
        let down = interrupted(child);
        let said = text(&down.stderr);
        assert_eq!(down.status.code(), Some(130), "{said}");
        assert!(said.contains("is down"), "{said}");
        assert_eq!(left(&lab.0), [""; 0]);
    }
}

#[test]
fn a_job_has_a_rank_on_each_host_and_ends_with_the_first_that_fails() {
    let Some(lab) = Lab::may_exist("job") else {
        return;
    };
    assert!(lab.up(3).status().unwrap().success());
    let run = |script: &str| {
        let mut command = sabani(&format!("lab run --name {} -- sh -c", lab.0));
        command.arg(script).output().expect("the program starts")
    };
    let all = run("echo $(hostname) is $SABANI_RANK of $SABANI_SIZE");
    assert!(all.status.success(), "{}", text(&all.stderr));
    let mut lines: Vec<String> = text(&all.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["h1 is 0 of 3", "h2 is 1 of 3", "h3 is 2 of 3"]);

    // The others would take a minute.
    let failed = run("test $SABANI_RANK = 1 && exit 7; sleep 62.25; true");
    assert_eq!(programs("sleep 62.25"), 0, "no orphans");
    assert_eq!(failed.status.code(), Some(7));
    let said = text(&failed.stderr);
    assert!(said.contains("rank 1 on h2"), "{said}");

    let many = output(&format!("lab run --name {} -n 4 -- true", lab.0));
    assert_eq!(many.status.code(), Some(2));
    assert!(text(&many.stderr).contains("has 3 for 4"));

    let mut command = sabani(&format!("lab run --name {} -- sleep 61.25", lab.0));
    let mut running = command.spawn().expect("the program starts");
    let until = |count| {
        while programs("sleep 61.25") != count {
            thread::sleep(Duration::from_millis(20));
        }
    };
    until(3);
    running.kill().unwrap();
    running.wait().unwrap();
    // Ranks do not outlive the one who has started them.
    until(0);
}

/// How many processes have been started by these words.
fn programs(words: &str) -> usize {
    let command = words.replace(' ', "\0") + "\0";
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line == command.as_bytes()).count()
}

fn interrupt(child: &Child, signal: &str) {
    let killed = Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status();
    assert!(killed.expect("kill").success());
}

fn json_lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let parsed = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    let mut parsed: Vec<Value> = parsed.collect();
    assert_eq!(parsed.remove(0)["bench"], "machine");
    parsed
}

fn assert_positive(line: &Value, fields: &[&str]) {
    for field in fields {
        let figure = line[field].as_f64();
        assert!(
            figure.is_some_and(|figure| figure > 0.0),
            "{field} of {line}"
        );
    }
}

#[test]
fn incast_tells_times_of_each_transport() {
    if Lab::may_exist("incast").is_none() {
        return;
    }
    let child = sabani(
        "bench incast --lab --senders 3 --bytes 32k --rounds 5 --rate 200mbit --against tcp-cubic --json -",
    );
    let (pid, lines) = run(child);
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert_eq!(
            (&line["bench"], &line["where"]),
            (&"incast".into(), &"lab".into())
        );
        assert_eq!(
            (&line["senders"], &line["size_bytes"]),
            (&3.into(), &32768.into())
        );
        assert_eq!(line["rounds"], 5);
        assert_positive(
            line,
            &["goodput_ratio", "p50_ms", "p99_ms", "max_ms", "ideal_ms"],
        );
        assert!(line["extra_packets_ratio"].is_number() && line["valid"].is_boolean());
        assert!(line["goodput_ratio"].as_f64() < Some(1.05), "{line}");
    }
    let transports = lines
        .iter()
        .map(|line| line["transport"].as_str().unwrap_or(""));
    assert_eq!(transports.collect::<Vec<_>>(), ["sabani", "sabani", "tcp"]);
    assert_eq!(left(&format!("incast-{pid}")), [""; 0]);
}

#[test]
fn collectives_are_compared_with_what_the_wires_allow() {
    if Lab::may_exist("coll").is_none() {
        return;
    }
    let child = sabani(
        "bench coll --lab --ranks 3 --collectives gather --sizes 16k --rounds 1 --seconds 0.02 --rate 50mbit \
         --sealed --against tcp-cubic --json -",
    );
    let (pid, lines) = run(child);
    let transports: Vec<_> = lines
        .iter()
        .map(|line| line["transport"].as_str())
        .collect();
    assert_eq!(transports, [Some("sabani"), Some("tcp-cubic")]);
    for line in &lines {
        assert_eq!((&line["where"], &line["ranks"]), (&"lab".into(), &3.into()));
        assert_positive(line, &["us_p50", "loop_us", "cpu_busy_ratio"]);
        // Two blocks through rank 0's port; they can't have come sooner, but for two packets that its bucket holds.
        let ideal = line["ideal_us"].as_f64().expect("a number");
        assert!((ideal - 5392.5).abs() < 0.1, "{line}");
        assert!(line["us_p50"].as_f64() > Some(0.9 * ideal), "{line}");
    }
    assert_eq!(left(&format!("coll-{pid}")), [""; 0]);
}

#[test]
fn mix_compares_with_silence() {
    if Lab::may_exist("mix").is_none() {
        return;
    }
    let arguments = "bench mix --lab --senders 2 --rounds 3 --sealed --against none --json -";
    let (_, lines) = run(sabani(arguments));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["bench"], "mix");
    assert_positive(&lines[0], &["unloaded_ms", "p99_ms"]);
}

/// Runs a measurement and returns the id that its process had.
fn run(mut command: Command) -> (u32, Vec<Value>) {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = child.id();
    (pid, json_lines(&child.wait_with_output().expect("it ends")))
}

#[test]
fn a_measurement_takes_its_lab_along_even_when_killed() {
    if Lab::may_exist("guard").is_none() {
        return;
    }
    for (signal, status) in [("INT", Some(130)), ("KILL", None)] {
        let mut child = sabani("bench incast --lab --senders 2 --rounds 100000 --against none")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let lab = Lab(format!("incast-{}", child.id()));
        begun(&lab, &mut child);
        interrupt(&child, signal);
        assert_eq!(child.wait().expect("it ends").code(), status);
        while !left(&lab.0).is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn mistakes_are_told_from_failures() {
    for line in [
        "lab up --hosts 0",
        "lab loss 200",
        "bench incast --senders 8",
        "bench incast --lab --against raw-udp",
        "bench incast --lab --rate 1",
    ] {
        assert_eq!(output(line).status.code(), Some(2), "{line}");
    }
}

/// One rank on each of three hosts, which meet on the first one.
fn ranks(lab: &Lab, key: &str, task: &str) -> [Output; 3] {
    let tests = std::env::current_exe().expect("it has a name");
    let target = tests.parent().and_then(|deps| deps.parent());
    let program = target.expect("the target folder").join("examples/ranks");
    let ranks = [0, 1, 2].map(|rank| {
        let host = rank + 1;
        let meeting = "SABANI_SIZE=3 SABANI_RENDEZVOUS=h1";
        let arguments = format!(
            "lab exec --name {} h{host} -- env SABANI_RANK={rank} {meeting} SABANI_JOB_KEY_FILE={key}",
            lab.0
        );
        sabani(&arguments)
            .arg(&program)
            .arg(task)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    });
    ranks.map(|rank| rank.wait_with_output().expect("it ends"))
}

#[test]
fn ranks_on_several_hosts_meet_and_name_whom_they_can_not_reach() {
    let Some(lab) = Lab::may_exist("ranks") else {
        return;
    };
    assert!(lab.up(3).output().expect("it starts").status.success());
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("job.key");
    let key = key.to_str().expect("it is Unicode");
    said(&format!("key {key}"));
    for (rank, output) in ranks(&lab, key, "ring").iter().enumerate() {
        let expected = format!("rank {rank} of 3 is 0 on its host\n");
        assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    }
    let deaf = lab.exec(
        "h3",
        "nft 'add table inet faults;
            add chain inet faults arriving { type filter hook prerouting priority -300; };
            add rule inet faults arriving meta l4proto udp drop'",
    );
    assert!(deaf.status.success(), "{}", text(&deaf.stderr));
    let errors = ranks(&lab, key, "ring").map(|output| text(&output.stderr));
    for pair in ["rank 0 (h1, 10.78.0.1:", "rank 1 (h2, 10.78.0.2:"] {
        let named = |error: &String| {
            error.contains(pair) && error.contains("can't reach rank 2 (h3, 10.78.0.3:")
        };
        assert!(errors.iter().any(named), "{errors:?}");
    }
}
