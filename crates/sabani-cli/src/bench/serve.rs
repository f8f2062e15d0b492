//! The other half of a measurement between two machines.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use anyhow::{Context, Error, Result, anyhow};

use super::{args::ServeArgs, cores};
use crate::tell::note;

/// Starts a process for each machine that comes to measure, one after the other: two at a time
/// would measure each other.
///
/// # Errors
/// If the core or the address cannot be had.
pub fn run(args: &ServeArgs) -> Result<()> {
    cores::expect(args.pin)?;
    let listener = TcpListener::bind(args.listen).map_err(|error| unheard(args.listen, &error))?;
    note(format_args!(
        "waiting on {} for `sabani bench --to`",
        listener.local_addr()?
    ));
    for stream in listener.incoming() {
        if let Err(error) = stream.map_err(Error::from).and_then(|s| attend(s, args)) {
            note(format_args!("sabani: {error:#}"));
        }
    }
    Ok(())
}

/// Why nobody can be listened to, and what helps.
fn unheard(addr: SocketAddr, error: &io::Error) -> Error {
    let port = addr.port();
    let cure = match error.kind() {
        ErrorKind::AddrInUse => format!(
            ": another process has the port: `ss -tlpn 'sport = :{port}'` names it, `--listen` takes another one"
        ),
        ErrorKind::AddrNotAvailable => {
            ": this machine has no such address: `ip address` lists those it has, [::] is all of them".into()
        }
        ErrorKind::PermissionDenied if port < 1_024 => {
            ": ports below 1,024 are for root: take a larger one".into()
        }
        _ => String::new(),
    };
    anyhow!("cannot listen on {addr}: {error}{cure}")
}

/// Lets a worker talk to the connection as its standard input and output. It ends with the
/// connection, and sends to nobody else.
fn attend(stream: TcpStream, args: &ServeArgs) -> Result<()> {
    let peer = stream.peer_addr()?.ip().to_canonical();
    stream.set_nodelay(true)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench-worker", "--only", &peer.to_string()]);
    if let Some(core) = args.pin {
        command.args(["--core", &core.to_string()]);
    }
    args.layers.pass(&mut command);
    note(format_args!("{peer} measures"));
    let input = OwnedFd::from(stream.try_clone()?);
    let output = OwnedFd::from(stream);
    command
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .status()
        .context("cannot start a process to measure")?;
    Ok(())
}
