//! `sabani run` as its users run it: real processes.

mod choice;
mod files;
mod job;
mod misuse;
mod model;
mod threads;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use job::{Job, is_running, ranks, run, until};

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_know_each_other_and_say_who_they_are() {
    let done = run(&["-n", "5", "--", &ranks(), "ring"]);
    let expected: Vec<_> = (0..5)
        .map(|rank| format!("[{rank}] rank {rank} of 5 is {rank} on its host"))
        .collect();
    assert_eq!(sorted(&done.out), expected, "{}", done.err);
    assert_eq!(done.status, 0);
}

/// From another thread it would take the first one's answers from the launcher.
#[test]
fn a_process_joins_once_at_a_time() {
    let done = run(&["-n", "2", "--no-prefix", "--", &ranks(), "twice"]);
    let told = "this process has joined it already";
    assert_eq!(done.out.matches(told).count(), 2, "{}", done.err);
    assert_eq!(done.status, 0);
}

#[test]
fn output_comes_by_line_with_its_rank_unless_that_is_switched_off() {
    let script = "printf 'out %s\\nmore' $SABANI_RANK; echo err >&2";
    let done = run(&["-n", "2", "--", "sh", "-c", script]);
    assert_eq!(
        sorted(&done.out),
        ["[0] more", "[0] out 0", "[1] more", "[1] out 1"]
    );
    assert_eq!(sorted(&done.err), ["[0] err", "[1] err"]);
    let done = run(&["-n", "1", "--no-prefix", "--", "sh", "-c", script]);
    assert_eq!((&*done.out, &*done.err), ("out 0\nmore\n", "err\n"));
    let done = run(&["-n", "11", "--", "sh", "-c", "echo hi"]);
    assert_eq!(done.out.matches("[ 3] hi\n").count(), 1, "{}", done.out);
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut job = Job::start(&["-n", "3", "--", &ranks(), "input"]);
    job.input().write_all(b"some words").unwrap();
    let done = job.end();
    let expected = [
        "[0] rank 0 reads `some words`",
        "[1] rank 1 reads ``",
        "[2] rank 2 reads ``",
    ];
    assert_eq!(sorted(&done.out), expected, "{}", done.err);
}

#[test]
fn a_failure_ends_the_job_with_its_status_and_its_name() {
    let done = run(&["-n", "4", "--", &ranks(), "fail"]);
    assert_eq!(done.status, 7);
    let expected = "sabani: rank 1 ended with status 7: ending the others";
    assert!(done.err.contains(expected), "{}", done.err);
    let script = "[ $SABANI_RANK = 2 ] && kill -SEGV $$; exec sleep 600";
    let done = run(&["-n", "4", "--", "sh", "-c", script]);
    assert_eq!(done.status, 128 + Signal::SIGSEGV as i32);
    assert!(
        done.err.contains("rank 2 was killed by SIGSEGV"),
        "{}",
        done.err
    );
}

#[test]
fn a_rank_ends_the_job_with_a_status_of_its_choice() {
    for how in ["abort", "continue"] {
        let done = run(&["-n", "3", "--on-failure", how, "--", &ranks(), "abort"]);
        assert_eq!(done.status, 42);
        assert!(
            done.err.contains("rank 1 aborts on purpose"),
            "{}",
            done.err
        );
    }
}

#[test]
fn survivors_live_on_and_hear_who_is_lost() {
    let done = run(&[
        "-n",
        "4",
        "--on-failure",
        "continue",
        "--",
        &ranks(),
        "lost",
    ]);
    assert_eq!(done.status, 128 + Signal::SIGABRT as i32);
    assert!(
        done.err
            .contains("rank 1 was killed by SIGABRT: the others go on"),
        "{}",
        done.err
    );
    for rank in [0, 2, 3] {
        let line = format!("[{rank}] rank 1 was killed by SIGABRT\n");
        assert_eq!(
            done.out.matches(&line).count(),
            3,
            "{}{}",
            done.out,
            done.err
        );
    }
}

