//! Output of the ranks, line by line.

use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A line that stays unfinished for so long is shown as it is: it may be a prompt.
const PROMPT: Duration = Duration::from_millis(200);
/// A line longer than that is shown in pieces.
const LINE_BYTES: usize = 64 << 10;

/// What a rank writes, and where it has to go.
struct Source<R> {
    from: R,
    prefix: String,
    unfinished: Vec<u8>,
    /// Since when it is unfinished.
    since: Option<Instant>,
    open: bool,
}

/// Lines of several ranks on their way to one output.
pub struct Lines<R, W> {
    sources: Vec<Source<R>>,
    to: W,
    /// Whose line is unfinished there.
    begun: Option<usize>,
}

impl<R: Read + AsFd, W: Write> Lines<R, W> {
    /// Each rank's output; with a prefix for each line, or as it is.
    pub fn new(outputs: impl IntoIterator<Item = R>, to: W, has_prefix: bool) -> Self {
        let outputs: Vec<R> = outputs.into_iter().collect();
        let width = outputs.len().saturating_sub(1).to_string().len();
        let source = |(rank, from): (usize, R)| Source {
            from,
            prefix: if has_prefix {
                format!("[{rank:width$}] ")
            } else {
                String::new()
            },
            unfinished: Vec::new(),
            since: None,
            open: true,
        };
        Self {
            sources: outputs.into_iter().enumerate().map(source).collect(),
            to,
            begun: None,
        }
    }

