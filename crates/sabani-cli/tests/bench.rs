//! Runs the program itself.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard},
    thread,
    time::Duration,
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

/// Each measurement has two processes that spin: several at a time would starve each other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs a bench with tiny turns and reads its JSON.
fn measured(arguments: &str) -> Vec<Value> {
    let _turn = alone();
    let output = output(&format!("{arguments} --rounds 2 --json -"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    without_head(lines.collect())
}

/// The lines without the first, which names the machine.
fn without_head(mut lines: Vec<Value>) -> Vec<Value> {
    let machine = lines.remove(0);
    assert_eq!(machine["bench"], "machine");
    for field in ["kernel", "processor", "date", "command"] {
        let text = machine[field].as_str();
        assert!(
            text.is_some_and(|text| !text.is_empty()),
            "{field} of {machine}"
        );
    }
    assert_positive(&machine, &["cores"]);
    lines
}

fn assert_positive(line: &Value, fields: &[&str]) {
    for field in fields {
        assert!(
            line[field].as_f64().is_some_and(|figure| figure > 0.0),
            "{field} of {line}"
        );
    }
}

#[test]
fn ping_tells_quantiles_of_each_transport_and_size() {
    let lines = measured(
        "bench ping --sizes 4,64k --iterations 20 --against raw-udp,raw-udp-connected,tcp-cubic",
    );
    assert_eq!(lines.len(), 10);
    for line in &lines {
        assert_eq!(line["bench"], "ping");
        assert_positive(
            line,
            &[
                "half_rtt_us_p50",
                "half_rtt_us_p99",
                "half_rtt_us_p999",
                "size_bytes",
            ],
        );
    }
    assert_eq!(lines[0]["transport"], "sabani");
    assert_eq!(lines[0]["sealed"], true);
    assert_eq!(lines[2]["transport"], "raw-udp");
    assert_eq!(lines[9]["size_bytes"], 65536);
    assert_positive(
        &lines[0]["ratio_to"],
        &["sabani-plain", "raw-udp", "raw-udp-connected", "tcp-cubic"],
    );
}

#[test]
fn collectives_are_measured_by_ranks_that_take_turns() {
    let lines = measured(
        "bench coll --collectives bcast,alltoall,barrier --sizes 64,20k --ranks 1,3 --seconds 0.01",
    );
    assert_eq!(lines.len(), 2 * 2 * (2 + 2 + 1));
    for line in &lines {
        assert_eq!(
            (&line["bench"], &line["rounds"]),
            (&"coll".into(), &2.into())
        );
        assert_eq!(line["transport"], "sabani");
        assert_positive(line, &["us_p50", "us_min", "us_max", "loop_us", "ranks"]);
    }
    let sealed = lines.iter().filter(|line| line["sealed"] == true).count();
    assert_eq!(sealed, lines.len() / 2);
}

#[test]
fn collectives_run_over_tcp_beside_sabani() {
    let lines = measured(
        "bench coll --collectives allreduce,alltoall --sizes 64,40k --algorithm alltoall=pairwise --ranks 3 \
         --seconds 0.01 --plain --against tcp-cubic",
    );
    let transports: Vec<_> = lines
        .iter()
        .map(|line| line["transport"].as_str())
        .collect();
    assert_eq!(transports, [Some("sabani"), Some("tcp-cubic")].repeat(4));
    for line in &lines {
        assert_positive(line, &["us_p50", "loop_us"]);
    }
    let refused = output("bench coll --ranks 2 --against raw-udp");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn all_algorithms_that_fit_are_measured() {
    let lines = measured(
        "bench coll --collectives allgather --algorithm all --sizes 64 --ranks 3 --seconds 0.01 --plain \
         --layers background",
    );
    let names: Vec<_> = lines
        .iter()
        .map(|line| line["algorithm"].as_str())
        .collect();
    assert!(
        names.contains(&Some("ring")) && names.contains(&Some("bruck")),
        "{names:?}"
    );
    assert!(lines.iter().all(|line| line["threads"] == "background"));
    // For a power of two, and for an even number of ranks.
    assert!(!names.contains(&Some("recursive_doubling")), "{names:?}");
    assert!(!names.contains(&Some("neighbour_exchange")), "{names:?}");
}

#[test]
fn a_launcher_may_start_the_ranks_that_are_measured() {
    let program = env!("CARGO_BIN_EXE_sabani");
    let ranks =
        format!("run -n 2 --no-prefix -- {program} bench coll --seconds 0.01 --collectives scan");
    let lines = measured(&format!("{ranks} --sizes 4 --plain"));
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["ranks"], &lines[0]["sealed"]),
        (&2.into(), &false.into())
    );
    for choice in ["--ranks 2", "--plain --sealed"] {
        let refused = output(&format!("{ranks} {choice}"));
        assert_eq!(refused.status.code(), Some(2), "{choice}");
    }
}

#[test]
fn secrets_are_logged_if_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys");
    let file = file.to_str().expect("UTF-8");
    measured(&format!(
        "bench ping --sizes 4 --iterations 5 --against none --sealed --key-log {file}"
    ));
    let log = std::fs::read_to_string(file).expect("a key log");
    assert_eq!(
        log.lines()
            .filter(|line| line.starts_with("SABANI "))
            .count(),
        1
    );
}

