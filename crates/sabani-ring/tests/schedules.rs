//! The same layers under every schedule: nothing is lost, nothing overtakes, whoever is slow.

use std::{sync::mpsc, thread, time::Duration};

use sabani_ring::{Idle, Item, Layer, Pool, Ports, Recycle, Schedule, Stack, Stop, pass};

const LAYERS: usize = 4;

/// A primitive: the marks of the layers that it went through, and what it carries.
struct Parcel {
    number: u64,
    marks: Vec<Item<Mark>>,
}

/// Which layer took it, and for which parcel.
#[derive(Default)]
struct Mark {
    layer: usize,
    number: u64,
}

impl Recycle for Mark {}

/// Marks what goes down with a buffer of its own, and checks and frees the mark of what comes back up.
struct Marker {
    layer: usize,
    marks: Pool<Mark>,
    /// Looks at which it does nothing, so that rings fill and run dry.
    lazy: Lazy,
}

/// Pauses that look random.
struct Lazy(u64);

impl Lazy {
    fn pauses(&mut self) -> bool {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        match self.0 >> 56 {
            // Long enough for the neighbours to fall asleep.
            0 => thread::sleep(Duration::from_micros(100)),
            look => return look % 3 == 0,
        }
        false
    }
}

impl Layer<Parcel> for Marker {
    fn step(&mut self, ports: &mut Ports<Parcel>) -> usize {
        if self.lazy.pauses() {
            // It has something to do, just not now.
            return 1;
        }
        let Ports {
            above,
            below,
            batch,
        } = ports;
        let (layer, marks) = (self.layer, &mut self.marks);
        let down = |mut parcel: Parcel| {
            let number = parcel.number;
            parcel
                .marks
                .push(marks.take(|mark| *mark = Mark { layer, number }));
            Some(parcel)
        };
        let lowest = layer == LAYERS - 1;
        let to = if lowest {
            &mut above.outlet
        } else {
            &mut below.outlet
        };
        let down = pass(&mut above.inlet, to, *batch, down);
        let up = |mut parcel: Parcel| {
            let mark = parcel.marks.remove(self.layer);
            assert_eq!((mark.layer, mark.number), (self.layer, parcel.number));
            // Some go back from here, others from wherever the parcel ends.
            match parcel.number % 2 {
                0 => self.marks.give(mark),
                _ => parcel.marks.insert(self.layer, mark),
            }
            Some(parcel)
        };
        down + pass(&mut below.inlet, &mut above.outlet, *batch, up)
    }
}

/// Sends numbered parcels and checks that they come back in order.
struct User {
    sent: u64,
    received: u64,
    total: u64,
    finished: mpsc::Sender<u64>,
    stop: Stop,
}

impl Layer<Parcel> for User {
    fn step(&mut self, ports: &mut Ports<Parcel>) -> usize {
        let parcels = (self.sent..self.total).map(|number| Parcel {
            number,
            marks: Vec::new(),
        });
        let sent = ports.below.outlet.fill(ports.batch, parcels);
        self.sent += sent as u64;
        let mut received = 0;
        for parcel in ports.below.inlet.drain(ports.batch) {
            assert_eq!(parcel.number, self.received);
            self.received += 1;
            received += 1;
        }
        if received > 0 && self.received == self.total {
            self.finished.send(self.received).unwrap();
            self.stop.set();
        }
        sent + received
    }
}

fn run(schedule: &Schedule, slots: usize, batch: usize, total: u64) {
    let (finished, outcome) = mpsc::channel();
    let stop = Stop::default();
    let mut stack = Stack::new(slots, batch);
    let user = User {
        sent: 0,
        received: 0,
        total,
        finished,
        stop: stop.clone(),
    };
    stack.push("user", user);
    for layer in 0..LAYERS {
        let marker = Marker {
            layer,
            marks: Pool::new(8, Mark::default),
            lazy: Lazy(layer as u64),
        };
        stack.push(format!("marker{layer}"), marker);
    }
    stack
        .start(schedule, Idle::default(), &stop)
        .unwrap()
        .wait();
    assert_eq!(outcome.try_recv(), Ok(total));
}

#[test]
fn no_schedule_loses_or_reorders() {
    let total = if cfg!(miri) { 20 } else { 500 };
    for schedule in [
        "inline",
        "background",
        "per-core",
        "per-layer",
        "[user][marker0+marker1+marker2+marker3]",
        "[user+marker0+marker1][marker2][marker3]",
    ] {
        let schedule = schedule.parse().unwrap();
        for (slots, batch) in [(1, 1), (2, 8), (64, 1), (64, 16)] {
            run(&schedule, slots, batch, total);
        }
    }
}

#[test]
fn a_layer_that_panics_stops_the_others() {
    struct Broken;
    impl Layer<()> for Broken {
        fn step(&mut self, _: &mut Ports<()>) -> usize {
            panic!("on purpose")
        }
    }
    struct Idler;
    impl Layer<()> for Idler {
        fn step(&mut self, _: &mut Ports<()>) -> usize {
            0
        }
    }
    let stop = Stop::default();
    let mut stack = Stack::new(1, 1);
    stack.push("idler", Idler);
    stack.push("broken", Broken);
    let running = stack
        .start(&Schedule::PerLayer, Idle::default(), &stop)
        .unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.wait()));
    assert!(outcome.is_err() && stop.is_set());
}

#[test]
fn dropping_a_running_stack_stops_it() {
    struct Idler;
    impl Layer<()> for Idler {
        fn step(&mut self, _: &mut Ports<()>) -> usize {
            0
        }
    }
    let stop = Stop::default();
    let mut stack = Stack::new(1, 1);
    stack.push("idler", Idler);
    let running = stack.start(&Schedule::Background, Idle::default(), &stop);
    drop(running.unwrap());
    assert!(stop.is_set());
}
