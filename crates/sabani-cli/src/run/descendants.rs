//! Ends what a process has started, however deep.

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// How long a killed process may take before it is looked for again.
const AGAIN: Duration = Duration::from_millis(5);

/// Kills all descendants and waits for them. This process must be a subreaper: those whose parents
/// die become its children.
pub fn kill_all() {
    loop {
        for pid in all() {
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(status) if status.pid().is_some() => {}
            _ => thread::sleep(AGAIN),
        }
    }
}

/// All descendants of this process that have not ended.
fn all() -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        if let Some(parent) = living_parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw()];
    while let Some(parent) = parents.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        found.extend(own.iter().copied().map(Pid::from_raw));
        parents.extend(own);
    }
    found
}

/// The parent in a line of `/proc/PID/stat`, unless the process has ended already. The name in it may
/// hold anything, but ends with the last parenthesis.
fn living_parent(stat: &str) -> Option<i32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_whatever_the_name() {
        assert_eq!(living_parent("7 (a) R 3) S 5 7 7 0"), Some(5));
        assert_eq!(living_parent("7 (sh) Z 5 7 7 0"), None);
        assert_eq!(living_parent(""), None);
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        assert!(all().contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!all().contains(&pid));
    }
}
