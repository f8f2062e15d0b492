//! `sabani receive`: takes part in conversations until it is stopped.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sabani::{Error, Node};

use super::desk::Desk;
use super::lease::Leases;
use super::progress::{Progress, count_things, sum_up};
use super::protocol::{RECEIVER, Totals};
use super::store::Store;
use super::worker::Shared;
use super::{DEAD_AFTER, DEFAULT_PORT, SPIN};
use crate::address::parse_local;
use crate::exit::{Interrupted, Usage};
use crate::interrupt;
use crate::key::SealArgs;
use crate::key_log::KeyLogArgs;
use crate::layers::LayersOption;
use crate::tell::say;

/// How long the last answers may take to arrive.
const LINGER: Duration = Duration::from_secs(2);

/// Take files and folders from `sabani send` into a folder.
///
/// Names, permissions and modification times are kept. Owners are not: what arrives belongs to whoever
/// runs this command. Nor are set-user-ID, set-group-ID and sticky bits, further attributes, hard
/// links, which arrive as files of their own, and holes, which are filled with zeros.
///
/// Whoever has the job key may write below DIR, and nowhere else: paths that lead out are refused and no
/// symbolic link is followed. A file gets its name when it is whole, its content hash has been checked and
/// it is on the disk; a file of the same name is replaced then. Until then it grows in
/// DIR/.sabani-partial, where the next attempt finds it after a break of any kind; what nobody
/// has gone on with for seven days is removed at the start. A receiver that ends leaves that folder
/// behind only if there is something in it to go on with.
///
/// Permissions also hold for whoever runs this command: unless that is root, a folder that has come without
/// leave to write (as with mode 555) takes no further files until `chmod u+w` gives it.
///
/// Up to 256 senders are served at a time, up to 256 files of each. What one of them says that can't be
/// taken is thrown away, and told once; nobody waits for one that is slow or silent but itself.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 for success, 1 for a failure, 2 for a mistake on the command \
line or a DIR or an address that can't be used, 130 after Ctrl-C or a TERM signal."
)]
pub struct ReceiveArgs {
    /// The folder; made if it is not there.
    dir: PathBuf,
    /// The local address. Port 0 lets the system choose. Default: [::]:7226, all addresses of this machine, of both versions
    /// of IP; 0.0.0.0:7226 where it has no IPv6.
    #[arg(long, value_name = "ADDR", value_parser = parse_local)]
    bind: Option<SocketAddr>,
    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    key_log: KeyLogArgs,
    #[command(flatten)]
    layers: LayersOption,
    /// End when the first sender is done, or has left before that and not come back.
    #[arg(long)]
    once: bool,
    /// With `--once`: how long to wait for a sender that has left before it was done, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "once")]
    patience: u64,
}

/// With `--once`: what ends the program beside a sender that is done.
struct Patience {
    time: Duration,
    /// A sender has come.
    visited: bool,
    alone_since: Option<Instant>,
}

impl Patience {
    fn of(args: &ReceiveArgs) -> Option<Self> {
        args.once.then(|| Patience {
            time: Duration::from_secs(args.patience),
            visited: false,
            alone_since: None,
        })
    }

