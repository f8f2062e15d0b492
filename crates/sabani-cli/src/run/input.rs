//! Standard input, for rank 0.

use std::io::{self, IsTerminal};
use std::process::ChildStdin;
use std::thread;

use nix::unistd::getpgrp;
use rustix::termios::tcgetpgrp;

/// Copies standard input to a rank, in a thread that ends with this process.
pub fn pass_on(mut to: ChildStdin) {
    let stdin = io::stdin();
    if stdin.is_terminal() && !is_in_foreground(&stdin) {
        // Reading from a terminal that others use would stop this process.
        return;
    }
    thread::spawn(move || {
        // A rank that has ended reads no more.
        let _ = io::copy(&mut stdin.lock(), &mut to);
    });
}

fn is_in_foreground(stdin: &io::Stdin) -> bool {
    tcgetpgrp(stdin).is_ok_and(|group| group.as_raw_nonzero().get() == getpgrp().as_raw())
}