#[test]
fn collectives_bring_what_they_should() {
    for ranks_count in ["1", "2", "5", "8"] {
        let done = run(&["-n", ranks_count, "--", &ranks(), "collectives"]);
        let right = done.out.matches("all is right").count();
        assert_eq!(right.to_string(), ranks_count, "{}{}", done.out, done.err);
    }
}

#[test]
fn parts_of_the_ranks_work_side_by_side() {
    for ranks_count in ["1", "4", "7"] {
        let done = run(&["-n", ranks_count, "--", &ranks(), "groups"]);
        let right = done.out.matches("all is right").count();
        assert_eq!(right.to_string(), ranks_count, "{}{}", done.out, done.err);
    }
}

#[test]
fn a_lost_rank_is_named_as_it_was_in_its_part() {
    let how = ["-n", "5", "--on-failure", "continue", "--"];
    let done = run(&[&how[..], &[&ranks(), "lost-in-group"]].concat());
    let told = done
        .out
        .matches("rank 0 (rank 1 of the world) was killed by SIGABRT")
        .count();
    assert_eq!(told, 2, "{}{}", done.out, done.err);
}

#[test]
fn what_was_started_goes_on_while_the_ranks_do_something_else() {
    for ranks_count in ["1", "2", "5"] {
        let done = run(&["-n", ranks_count, "--", &ranks(), "background"]);
        let right = done.out.matches("all is right").count();
        assert_eq!(right.to_string(), ranks_count, "{}{}", done.out, done.err);
    }
}

#[test]
fn reminders_of_what_is_over_are_thrown_away() {
    let done = run(&["-n", "3", "--no-prefix", "--", &ranks(), "late"]);
    assert_eq!(done.out, "0 messages are left\n", "{}", done.err);
}

/// The others would wait for it, or meet in its next work what they are in.
#[test]
fn a_rank_that_gets_no_thread_takes_the_others_along() {
    let said = survivors("3", "no-thread", 0);
    let told = "rank 1 has ended the communicator: starting a thread";
    assert!(said.iter().all(|line| line.starts_with(told)), "{said:?}");
    assert_eq!(said.len(), 3);
}

#[test]
fn many_ranks_work_together() {
    let done = run(&["-n", "64", "--no-prefix", "--", &ranks(), "many"]);
    assert_eq!(done.out, "64 ranks agree\n", "{}", done.err);
}

#[test]
fn algorithms_can_be_chosen() {
    let chosen = "SABANI_ALGORITHMS=bcast=chain:segment=1KiB,alltoall=windowed:mode=rendezvous,\
                  gather=binomial,scatter=binomial";
    let in_step = "SABANI_ALGORITHMS=alltoall=pairwise";
    for chosen in [chosen, in_step] {
        let done = run(&["-n", "3", "--", "env", chosen, &ranks(), "collectives"]);
        assert_eq!(done.out.matches("all is right").count(), 3, "{}", done.err);
    }
    let wrong = "SABANI_ALGORITHMS=bcast=nonsense";
    let done = run(&["--", "env", wrong, &ranks(), "collectives"]);
    assert!(
        done.err
            .contains("SABANI_ALGORITHMS: `nonsense`: expected one of binomial"),
        "{}",
        done.err
    );
    let wrong = "SABANI_ALGORITHMS=$(printf '\\374') exec \"$0\" collectives";
    let done = run(&["--", "sh", "-c", wrong, &ranks()]);
    assert!(
        done.err.contains("SABANI_ALGORITHMS: `\u{fffd}`"),
        "{}",
        done.err
    );
}

