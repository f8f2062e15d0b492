//! How a rank has ended.

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(Signal),
}

impl End {
    /// Reads it from what the system says; None while the process lives.
    pub fn of(status: WaitStatus) -> Option<Self> {
        match status {
            WaitStatus::Exited(_, status) => Some(End::Exited(status)),
            WaitStatus::Signaled(_, signal, _) => Some(End::Killed(signal)),
            _ => None,
        }
    }

    /// Whether something went wrong.
    pub fn is_failure(self) -> bool {
        self != End::Exited(0)
    }

    /// What a shell would make of it.
    pub fn status(self) -> i32 {
        match self {
            End::Exited(status) => status,
            End::Killed(signal) => 128 + signal as i32,
        }
    }

    /// What became of a rank, as in `rank 3 was killed by SIGKILL`.
    pub fn why(self) -> String {
        match self {
            End::Exited(0) => "has ended".into(),
            End::Exited(status) => format!("ended with status {status}"),
            End::Killed(signal) => format!("was killed by {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::Pid;

    #[test]
    fn ends_are_those_of_a_shell() {
        let pid = Pid::from_raw(1);
        let killed = End::of(WaitStatus::Signaled(pid, Signal::SIGKILL, false)).unwrap();
        assert_eq!(
            (killed.status(), killed.why()),
            (137, "was killed by SIGKILL".into())
        );
        let failed = End::of(WaitStatus::Exited(pid, 3)).unwrap();
        assert_eq!((failed.status(), failed.is_failure()), (3, true));
        assert!(!End::Exited(0).is_failure());
        assert_eq!(End::of(WaitStatus::StillAlive), None);
    }
}
