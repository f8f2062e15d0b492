//! Small messages that come steadily over a long path: they do not ask for credit one by one.

use sabani_sim::{MS, Plan};

/// The median time of messages of each stream, in milliseconds and 20 s of them.
fn medians_ms(delay_ms: u64, streams: &[&str]) -> Vec<u64> {
    let streams = streams
        .iter()
        .map(|stream| format!("[[traffic]]\nfrom = 1\nto = 0\n{stream}\n"));
    let network = format!("[network]\nrate = \"1gbit\"\ndelay = \"{delay_ms}ms\"\n");
    let text = format!("hosts = 2\n{network}{}", streams.collect::<String>());
    let outcome = Plan::from_toml(&text).expect("it is a plan").run();
    assert!(outcome.failure.is_none(), "{text}: {:?}", outcome.failure);
    let median = |times: Vec<u64>| times[times.len() / 2] / MS;
    let times = outcome.streams.iter().map(|stream| stream.sorted_ns());
    times.map(median).collect()
}

/// It took 224 ms at 50 ms one way.
#[test]
fn a_steady_stream_takes_the_paths_time() {
    for (delay_ms, every, rounds) in [
        (50, "1ms", 20_000),
        (50, "2ms", 10_000),
        (25, "500us", 40_000),
        (5, "100us", 100_000),
    ] {
        let stream = format!("bytes = 1000\nevery = \"{every}\"\nrounds = {rounds}");
        assert_eq!(medians_ms(delay_ms, &[&stream]), [delay_ms], "{every}");
    }
}

/// Both took 202 ms.
#[test]
fn what_is_sent_once_does_not_hold_up_what_is_reliable() {
    let reliable = "bytes = 10\nevery = \"100us\"\nrounds = 100000";
    let once = format!("{reliable}\nonce = true");
    assert_eq!(medians_ms(10, &[&once, reliable]), [10, 10]);
}