#[test]
fn variants_of_sabani_are_chosen() {
    for (variant, sealed) in [("--plain", false), ("--sealed", true)] {
        let lines = measured(&format!(
            "bench ping --sizes 4,1k,1025,2M --iterations 5 --against none {variant}"
        ));
        assert_eq!(lines.len(), 4);
        for line in &lines {
            assert_eq!(line["transport"], "sabani");
            assert_eq!(line["sealed"], sealed);
        }
    }
}

#[test]
fn burst_tells_rates() {
    let lines = measured(
        "bench burst --sizes 4,1500,2M --seconds 0.5 --against raw-udp,raw-udp-connected,tcp-cubic",
    );
    assert_eq!(lines.len(), 15);
    for line in &lines {
        assert_eq!(line["bench"], "burst");
        assert_positive(line, &["mb_per_s", "messages_per_s"]);
    }
}

#[test]
fn transactions_tell_seconds() {
    let lines =
        measured("bench transactions --counts 1,5 --against raw-udp,raw-udp-connected,tcp-cubic");
    assert_eq!(lines.len(), 10);
    for line in &lines {
        assert_positive(line, &["count", "seconds", "min", "max"]);
    }
}

#[test]
fn overview_writes_table_page_and_json() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (page, json) = (
        folder.path().join("bench.html"),
        folder.path().join("bench.json"),
    );
    let status =
        sabani("bench --rounds 1 --seconds 0.2 --pin none --against raw-udp,tcp-cubic --html")
            .arg(&page)
            .arg("--json")
            .arg(&json)
            .output()
            .expect("the program starts");
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stderr)
    );
    let table = String::from_utf8(status.stdout).expect("UTF-8");
    assert!(table.starts_with("Linux "), "{table}");
    for bench in ["ping", "burst", "transactions", "÷ tcp-cubic"] {
        assert!(table.contains(bench), "{table}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert_eq!(page.matches("<svg").count(), 3);
    let json = std::fs::read_to_string(json).expect("lines");
    assert!(
        json.lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, its address, and what it says from now on.
fn serving() -> (Server, String, Lines<impl BufRead>) {
    let mut child = sabani("bench serve --listen 127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = child.stderr.take().expect("standard error");
    let server = Server(child);
    let mut lines = BufReader::new(said).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    let addr = first.split(' ').nth(2).expect("an address").to_string();
    (server, addr, lines)
}

/// Sends a signal to a process.
fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([name, id.as_str()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {name}");
}

#[test]
fn a_server_that_is_stopped_says_so_to_both_sides() {
    let _turn = alone();
    let (mut server, addr, mut lines) = serving();
    let bench = format!("bench ping --to {addr} --sizes 4 --seconds 60 --against none --pin none");
    let bench = sabani(&bench).stderr(Stdio::piped()).spawn();
    let bench = bench.expect("the program starts");
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert_eq!(next(), "127.0.0.1 measures");
    signal(&server.0, "-TERM");
    assert_eq!(next(), "sabani: stopped while 127.0.0.1 measured");
    let status = server.0.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    let failed = bench.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(
        said.contains("server: `sabani bench serve` was stopped there"),
        "{said}"
    );
}

/// Who leaves without having read everything resets the connection.
#[test]
fn a_worker_whose_answers_nobody_reads_ends_in_silence() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let mut ours = TcpStream::connect(addr).expect("a connection");
    let theirs = OwnedFd::from(listener.accept().expect("a connection").0);
    let worker = sabani("bench-worker --only 127.0.0.1")
        .stdin(Stdio::from(theirs.try_clone().expect("another handle")))
        .stdout(Stdio::from(theirs))
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    ours.write_all(b"{\"hello\":{\"version\":3}}\n")
        .expect("it hears");
    ours.peek(&mut [0]).expect("it answers");
    drop(ours);
    let ended = worker.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn who_is_no_bench_is_sent_away_with_the_cause() {
    let (_server, addr, mut lines) = serving();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    // The second one's line never ends.
    for junk in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[b'x'; 100_000]] {
        let mut stranger = TcpStream::connect(&addr).expect("a connection");
        stranger.write_all(junk).expect("it is listened to");
        assert_eq!(next(), "127.0.0.1 measures");
        let said = next();
        let expected = "sabani: what 127.0.0.1 sent is no bench's: is it `sabani bench --to`";
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn two_machines_measure_each_other() {
    let (_server, addr, lines) = serving();
    std::thread::spawn(move || lines.for_each(drop));
    // Strangers who say nothing, or half a line, are not waited for.
    let _silent = TcpStream::connect(&addr).expect("a connection");
    let mut halting = TcpStream::connect(&addr).expect("a connection");
    halting.write_all(b"{").expect("it is heard");
    for _ in 0..2 {
        let lines = measured(&format!(
            "bench ping --to {addr} --sizes 4 --iterations 20 --against raw-udp,raw-udp-connected,tcp-cubic"
        ));
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0]["where"], addr.as_str());
    }
}

#[test]
fn exit_status_tells_failure_from_misuse() {
    let failed = output("bench ping --to 127.0.0.1:1");
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(
        said.contains("Connection refused (os error 111): is `sabani bench serve` running"),
        "{said}"
    );
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address");
    let unheard = output(&format!("bench serve --listen {addr}"));
    assert_eq!(unheard.status.code(), Some(2));
    let said = String::from_utf8_lossy(&unheard.stderr);
    assert!(
        said.contains(&format!("`ss -tlpn 'sport = :{}'`", addr.port())),
        "{said}"
    );
    assert_eq!(output("bench ping --sizes many").status.code(), Some(2));
    let two = output("bench ping burst");
    assert_eq!(two.status.code(), Some(2));
    let said = String::from_utf8_lossy(&two.stderr);
    assert!(said.contains("one bench at a time"), "{said}");
    let unknown = output("bench ping --to no-such-host.invalid");
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("`--to no-such-host.invalid`"), "{said}");
    for (arguments, core) in [
        ("bench ping --pin 0,1000", 1000),
        ("bench ping --pin 100000,0", 100_000),
        ("bench serve --listen 127.0.0.1:0 --pin 1000", 1000),
    ] {
        let pinned = output(arguments);
        let said = String::from_utf8_lossy(&pinned.stderr);
        let expected = format!("sabani: cannot run on core {core}: the machine has no such core");
        assert_eq!(pinned.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&expected), "{said}");
    }
    let one = output("bench ping --pin 0");
    let said = String::from_utf8_lossy(&one.stderr);
    assert_eq!(one.status.code(), Some(2), "{said}");
    assert!(said.contains("two cores, as in `0,1`"), "{said}");
    assert_eq!(output("--help").status.code(), Some(0));
    let version = String::from_utf8_lossy(&output("--version").stdout).into_owned();
    assert!(version.starts_with("sabani "), "{version}");
    assert!(version.contains(", protocol "), "{version}");
}

#[test]
fn files_and_variables_that_make_no_sense_are_misuse() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"\xff\xfeh\0o\0s\0t\0s\0").expect("it is written");
    let (missing, file) = (folder.path().join("missing"), file.display());
    let missing = missing.display();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, output("sim loss --plan").stdout).expect("it is written");
    let plan = plan.display();
    for (arguments, said) in [
        (format!("sim {missing}"), "cannot read"),
        (format!("sim {file}"), "line 1: this is no text in UTF-8"),
        (
            "sim loss --json - --html -".into(),
            "`--html -`: a page needs",
        ),
        ("sim loss --plan --set colour=blue".into(), "`colour`"),
        (format!("sim {plan} --set colour=blue"), "`colour`"),
        (
            format!("model predict bcast --ranks 4 --network {missing}"),
            "`sabani model measure` makes",
        ),
        (
            "model predict bcast --ranks 4 --replicates 0".into(),
            "--replicates",
        ),
        (
            format!("receive {missing} --key {missing}"),
            "`sabani key` makes one",
        ),
        ("bench layers --layers [nobody]".into(), "nobody"),
        (
            "bench burst --layers [messages][channel+seal+datagrams]".into(),
            "--layers",
        ),
        (
            "bench schedules --layers [messages+channel]".into(),
            "--layers",
        ),
    ] {
        let refused = output(&arguments);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments}: {stderr}");
        assert!(stderr.contains(said), "{arguments}: {stderr}");
    }
    let mut unfit = sabani("bench ping");
    let refused = unfit.env("SABANI_LAYERS", "sideways").output();
    let refused = refused.expect("the program starts");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    // Empty is not set: it comes as far as the address, which is nobody's.
    let mut served = sabani("bench serve --listen 192.0.2.1:7000");
    let served = served.env("SABANI_LAYERS", "").output();
    let served = served.expect("the program starts");
    let stderr = String::from_utf8(served.stderr).unwrap();
    assert!(stderr.contains("cannot listen"), "{stderr}");
    assert_eq!(served.status.code(), Some(2), "{stderr}");
}

