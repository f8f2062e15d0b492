//! `sabani send` and `sabani receive` as their users run them: real processes, over loopback.

mod checks;
mod forged;
mod long;
mod programs;
mod resume;
mod tree;

use std::ffi::OsStr;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

use programs::{Place, Program, sabani};
use rustix::process::Signal;
use sabani::{Checksum, Node, PeerId};

#[test]
fn a_source_tree_arrives_as_it_was() {
    let place = Place::new();
    tree::of_sources(&place.source());
    let receiver = place.receive();
    let sent = place.send(&receiver, &[]);
    sent.assert_success();
    tree::assert_same(&place.source(), &place.arrived());
    // Once more: everything is there, nothing moves.
    let again = place.send(&receiver, &["--jobs", "3"]);
    again.assert_success();
    assert!(again.said.contains("0 B moved"), "{}", again.said);
}

#[test]
fn times_that_were_rounded_have_nothing_sent_again_but_what_differs() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    let receiver = place.receive();
    for (name, bytes) in [("small", 1_000), ("large", 3 << 20), ("changed", 1 << 20)] {
        tree::random_file(&place.source().join(name), bytes);
        place.send(&receiver, &[]).assert_success();
    }
    let mut content = fs::read(place.arrived().join("changed")).unwrap();
    content[1_000] ^= 1;
    fs::write(place.arrived().join("changed"), content).unwrap();
    for name in ["small", "large", "changed"] {
        let sent = fs::metadata(place.source().join(name)).unwrap();
        let rounded = Duration::from_secs(sent.mtime() as u64 & !1);
        let arrived = fs::File::options()
            .append(true)
            .open(place.arrived().join(name));
        let time = SystemTime::UNIX_EPOCH + rounded;
        arrived.unwrap().set_modified(time).unwrap();
    }
    let again = place.send(&receiver, &[]);
    again.assert_success();
    assert!(again.said.contains("1.00 MiB moved"), "{}", again.said);
    tree::assert_same(&place.source(), &place.arrived());
}

#[test]
fn sums_mean_the_same_at_both_ends() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    let receiver = place.receive();
    for name in ["one", "two", "three"] {
        tree::random_file(&place.source().join(name), 1 << 20);
    }
    place.send(&receiver, &[]).assert_success();
    tree::random_file(&place.source().join("four"), 1 << 20);
    let sent = place.send(&receiver, &[]);
    receiver.signal(Signal::INT);
    let received = receiver.end().said;
    let there = ", 3.00 MiB there already, 4.00 MiB in all (4 files)";
    for (said, sum) in [
        (&sent.said, "sabani: sent 1 file: 1.00 MiB moved in "),
        (&sent.said, there),
        (
            &received,
            &format!("a sender has sent 1 file: 1.00 MiB moved{there}"),
        ),
        (&received, "sabani: received 4 files: 4.00 MiB moved\n"),
    ] {
        assert!(said.contains(sum), "{said}");
    }
}

#[test]
fn a_sender_may_keep_to_a_rate() {
    let place = Place::new();
    tree::of_sources(&place.source());
    let receiver = place.receive();
    place
        .send(&receiver, &["--max-rate", "200mbit"])
        .assert_success();
    tree::assert_same(&place.source(), &place.arrived());
    for (rate, cure) in [
        ("10", "kbit, mbit or gbit"),
        ("-1gbit", "1mbit at least"),
        ("999kbit", "1mbit at least"),
    ] {
        let refused = place.send(&receiver, &[&format!("--max-rate={rate}")]);
        assert!(refused.said.contains(cure), "{rate}: {}", refused.said);
    }
}

#[test]
fn both_sides_log_the_same_secrets_if_told_to() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    let log = |name| place.path(name).into_os_string().into_string().unwrap();
    let (sent, received) = (log("sent.keys"), log("received.keys"));
    let receiver = place.receive_with("127.0.0.1:0", &["--key-log", &received]);
    place
        .send(&receiver, &["--key-log", &sent])
        .assert_success();
    let line = |file: &str| {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(file).unwrap();
        let words = text.split_whitespace().map(str::to_owned);
        words.collect::<Vec<_>>()
    };
    let (sent, received) = (line(&sent), line(&received));
    assert_eq!((sent.len(), &*sent[0]), (5, "SABANI"));
    assert!(sent[3..].iter().all(|secret| secret.len() == 64));
    // What one sends the other receives.
    assert_eq!(
        [0, 2, 1, 4, 3].map(|at| &received[at]),
        [0, 1, 2, 3, 4].map(|at| &sent[at])
    );
}