    /// # Errors
    /// If whoever came has left, and been away for too long.
    fn look(&mut self, is_busy: bool) -> Result<()> {
        self.visited |= is_busy;
        if is_busy || !self.visited {
            self.alone_since = None;
            return Ok(());
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.time {
            bail!(
                "the sender has been gone for {} s before it was done: what has come is kept; start this and the \
                 sender again to go on",
                self.time.as_secs()
            );
        }
        Ok(())
    }
}

/// Runs `sabani receive`.
///
/// # Errors
/// [`Usage`] if the folder or the address can't be used; after Ctrl-C, and with `--once` if something could
/// not be received.
pub fn run(args: &ReceiveArgs) -> Result<()> {
    outlive_large_files()?;
    let builder = args.seal.apply(Node::builder(RECEIVER))?;
    let builder = args.layers.apply(builder);
    let key_log = args.key_log.open()?;
    let builder = key_log
        .apply(builder)
        .dead_after(DEAD_AFTER)
        .linger(LINGER)
        .spin(SPIN);
    let node = listen(args.bind, |addr| builder.clone().bind(addr).open());
    let node = node.map_err(|error| match error {
        // Nothing was begun, and another `--bind` helps.
        Error::Socket { .. } => Usage::of(error).into(),
        error => anyhow!(error),
    })?;
    // After the socket: who can't be reached makes no folder.
    let store = Store::open(&args.dir)?;
    open_as_many_as_allowed();
    interrupt::install()?;
    // Files can be taken even if nobody reads this.
    let _ = say(format_args!("receiving on {}", node.local_addr()));
    let (finished, ends) = mpsc::channel();
    let shared = Arc::new(Shared {
        node,
        key_log,
        store,
        leases: Leases::default(),
        progress: Progress::of_receiver(),
        untaken: Mutex::default(),
        finished,
    });
    let mut desk = Desk::open(&shared);
    let outcome = serve(&shared, &mut desk, &ends, Patience::of(args));
    // Senders that are cut off here come back, and files that are not whole are kept.
    let _ = shared.node.close(LINGER);
    // What has come by now still gets its name, and counts, if the disk takes it in that time. What it doesn't is whole
    // in `.sabani-partial`, and has only its name to get when the sender comes again.
    desk.clear(LINGER);
    shared.progress.finish("received");
    let tidied = shared.store.tidy();
    outcome.and(tidied.context("removing what holds nothing from .sabani-partial"))
}

/// Opens a node at this address, or else where all can reach it.
fn listen<T>(
    addr: Option<SocketAddr>,
    open: impl Fn(SocketAddr) -> Result<T, Error>,
) -> Result<T, Error> {
    if let Some(addr) = addr {
        return open(addr);
    }
    // Not IPv4 alone: a name may stand for an IPv6 address first, as `localhost` often does.
    match open((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into()) {
        Err(Error::Socket { source, .. }) if lacks_ipv6(&source) => {
            open((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT).into())
        }
        opened => opened,
    }
}

fn lacks_ipv6(why: &io::Error) -> bool {
    let why = Errno::from_io_error(why);
    matches!(why, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// A file that becomes larger than this process may write (`ulimit -f`) is an error of whoever sent it, and ends
/// nothing else. Before there are other threads, which block what this one does.
fn outlive_large_files() -> Result<()> {
    let signal = SigSet::from(Signal::SIGXFSZ);
    signal.thread_block().context("blocking SIGXFSZ")
}

/// Each file that is on its way is open: the limit that programs have at first is for fewer.
fn open_as_many_as_allowed() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If not, files that can't be opened are refused, with the cure.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn serve(
    shared: &Shared,
    desk: &mut Desk,
    ends: &Receiver<Totals>,
    mut once: Option<Patience>,
) -> Result<()> {
    loop {
        if interrupt::requested() {
            return Err(Interrupted(desk.last_word()).into());
        }
        desk.welcome()?;
        for totals in ends.try_iter() {
            report(shared, &totals);
            match totals.failed {
                0 if once.is_some() => return Ok(()),
                failed if once.is_some() => bail!("{} could not be received", count_things(failed)),
                _ => {}
            }
        }
        if let Some(patience) = &mut once {
            patience.look(desk.is_busy())?;
        }
    }
}

fn report(shared: &Shared, totals: &Totals) {
    let Totals {
        files,
        bytes,
        failed,
    } = totals;
    let mut text = format!("a sender has sent {}", sum_up(*files, *bytes, None));
    if *failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    shared.progress.note(text);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn all_can_come_by_ipv6_and_by_ipv4_where_that_is_missing() {
        let tried = |addr: Option<SocketAddr>, why: Option<Errno>| {
            let tried = RefCell::new(Vec::new());
            let _ = listen(addr, |addr| {
                tried.borrow_mut().push(addr.to_string());
                match why.filter(|_| addr.is_ipv6()) {
                    Some(why) => Err(Error::Socket {
                        addr,
                        source: why.into(),
                    }),
                    None => Ok(()),
                }
            });
            tried.into_inner()
        };
        let (six, four) = ("[::]:7226", "0.0.0.0:7226");
        assert_eq!(tried(None, None), [six]);
        assert_eq!(tried(None, Some(Errno::AFNOSUPPORT)), [six, four]);
        assert_eq!(tried(None, Some(Errno::ADDRINUSE)), [six]);
        let own = "[::1]:9".parse().ok();
        assert_eq!(tried(own, Some(Errno::AFNOSUPPORT)), ["[::1]:9"]);
    }
}