/// Stops the program for longer than a busy machine would.
#[test]
fn what_was_measured_while_the_program_was_stopped_is_measured_again() {
    let _turn = alone();
    let mut bench = sabani("bench ping --sizes 4 --rounds 1 --seconds 1 --plain --against none");
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let bench = bench.expect("the program starts");
    let id = bench.id();
    // It has begun once it has another process.
    let children = format!("/proc/{id}/task/{id}/children");
    while std::fs::read_to_string(&children).is_ok_and(|children| children.is_empty()) {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&bench, "-STOP");
    thread::sleep(Duration::from_millis(1_500));
    signal(&bench, "-CONT");
    let output = bench.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("measured again").count(), 1, "{said}");
}

#[test]
fn a_server_that_is_busy_is_told_of() {
    let busy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = busy.local_addr().expect("an address");
    let failed = output(&format!("bench ping --to {addr} --pin none"));
    assert_eq!(failed.status.code(), Some(1));
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains("is another machine being measured"), "{said}");
}

#[test]
fn a_reader_may_leave() {
    let _turn = alone();
    for arguments in [
        "sim loss --plan",
        "sim loss --bytes 64KiB --json -",
        "bench ping --sizes 4 --iterations 5 --rounds 1 --plain --against none",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = sabani(arguments).stdout(writer).output();
        let output = output.expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{arguments}: {said}");
        assert!(
            !said.contains("panicked") && !said.contains("sabani: "),
            "{said}"
        );
    }
}