    /// Carries lines until all ranks have closed their output.
    ///
    /// # Errors
    /// If they can't be written any more. The ranks find their output closed once this is dropped.
    pub fn carry(&mut self) -> Result<()> {
        while self.sources.iter().any(|source| source.open) {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        let ready = self.wait();
        // Before anything is written: that may take long, and what is late then is only late here.
        self.show_prompts(&ready)?;
        for at in ready {
            self.read(at)?;
        }
        self.to.flush()
    }

    /// Those who have something to read; nobody if it is time to show a prompt.
    fn wait(&self) -> Vec<usize> {
        let open: Vec<usize> = (0..self.sources.len())
            .filter(|&at| self.sources[at].open)
            .collect();
        let source = |&at: &usize| PollFd::new(self.sources[at].from.as_fd(), PollFlags::POLLIN);
        let mut fds: Vec<_> = open.iter().map(source).collect();
        let oldest = self.sources.iter().filter_map(|source| source.since).min();
        let timeout = oldest.map_or(PollTimeout::NONE, |since| {
            let left = PROMPT.saturating_sub(since.elapsed());
            // Rounded up, or the last millisecond would be spent asking.
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        while poll(&mut fds, timeout) == Err(Errno::EINTR) {}
        let ready = open.into_iter().zip(&fds);
        ready
            .filter_map(|(at, fd)| fd.any()?.then_some(at))
            .collect()
    }

    fn read(&mut self, at: usize) -> Result<()> {
        let source = &mut self.sources[at];
        let mut bytes = [0; 1 << 14];
        let count = match source.from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            // A pipe that can't be read has nothing to say.
            read => read.unwrap_or(0),
        };
        source.open = count > 0;
        source.unfinished.extend(&bytes[..count]);
        let is_last = !source.open || source.unfinished.len() > LINE_BYTES;
        let newline = source.unfinished.iter().rposition(|&byte| byte == b'\n');
        let whole = match (is_last, newline) {
            (true, _) => source.unfinished.len(),
            (false, newline) => newline.map_or(0, |newline| newline + 1),
        };
        self.show(at, whole)
    }

    /// Shows the lines that are unfinished for so long, whatever others print meanwhile; not of those who have written more.
    fn show_prompts(&mut self, ready: &[usize]) -> Result<()> {
        let now = Instant::now();
        let is_late = |since| now.duration_since(since) >= PROMPT;
        for at in (0..self.sources.len()).filter(|at| !ready.contains(at)) {
            let source = &self.sources[at];
            if source.since.is_some_and(is_late) {
                self.show(at, source.unfinished.len())?;
            }
        }
        Ok(())
    }

    /// Shows the first bytes of what a rank has written.
    fn show(&mut self, at: usize, count: usize) -> Result<()> {
        let source = &mut self.sources[at];
        let rest = source.unfinished.split_off(count);
        let bytes = std::mem::replace(&mut source.unfinished, rest);
        let begun = source.since.filter(|_| count == 0);
        source.since = match source.unfinished.is_empty() {
            true => None,
            false => begun.or_else(|| Some(Instant::now())),
        };
        let mut shown = Vec::with_capacity(bytes.len() + source.prefix.len());
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.begun != Some(at) {
                if self.begun.take().is_some() {
                    shown.push(b'\n');
                }
                shown.extend(source.prefix.as_bytes());
            }
            shown.extend(line);
            self.begun = (!line.ends_with(b"\n")).then_some(at);
        }
        self.to.write_all(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    fn carried(written: &[&str], has_prefix: bool) -> String {
        let mut readers = Vec::new();
        for text in written {
            let (reader, mut writer) = pipe().unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            readers.push(reader);
        }
        let mut shown = Vec::new();
        Lines::new(readers, &mut shown, has_prefix).carry().unwrap();
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn each_line_has_its_rank_before_it() {
        let shown = carried(&["a\nb\n", "c\n"], true);
        assert_eq!(shown, "[0] a\n[0] b\n[1] c\n");
        assert_eq!(carried(&["a\nb\n", "c\n"], false), "a\nb\nc\n");
    }

    #[test]
    fn unfinished_lines_stay_apart() {
        assert_eq!(carried(&["a", "b\n"], true), "[1] b\n[0] a");
        assert_eq!(carried(&["a", "b"], false), "a\nb");
    }

    #[test]
    fn prompts_are_shown_while_the_rank_waits() {
        let (reader, mut writer) = pipe().unwrap();
        let (mut shown, end) = pipe().unwrap();
        let lines = std::thread::spawn(|| Lines::new([reader], end, true).carry());
        writer.write_all(b"name? ").unwrap();
        let mut prompt = [0; 10];
        shown.read_exact(&mut prompt).unwrap();
        assert_eq!(&prompt, b"[0] name? ");
        writer.write_all(b"thanks\n").unwrap();
        drop(writer);
        let mut rest = String::new();
        shown.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "thanks\n");
        lines.join().unwrap().unwrap();
    }

    #[test]
    fn prompts_are_shown_while_another_rank_talks() {
        let (asking, mut prompt) = pipe().unwrap();
        let (talking, mut talk) = pipe().unwrap();
        let mut lines = Lines::new([asking, talking], Vec::new(), true);
        prompt.write_all(b"name? ").unwrap();
        lines.turn().unwrap();
        lines.sources[0].since = Instant::now().checked_sub(PROMPT);
        talk.write_all(b"step\nste").unwrap();
        lines.turn().unwrap();
        assert_eq!(lines.to, b"[0] name? \n[1] step\n");
        talk.write_all(b"p\n").unwrap();
        lines.turn().unwrap();
        assert_eq!(lines.to, b"[0] name? \n[1] step\n[1] step\n");
        assert!(lines.sources.iter().all(|source| source.since.is_none()));
    }

    #[test]
    fn a_line_of_which_the_rest_has_come_stays_whole_however_late_it_is_shown() {
        let (long, mut write) = pipe().unwrap();
        let (talking, mut talk) = pipe().unwrap();
        let mut lines = Lines::new([long, talking], Vec::new(), true);
        write.write_all(b"a long ").unwrap();
        lines.turn().unwrap();
        // Showing others' took so long.
        lines.sources[0].since = Instant::now().checked_sub(PROMPT);
        write.write_all(b"line\n").unwrap();
        talk.write_all(b"step\n").unwrap();
        lines.turn().unwrap();
        assert_eq!(lines.to, b"[0] a long line\n[1] step\n");
    }
}