#[test]
fn odd_names_modes_links_and_empty_things_arrive() {
    let place = Place::new();
    tree::of_oddities(&place.source());
    let receiver = place.receive();
    place.send(&receiver, &[]).assert_success();
    tree::assert_same(&place.source(), &place.arrived());
}

#[test]
fn links_that_lead_out_and_pipes_are_skipped_with_a_note() {
    let place = Place::new();
    fs::create_dir_all(place.source().join("a")).unwrap();
    symlink("/etc/passwd", place.source().join("a/absolute")).unwrap();
    symlink("../../../up", place.source().join("a/up")).unwrap();
    symlink("x/../../../up", place.source().join("a/around")).unwrap();
    let pipe = place.source().join("pipe");
    assert!(programs::run("mkfifo", &[pipe.as_os_str()]));
    let receiver = place.receive();
    let sent = place.send(&receiver, &[]);
    sent.assert_success();
    assert_eq!(sent.said.matches("skipped").count(), 4, "{}", sent.said);
    assert_eq!(fs::read_dir(place.arrived().join("a")).unwrap().count(), 0);
}

#[test]
fn links_may_lead_to_all_that_is_sent_and_to_nothing_else() {
    let place = Place::new();
    fs::create_dir_all(place.source().join("sub")).unwrap();
    fs::create_dir(place.path("sibling")).unwrap();
    for (name, target) in [
        ("sibling", "../sibling"),
        ("itself", "../source/sub"),
        ("key", "../job.key"),
        ("above", ".."),
        ("unclear", "sub/../f"),
        ("sub/root", ".."),
    ] {
        symlink(target, place.source().join(name)).unwrap();
    }
    let receiver = place.receive();
    let expect = |more: &[&str], skipped: &[&str]| {
        let mut sender = place.sender(&receiver.addr, &[]);
        let sent = Program::start(sender.args(more).current_dir(place.path(""))).end();
        sent.assert_success();
        let said = &sent.said;
        assert_eq!(said.matches("skipped").count(), skipped.len(), "{said}");
        for name in skipped {
            let told = format!("/source/{name}: ");
            assert!(said.contains(&told), "{name}: {said}");
        }
        let unclear = "unclear: `..` after a name is not followed";
        assert!(said.contains(unclear), "{said}");
    };
    expect(&[], &["sibling", "key", "above", "unclear"]);
    expect(&["sibling"], &["key", "above", "unclear"]);
    for there in ["sub/root", "itself", "sibling"] {
        assert!(place.arrived().join(there).is_dir(), "{there}");
    }
}