#[test]
fn who_has_read_enough_ends_the_work() {
    let _turn = alone();
    // Half an hour, if nothing ended it.
    let long = "bench ping --sizes 4 --seconds 0.1 --rounds 10000 --plain --against none";
    let mut bench = sabani(long)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(bench.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    assert!(first.starts_with("Linux "), "{first}");
    drop(lines);
    for _ in 0..60_000 {
        if let Some(status) = bench.try_wait().expect("it is ours") {
            assert_eq!(status.code(), Some(141));
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    bench.kill().expect("it is ours");
    panic!("it goes on for nobody");
}

#[test]
fn a_worker_ends_with_its_input_and_refuses_nonsense() {
    let quiet = sabani("bench-worker")
        .stdin(Stdio::null())
        .status()
        .expect("it starts");
    assert_eq!(quiet.code(), Some(0));
    let mut child = sabani("bench-worker")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("standard input");
    std::io::Write::write_all(&mut input, b"GET / HTTP/1.1\r\n").expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a command"));
}

fn namespaces_of(pid: u32) -> usize {
    let listed = Command::new("ip").arg("netns").output().expect("ip");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.matches(&format!("sabani-bench-{pid}-")).count()
}

/// Network namespaces need root, which a test may not have.
fn may_make_namespaces() -> bool {
    let probe = Command::new("ip")
        .args(["netns", "add", "sabani-test-probe"])
        .output();
    let made = probe.is_ok_and(|output| output.status.success());
    if made {
        let _ = Command::new("ip")
            .args(["netns", "del", "sabani-test-probe"])
            .status();
    } else {
        eprintln!("skipped: no root, or no `ip`");
    }
    made
}

#[test]
fn namespaces_go_with_the_run_even_when_interrupted() {
    if !may_make_namespaces() {
        return;
    }
    let lines = measured("bench ping --sizes 4 --iterations 20 --against raw-udp --where veth");
    assert_eq!(lines[0]["where"], "veth");

    let _turn = alone();
    for (signal, status) in [("-INT", Some(130)), ("-KILL", None)] {
        ended_by(signal, status);
    }
}

/// Ends a long measurement by a signal.
fn ended_by(signal: &str, status: Option<i32>) {
    let child = sabani("bench ping --sizes 4 --rounds 10000 --against raw-udp --where veth")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id();
    while namespaces_of(pid) < 2 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let killed = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(killed.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), status);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.contains("interrupted"), status.is_some(), "{said}");
    while namespaces_of(pid) > 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn layers_tell_times_for_each_stack_and_schedule() {
    let lines = measured(
        "bench layers --depths 1,2 --layers inline,per-layer,[user+ip1+ip2][loopback] --sizes 1k --credits 2 \
         --batches 8 --pdus 200",
    );
    // The hand-over, where there are two cores; 4 stacks of IP; 3 of each variant of TP4.
    let stacks: Vec<_> = lines
        .iter()
        .filter(|line| line["protocol"] != "handover")
        .collect();
    assert_eq!(stacks.len(), 4 + 4 * 3);
    for line in &stacks {
        assert_eq!(line["bench"], "layers");
        assert_positive(
            line,
            &["layers", "size_bytes", "ns_per_pdu", "batch", "cores"],
        );
    }
    assert_eq!(stacks[2]["threads"], "per-layer");
    assert_positive(stacks[2], &["ratio_to_inline"]);
    assert_eq!(stacks[3]["threads"], "[user+ip1+ip2][loopback]");
    let unfit = output("bench layers --layers [user][loopback]");
    let said = String::from_utf8_lossy(&unfit.stderr);
    assert!(said.contains("fits none of the stacks"), "{said}");
}

#[test]
fn breakdown_tells_each_layer_sealed_and_plain() {
    let lines = measured("bench breakdown --sizes 4,64k --seconds 0.01");
    // 2 sizes, sealed and plain; 11 parts of the way.
    assert_eq!(lines.len(), 2 * 2 * 11);
    for line in &lines {
        assert_eq!(line["bench"], "breakdown");
        assert_positive(line, &["size_bytes", "packets", "rounds"]);
        if ["system call", "waiting"].contains(&line["layer"].as_str().expect("a name")) {
            assert_positive(line, &["ns", "ns_per_packet", "ns_per_byte"]);
        }
    }
}

#[test]
fn layers_of_a_node_may_have_threads_of_their_own() {
    let lines = measured(
        "bench burst --sizes 64k --plain --against none --iterations 20 --layers per-layer",
    );
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["lost"], 0);
    assert_eq!(lines[0]["threads"], "per-layer");
    let unfit = output("bench burst --against none --layers [messages][channel]");
    let said = String::from_utf8_lossy(&unfit.stderr);
    assert!(said.contains("messages+channel, seal, datagrams"), "{said}");
}