#[test]
fn ranks_take_the_next_port_that_is_free_or_name_the_range() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let ranks = ranks();
    let run_at = |ports: &str| run(&["-n", "2", "--", "env", ports, &ranks, "collectives"]);
    let last = port.saturating_add(50);
    let done = run_at(&format!("SABANI_PORTS={port}-{last}"));
    assert_eq!(done.out.matches("all is right").count(), 2, "{}", done.err);
    let done = run_at(&format!("SABANI_PORTS={port}"));
    let told = format!("SABANI_PORTS: all ports from {port} to {port} are in use");
    assert!(done.err.contains(&told), "{}", done.err);
}

#[test]
fn layers_that_make_no_sense_are_shown_with_their_variable() {
    let wrong = "SABANI_LAYERS=nonsense";
    let done = run(&["--", "env", wrong, &ranks(), "collectives"]);
    assert!(
        done.err
            .contains("`SABANI_LAYERS=nonsense`: not a schedule"),
        "{}",
        done.err
    );
}

#[test]
fn a_rank_that_waits_in_vain_for_memory_is_told_who_holds_it() {
    let done = run(&["-n", "2", "--no-prefix", "--", &ranks(), "starved"]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    for (line, call) in done.out.lines().zip(["recv: ", "irecv: "]) {
        let said = line.starts_with(call) && line.contains("nobody receives it");
        assert!(said, "{}", done.out);
    }
    assert_eq!(done.out.lines().count(), 2, "{}", done.out);
}

#[test]
fn a_collective_behind_untaken_messages_ends_and_says_so() {
    let done = run(&["-n", "3", "--no-prefix", "--", &ranks(), "backlog"]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let mut said: Vec<_> = done.out.lines().collect();
    said.sort_unstable();
    let why = "untaken messages from peer 0 hold";
    let of_others = format!("rank 1 has ended the communicator: {why}");
    for (rank, why) in [&of_others, why, &of_others].into_iter().enumerate() {
        let expected = format!("rank {rank}: {why}");
        assert!(said[rank].starts_with(&expected), "{}", done.out);
    }
}

#[test]
fn who_computes_before_it_takes_messages_keeps_collectives_in_the_background() {
    let done = run(&["-n", "3", "--no-prefix", "--", &ranks(), "busy"]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert_eq!(done.out.matches("all have met").count(), 3, "{}", done.out);
}

#[test]
fn blocks_longer_than_a_ranks_memory_are_told_in_words() {
    let done = run(&["-n", "2", "--no-prefix", "--", &ranks(), "too-long"]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    let told = done
        .out
        .matches("that this rank allocates for messages: raise `memory`");
    assert_eq!(told.count(), 2, "{}", done.out);
}

#[test]
fn long_messages_that_are_left_for_later_hold_up_no_collective() {
    let done = run(&["-n", "3", "--no-prefix", "--", &ranks(), "later"]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert_eq!(done.out.matches("all have met").count(), 6, "{}", done.out);
}

#[test]
fn what_comes_while_a_reminder_has_no_room_is_heard() {
    let done = run(&["-n", "2", "--no-prefix", "--", &ranks(), "reminded"]);
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
    assert_eq!(done.out.matches("all is heard").count(), 2, "{}", done.out);
}

#[test]
fn survivors_agree_behind_messages_that_nobody_takes() {
    assert_eq!(survivors("3", "behind", 1), ["2 are left"; 2]);
}

#[test]
fn who_gives_up_is_heard_also_if_there_is_no_room_for_that() {
    let said = survivors("2", "full", 0);
    let expected = "rank 0 has ended the communicator: it is enough";
    assert_eq!(said, [expected; 2]);
}

#[test]
fn ranks_in_different_collectives_are_told_so() {
    let differences = [
        "collective",
        "type",
        "length",
        "operation",
        "root",
        "order",
        "counts",
        "algorithm",
    ];
    for what in differences {
        let done = run(&["-n", "3", "--", &ranks(), "mismatch", what]);
        let mut lines = done.out.lines();
        let both_named = |line: &str| line.contains(" is in ") && line.contains(", but rank ");
        assert!(lines.any(both_named), "{what}: {}{}", done.out, done.err);
        assert_eq!(done.out.lines().count(), 3, "{what}: {}", done.out);
    }
}

#[test]
fn nobody_waits_in_a_collective_for_a_rank_that_is_lost() {
    let done = run(&[
        "-n",
        "5",
        "--on-failure",
        "continue",
        "--",
        &ranks(),
        "deserted",
    ]);
    let told = done.out.matches("rank 1 was killed by SIGABRT").count();
    assert_eq!(told, 4, "{}{}", done.out, done.err);
}

/// Runs a task while ranks fail; returns what the others say, and fails if one of them fails, too.
fn survivors(ranks_count: &str, task: &str, dead: usize) -> Vec<String> {
    let how = ["-n", ranks_count, "--no-prefix", "--on-failure", "continue"];
    let done = run(&[&how[..], &["--", &ranks(), task]].concat());
    let failed = done.err.matches("the others go on").count();
    assert_eq!(failed, dead, "{}{}", done.out, done.err);
    done.out.lines().map(String::from).collect()
}

#[test]
fn ranks_killed_in_a_collective_leave_the_others_able_to_work() {
    let said = survivors("4", "survive", 2);
    assert_eq!(said, ["110 are left: rank 0 was killed by SIGKILL"; 2]);
}

#[test]
fn ranks_killed_while_all_agree_leave_the_others_agreed() {
    assert_eq!(survivors("8", "attrition", 6), ["11000000 are left"; 2]);
}

#[test]
fn a_failure_ends_the_communicators_of_that_rank_and_no_others() {
    let mut said = survivors("4", "halves", 1);
    said.sort_unstable();
    let [half, world] =
        ["0 (rank 1 of the world)", "1"].map(|rank| format!("rank {rank} was killed by SIGKILL"));
    assert_eq!(said, [half, world.clone(), world.clone(), world]);
}

#[test]
fn who_gives_up_takes_the_others_along() {
    let said = survivors("5", "revoke", 0);
    let expected = "rank 0 has ended the communicator: the input makes no sense";
    assert_eq!(said, [expected; 5]);
}

/// Several may: whoever combines the number.
#[test]
fn whose_operation_panics_takes_the_others_along() {
    let said = survivors("4", "panicked", 0);
    let told =
        |line: &&String| line.contains("has ended the communicator: an operation has panicked");
    assert_eq!(said.iter().filter(told).count(), 4, "{said:?}");
}

#[test]
fn who_waits_for_anybody_hears_of_a_death() {
    assert_eq!(survivors("4", "nobody-sends", 1), ["1101 are left"; 3]);
}

#[test]
fn who_only_asks_whether_something_has_come_hears_of_the_end() {
    let revoked = "rank 0 has ended the communicator: it is over";
    let lost = "rank 2 was killed by SIGKILL";
    let said = survivors("3", "polled", 1);
    assert_eq!(said, [revoked, revoked, lost, lost]);
}

#[test]
fn who_asks_anew_each_time_hears_of_the_end_as_the_launcher_tells_it() {
    let lost = |rank, of_world| {
        format!("rank {rank} (rank {of_world} of the world) was killed by SIGKILL")
    };
    let said = survivors("5", "asked-anew", 3);
    assert_eq!(said, [lost(4, 0), lost(3, 4), lost(2, 3)]);
}

#[test]
fn who_asks_for_what_anybody_has_sent_hears_that_nobody_is_left_whatever_other_threads_ask_for() {
    let said = survivors("3", "left-alone", 0);
    assert_eq!(
        said,
        ["all other ranks have ended: nobody is left to receive from"]
    );
}

#[test]
fn a_rank_that_is_stopped_for_a_while_is_not_lost() {
    assert_eq!(survivors("3", "stopped", 0), ["111 are left"; 3]);
}

#[test]
fn a_rank_that_is_stopped_for_too_long_is_shut_out() {
    let mut said = survivors("4", "shut-out", 0);
    said.sort_unstable();
    assert_eq!(said[..3], ["1101 are left"; 3], "{said:?}");
    assert!(said[3].starts_with("rank 1 "), "{said:?}");
}

#[test]
fn what_a_rank_sent_before_it_ended_is_still_received() {
    let done = run(&["-n", "3", "--", &ranks(), "left"]);
    assert_eq!(done.status, 0, "{}", done.err);
    assert_eq!(
        done.out.matches("rank 1 has ended").count(),
        2,
        "{}",
        done.out
    );
}

#[test]
fn a_second_meeting_in_the_same_place_works() {
    let script = format!("{0} ring && {0} ring", ranks());
    let done = run(&["-n", "2", "--", "sh", "-c", &script]);
    assert_eq!(
        (done.status, done.out.lines().count()),
        (0, 4),
        "{}",
        done.err
    );
}

#[test]
fn signals_go_to_the_ranks() {
    let script = "trap 'echo usr1' USR1; trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut job = Job::start(&["-n", "2", "--", "sh", "-c", script]);
    job.wait_for("ready", 2);
    job.signal(Signal::SIGUSR1);
    job.wait_for("usr1", 2);
    job.signal(Signal::SIGTERM);
    let done = job.end();
    assert_eq!(done.out.matches("bye").count(), 2, "{}", done.out);
    assert_eq!(done.status, 128 + Signal::SIGTERM as i32);
}

/// As a terminal's Ctrl-C does, and `timeout`.
#[test]
fn a_signal_to_the_whole_group_is_heard() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP].repeat(10) {
        let script = "echo ready; exec sleep 60";
        let mut job = Job::start_apart(&["-n", "2", "--", "sh", "-c", script]);
        job.wait_for("ready", 2);
        job.signal_group(signal);
        assert_eq!(job.end().status, 128 + signal as i32);
    }
}

#[test]
fn ranks_heed_interrupts_that_a_script_has_had_ignored() {
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        let script = "echo ready; exec sleep 60";
        let job = ["-n", "2", "--grace", "600", "--", "sh", "-c", script];
        let mut job = Job::start_in_background(&job);
        job.wait_for("ready", 2);
        job.signal(signal);
        let done = job.end();
        assert_eq!(done.status, 128 + signal as i32);
        let told = format!("sabani run: interrupted: {signal} went to 2 ranks");
        assert!(done.err.contains(&told), "{}", done.err);
    }
}

#[test]
fn who_does_not_heed_a_signal_is_killed() {
    // Not SIGINT: a shell can't trap what was ignored when it began, as that is in what shells start
    // in the background.
    let stubborn = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.01; done";
    // When the grace is over.
    let mut job = Job::start(&["-n", "2", "--grace", "0", "--", "sh", "-c", stubborn]);
    job.wait_for("ready", 2);
    job.signal(Signal::SIGTERM);
    assert_eq!(job.end().status, 143);
    // At the second signal.
    let mut job = Job::start(&["-n", "2", "--grace", "600", "--", "sh", "-c", stubborn]);
    job.wait_for("ready", 2);
    job.signal(Signal::SIGTERM);
    job.wait_for("heard", 2);
    job.signal(Signal::SIGTERM);
    assert_eq!(job.end().status, 143);
}

#[test]
fn nobody_is_left_whoever_is_killed() {
    for victim in ["front", "keeper"] {
        let mut job = Job::start(&["-n", "3", "--", &ranks(), "orphans"]);
        let lines = job.wait_for("] ", 3);
        let pids: Vec<i32> = lines
            .iter()
            .flat_map(|line| line.split_whitespace().skip(1))
            .map(|pid| pid.parse().unwrap())
            .collect();
        assert_eq!(pids.len(), 6);
        assert!(pids.iter().all(|&pid| is_running(pid)));
        job.kill(victim);
        until("everybody to end", || {
            !pids.iter().any(|&pid| is_running(pid))
        });
        assert_eq!(job.end().status, 128 + Signal::SIGKILL as i32);
    }
}

/// As `sabani bench coll` has it: one that is killed can end nobody itself.
#[test]
fn nobody_is_left_of_a_job_whose_starter_is_killed() {
    let job = "\"$0\" run --with-parent --no-prefix -n 2 -- sh -c 'echo $$; exec sleep 600'; true";
    let mut starter = Command::new("sh")
        .args(["-c", job, env!("CARGO_BIN_EXE_sabani")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(starter.stdout.take().unwrap()).lines();
    let pids = lines.take(2).map(|line| line.unwrap().parse().unwrap());
    let pids: Vec<i32> = pids.collect();
    assert!(pids.iter().all(|&pid| is_running(pid)));
    starter.kill().unwrap();
    starter.wait().unwrap();
    until("everybody to end", || {
        !pids.iter().any(|&pid| is_running(pid))
    });
}

#[test]
fn what_ranks_leave_behind_ends_with_the_job() {
    let script = "setsid sleep 600 >/dev/null 2>&1 & echo $!";
    let done = run(&["-n", "2", "--no-prefix", "--", "sh", "-c", script]);
    assert_eq!(done.status, 0);
    assert!(
        done.out
            .lines()
            .all(|pid| !is_running(pid.parse().unwrap())),
        "{}",
        done.out
    );
}

#[test]
fn cores_are_shared_out_when_asked_for() {
    let script = "grep Cpus_allowed_list /proc/self/status";
    let list = |done: &job::Done| done.out.lines().map(str::to_owned).collect::<Vec<_>>();
    let free = run(&["-n", "2", "--no-prefix", "--", "sh", "-c", script]);
    let all = fs::read_to_string("/proc/self/status").unwrap();
    assert!(list(&free).iter().all(|line| all.contains(line)));
    let bound = run(&[
        "-n",
        "2",
        "--no-prefix",
        "--bind",
        "cores",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let cores = std::thread::available_parallelism().unwrap().get();
    let lines = list(&bound);
    assert_eq!(lines[0] != lines[1], cores > 1, "{lines:?}");
}

#[test]
fn each_core_has_as_many_ranks_if_they_are_bound_and_more_than_cores() {
    let script = "grep Cpus_allowed_list /proc/self/status";
    let cores = std::thread::available_parallelism().unwrap().get();
    let ranks = (2 * cores).to_string();
    let lists = |bind: &[&str]| {
        let job = ["-n", &ranks, "--no-prefix"];
        let done = run(&[&job, bind, &["--", "sh", "-c", script]].concat());
        let mut lines: Vec<_> = done.out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let of_each = lists(&["--bind", "cores"]);
    let firsts = of_each.iter().step_by(2);
    assert!(of_each.iter().skip(1).step_by(2).eq(firsts), "{of_each:?}");
    let mut others = of_each.clone();
    others.dedup();
    assert_eq!(others.len(), cores, "{of_each:?}");
    let mut free = lists(&[]);
    free.dedup();
    assert_eq!(free.len(), 1, "{free:?}");
}

#[test]
fn mistakes_are_said_once() {
    let done = run(&["-n", "3", "--", "sabani-no-such-program"]);
    assert_eq!(done.status, 127);
    assert_eq!(done.err.matches("cannot run").count(), 1, "{}", done.err);
    assert_eq!(run(&["-n", "0", "--", "true"]).status, 2);
    assert_eq!(run(&["-n", "2"]).status, 2);
}

#[test]
fn a_full_disk_is_named() {
    for arguments in [
        &["run", "-n", "2", "--", "sh", "-c", "echo hi"][..],
        &["help"],
        &["sim", "--help"],
        &["--version"],
    ] {
        let full = fs::File::create("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabani"));
        let done = command.args(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(
            said.contains("sabani: the results can't be written to /dev/full: No space left"),
            "{arguments:?}: {said}"
        );
        assert!(!said.contains("SIGPIPE"), "{arguments:?}: {said}");
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {said}");
    }
}