#[test]
fn one_file_that_cannot_be_written_does_not_hold_up_the_others() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    fs::write(place.source().join("good"), "good").unwrap();
    fs::write(place.source().join("bad"), "bad").unwrap();
    fs::create_dir_all(place.arrived().join("bad/in the way")).unwrap();
    let receiver = place.receive();
    let sent = place.send(&receiver, &[]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    assert!(
        sent.said.contains("source/bad: the receiver: "),
        "{}",
        sent.said
    );
    assert_eq!(fs::read(place.arrived().join("good")).unwrap(), b"good");
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    for told in [
        "cannot take source/bad from the sender at 127.0.0.1:",
        ": a folder stands where the file should be: move it away",
    ] {
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn senders_come_by_both_versions_of_ip() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    fs::write(place.source().join("bad"), "bad").unwrap();
    tree::random_file(&place.source().join("good"), 5 << 20);
    fs::create_dir_all(place.arrived().join("bad/in the way")).unwrap();
    if UdpSocket::bind("[::1]:0").is_err() {
        return;
    }
    let receiver = place.receive_with("[::]:0", &[]);
    let (_, port) = receiver.addr.rsplit_once(':').unwrap();
    for addr in ["127.0.0.1", "[::1]"] {
        let sent = place.send_to(&format!("{addr}:{port}"), &[]);
        assert_eq!(sent.code, Some(1), "{}", sent.said);
        let good = place.arrived().join("good");
        assert_eq!(fs::metadata(&good).unwrap().len(), 5 << 20);
        fs::remove_file(good).unwrap();
    }
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    // The first of them, as its user knows it.
    assert!(said.contains("from the sender at 127.0.0.1:"), "{said}");
}

#[test]
fn a_full_disk_is_said_at_both_ends() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    // It takes no room here, and more at the receiver than any disk has.
    let large = fs::File::create(place.source().join("large")).unwrap();
    large.set_len(8 << 40).unwrap();
    let receiver = place.receive();
    let sent = place.send(&receiver, &[]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    receiver.signal(Signal::INT);
    let received = receiver.end().said;
    for said in [&sent.said, &received] {
        assert!(said.contains("source/large"), "{said}");
        assert!(said.contains("make room on the receiver's disk"), "{said}");
    }
}

#[test]
fn a_file_that_is_larger_than_a_receiver_may_write_is_its_senders_concern_alone() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    tree::random_file(&place.source().join("large"), 16 << 20);
    tree::random_file(&place.source().join("medium"), 1 << 20);
    let receive = place.receiver("127.0.0.1:0", &[]);
    let mut limited = Command::new("prlimit");
    limited
        .arg(format!("--fsize={}", 8 << 20))
        .arg(receive.get_program())
        .args(receive.get_args())
        .envs(
            receive
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let receiver = Program::start(&mut limited);
    let sent = place.send(&receiver, &[]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    let said = "source/large: the receiver: File too large (os error 27): raise its limit";
    assert!(sent.said.contains(said), "{}", sent.said);
    assert!(sent.said.contains("(`ulimit -f`)"), "{}", sent.said);
    // Nothing of the other one.
    assert!(sent.said.contains(": 1.00 MiB moved"), "{}", sent.said);
    assert!(place.arrived().join("medium").exists());
    receiver.signal(Signal::INT);
    assert_eq!(receiver.end().code, Some(130));
}

#[test]
fn what_stands_in_the_way_is_said_before_the_content_moves() {
    let place = Place::new();
    fs::create_dir_all(place.source().join("folder")).unwrap();
    for name in ["large", "folder/below"] {
        tree::random_file(&place.source().join(name), 1 << 20);
    }
    fs::create_dir_all(place.arrived().join("large")).unwrap();
    fs::write(place.arrived().join("folder"), "a file").unwrap();
    let receiver = place.receive();
    let sent = place.send(&receiver, &[]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    for said in [
        "source/large: the receiver: a folder stands where the file should be: move it away",
        "source/folder/below: the receiver: a file or a symbolic link stands where the folder source/folder should be",
        "source/folder: the receiver: a file or a symbolic link stands",
        ": 0 B moved",
    ] {
        assert!(sent.said.contains(said), "{}", sent.said);
    }
    let partial = place.target().join(".sabani-partial");
    assert_eq!(fs::read_dir(partial).unwrap().count(), 0);
}

#[test]
fn a_link_in_the_receivers_folder_is_not_followed() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    fs::write(place.source().join("file"), "content").unwrap();
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(place.target()).unwrap();
    symlink(&outside, place.arrived()).unwrap();
    let receiver = place.receive();
    let sent = place.send(&receiver, &[]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    assert!(sent.said.contains("symbolic link"), "{}", sent.said);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn a_newer_file_replaces_an_older_one() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    let receiver = place.receive();
    for content in ["old", "newer", "new"] {
        fs::write(place.source().join("file"), content).unwrap();
        place.send(&receiver, &[]).assert_success();
        let arrived = fs::read_to_string(place.arrived().join("file")).unwrap();
        assert_eq!(arrived, content);
    }
}

#[test]
fn two_senders_of_the_same_file_both_succeed() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    tree::random_file(&place.source().join("big"), 24 << 20);
    let receiver = place.receive();
    let first = place.start_send(&receiver, &[]);
    let second = place.start_send(&receiver, &[]);
    first.end().assert_success();
    second.end().assert_success();
    tree::assert_same(&place.source(), &place.arrived());
}

#[test]
fn without_a_key_the_way_to_one_is_told() {
    let place = Place::new();
    for arguments in [&["receive", "in"][..], &["send", ".", "--to", "127.0.0.1"]] {
        let refused = sabani(arguments)
            .env_remove("SABANI_JOB_KEY_FILE")
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("`sabani key job.key`"), "{said}");
    }
    let key = place.path("new.key");
    let make = || sabani(&["key"]).arg(&key).output().unwrap().status.code();
    assert_eq!(make(), Some(0));
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(make(), Some(2), "a key is never overwritten");
}

#[test]
fn layers_that_can_not_be_are_mistakes_of_the_command_line() {
    let place = Place::new();
    let receive = |variable: &OsStr, options: &[&str]| {
        let mut command = sabani(&["receive", "--plain", "--bind", "127.0.0.1:0"]);
        command.args(options).arg(place.path("in"));
        let refused = command.env("SABANI_LAYERS", variable).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        said
    };
    let long = "[a]".repeat(10_000);
    for variable in [
        OsStr::new("sideways"),
        OsStr::from_bytes(b"\xff"),
        long.as_ref(),
    ] {
        let said = receive(variable, &[]);
        assert!(said.contains("SABANI_LAYERS="), "{said}");
        assert!(said.len() < 1_000, "{said}");
    }
    let unfit = ["--layers", "[messages][channel+seal+datagrams]"];
    let said = receive(OsStr::new("inline"), &unfit);
    assert!(said.contains("for '--layers"), "{said}");
}

#[test]
fn another_key_is_refused_and_said() {
    let place = Place::new();
    tree::of_oddities(&place.source());
    let receiver = place.receive();
    // Also to a receiver that has served others.
    place.send(&receiver, &[]).assert_success();
    let other = place.path("other.key");
    assert!(
        sabani(&["key"])
            .arg(&other)
            .output()
            .unwrap()
            .status
            .success()
    );
    let sent = place.send(&receiver, &["--key", other.to_str().unwrap()]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    assert!(
        sent.said.contains("the receiver has another job key"),
        "{}",
        sent.said
    );
    // Before the sender has given up.
    let early = format!("turned away by {}, trying", receiver.addr);
    assert!(sent.said.contains(&early), "{}", sent.said);
    assert!(!sent.said.contains("sent 0 files"), "{}", sent.said);
    let plain = place.send(&receiver, &["--plain"]);
    assert_eq!(plain.code, Some(1), "{}", plain.said);
    assert!(plain.said.contains("say `--key FILE`"), "{}", plain.said);
    // Not for each handshake.
    receiver.signal(Signal::INT);
    let said = receiver.end().said;
    let told = "handshakes were turned away, the last from 127.0.0.1:";
    assert!((1..=2).contains(&said.matches(told).count()), "{said}");
    assert!(
        said.contains("(another job key): senders need the same `--key`"),
        "{said}"
    );
}

#[test]
fn content_that_the_system_makes_up_is_not_sent_as_an_empty_file() {
    let place = Place::new();
    fs::create_dir_all(place.source()).unwrap();
    fs::write(place.source().join("file"), "content").unwrap();
    let receiver = place.receive();
    // At once, and once more after a file that is there already, for then it is offered first.
    for _ in 0..2 {
        let mut sender = place.sender(&receiver.addr, &["--jobs", "1"]);
        let sent = Program::start(sender.arg("/proc/cpuinfo")).end();
        assert_eq!(sent.code, Some(1), "{}", sent.said);
        let why = "cpuinfo: it is said to have 0 bytes";
        assert!(sent.said.contains(why), "{}", sent.said);
    }
    assert!(!place.target().join("cpuinfo").exists());
}

#[test]
fn paths_that_can_not_be_sent_are_mistakes_on_the_command_line() {
    let place = Place::new();
    fs::create_dir_all(place.path(".sabani-partial")).unwrap();
    assert!(programs::run("mkfifo", &[place.path("pipe").as_os_str()]));
    for path in [
        "/",
        ".sabani-partial",
        "no such file",
        "job.key/below",
        "pipe",
        "/dev/null",
    ] {
        let sent = sabani(&["send", "--to", "127.0.0.1", path])
            .current_dir(place.path(""))
            .output()
            .unwrap();
        assert_eq!(sent.status.code(), Some(2), "{path}");
    }
}

#[test]
fn what_its_user_may_not_read_or_write_is_a_mistake_on_the_command_line() {
    let place = Place::new();
    let folder = place.path("");
    let no_rights = fs::Permissions::from_mode(0o000);
    fs::create_dir(place.source()).unwrap();
    fs::write(place.path("file"), "content").unwrap();
    for name in ["source", "file"] {
        fs::set_permissions(place.path(name), no_rights.clone()).unwrap();
    }
    let refused = |arguments: &[&str]| {
        let mut command = programs::unprivileged(arguments);
        let ended = command.current_dir(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        said
    };
    let receive = ["receive", "--plain", "--bind", "127.0.0.1:0"];
    for said in [
        refused(&["send", "--plain", "--to", "127.0.0.1", "source"]),
        refused(&["send", "--plain", "--to", "127.0.0.1", "file"]),
        refused(&["send", "--to", "127.0.0.1", "job.key", "--key", "file"]),
        refused(&[&receive[..], &["source"]].concat()),
        refused(&[&receive[..], &["source/below"]].concat()),
    ] {
        assert!(said.contains("Permission denied"), "{said}");
        assert!(said.contains("`ls -ld`"), "{said}");
    }
    let said = refused(&[&receive[..], &["job.key/below"]].concat());
    assert!(
        said.contains("job.key is no folder: move it away"),
        "{said}"
    );
    let _first = place.receive();
    let said = refused(&[&receive[..], &["target"]].concat());
    assert!(said.contains("name another folder"), "{said}");
}

#[test]
fn nobody_there_is_said() {
    let place = Place::new();
    tree::of_oddities(&place.source());
    let sent = place.send_to("127.0.0.1:9", &[]);
    assert_eq!(sent.code, Some(1));
    assert!(sent.said.contains("is the peer running"), "{}", sent.said);
    let nowhere = place.send_to("0.0.0.0", &[]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.said);
    assert!(nowhere.said.contains("`--to 0.0.0.0`"), "{}", nowhere.said);
}

/// A node where a receiver would be.
fn plain_node() -> Node {
    let builder = Node::builder(PeerId(0)).plain(Checksum::Crc32c);
    let builder = builder.bind("127.0.0.1:0".parse().unwrap());
    builder.open().unwrap()
}

#[test]
fn a_program_that_is_no_receiver_is_said() {
    let place = Place::new();
    tree::of_oddities(&place.source());
    let other = plain_node();
    let addr = other.local_addr().to_string();
    let sent = place.send_to(&addr, &["--plain", "--patience", "1"]);
    assert_eq!(sent.code, Some(1), "{}", sent.said);
    assert!(
        sent.said.contains("is it `sabani receive`?"),
        "{}",
        sent.said
    );
}

#[test]
fn a_receiver_that_nobody_listens_to_goes_on() {
    let place = Place::new();
    tree::of_oddities(&place.source());
    let receiver = Program::start_unheard(&mut place.receiver("127.0.0.1:0", &[]));
    for _ in 0..2 {
        place.send(&receiver, &[]).assert_success();
    }
    receiver.signal(Signal::INT);
    assert_eq!(receiver.end().code, Some(130));
}

#[test]
fn once_ends_after_the_first_sender() {
    let place = Place::new();
    tree::of_oddities(&place.source());
    let receiver = place.receive_with("127.0.0.1:0", &["--once", "--plain"]);
    place.send(&receiver, &["--plain"]).assert_success();
    receiver.end().assert_success();
    tree::assert_same(&place.source(), &place.arrived());
    // Nothing of the receiver's own is left.
    assert_eq!(fs::read_dir(place.target()).unwrap().count(), 1);
}

#[test]
fn a_receiver_that_can_not_listen_leaves_nothing_behind() {
    let place = Place::new();
    let addr = "192.0.2.1:7226";
    let failed = place.receiver(addr, &[]).output().unwrap();
    assert_eq!(failed.status.code(), Some(2));
    assert!(!place.target().exists());
}
